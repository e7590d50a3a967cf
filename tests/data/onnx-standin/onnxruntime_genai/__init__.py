"""Plays recorded generations through the part of onnxruntime-genai's API that the worker uses.

For machines where the real package is not installed. A prompt that was recorded gets its recorded
tokens; the prompts ``die`` and ``hang`` do that; every text has a token a word.
"""

import json
import os
import time
from pathlib import Path

CAPTURES = Path(__file__).parents[2] / "captures" / "onnxruntime-genai"


class Model:
    device_type = "CPU"

    def __init__(self, folder):
        if not (Path(folder) / "model.onnx").exists():
            raise RuntimeError(f"Error opening {folder}/model.onnx")


class Stream:
    def __init__(self, texts):
        self._texts = texts

    def decode(self, token):
        return self._texts.pop(0)[1]


class Tokenizer:
    eos_token_ids = (2,)
    recording = None

    def __init__(self, model):
        pass

    def apply_chat_template(self, messages, add_generation_prompt):
        prompt = json.loads(messages)[-1]["content"]
        Tokenizer.recording = None
        for path in sorted(CAPTURES.glob("*.jsonl")):
            lines = [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
            if lines[0]["prompt"] == prompt:
                Tokenizer.recording = lines
        if prompt == "no template":
            raise RuntimeError("Chat template not found")
        return prompt

    def encode(self, text):
        if Tokenizer.recording is not None and text == Tokenizer.recording[0]["prompt"]:
            return list(range(Tokenizer.recording[0]["prompt_tokens"]))
        return text.split()

    def create_stream(self):
        return Stream([(t["id"], t["text"]) for t in tokens()])


def tokens():
    recording = Tokenizer.recording or []
    return [line for line in recording if line["kind"] == "token"]


class GeneratorParams:
    def __init__(self, model):
        self.options = {}

    def set_search_options(self, **options):
        self.options.update(options)


class Generator:
    def __init__(self, model, params):
        self._limit = params.options["max_length"]
        self._count = 0
        self._at = -1
        self._tokens = tokens()

    def append_tokens(self, ids):
        self._count = len(ids)
        if list(ids) == ["die"]:
            os._exit(7)
        if list(ids) == ["hang"]:
            time.sleep(600)

    def is_done(self):
        return self._count >= self._limit or self._at + 1 >= len(self._tokens)

    def generate_next_token(self):
        self._at += 1
        self._count += 1

    def get_next_tokens(self):
        return [self._tokens[self._at]["id"]]
