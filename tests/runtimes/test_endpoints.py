"""Addresses: default ports, and the variables that move one runtime each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.runtimes.endpoints import (
    PORTS,
    default_urls,
    foundry_daemon_url,
    is_loopback_url,
    ollama_url,
)
from pytest_benchrig.runtimes.http import Endpoint


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("OLLAMA_HOST", "OPENAI_BASE_URL", "FOUNDRY_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("1.2.3.4", "http://1.2.3.4:11434"),
        ("1.2.3.4:1234", "http://1.2.3.4:1234"),
        (":1234", "http://127.0.0.1:1234"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:80", "http://127.0.0.1:80"),
        ("http://0.0.0.0:11500", "http://127.0.0.1:11500"),
        ("gpu.lan", "http://gpu.lan:11434"),
        ("gpu.lan:", "http://gpu.lan:11434"),
        ("http://gpu.lan", "http://gpu.lan:80"),
        ("https://gpu.lan", "https://gpu.lan:443"),
        ("HTTPS://gpu.lan", "https://gpu.lan:443"),
        ("https://gpu.lan:1234", "https://gpu.lan:1234"),
        ("http://gpu.lan/ollama/", "http://gpu.lan:80/ollama"),
        ("gpu.lan/ollama", "http://gpu.lan:11434/ollama"),
        ("gpu.lan:1/ollama", "http://gpu.lan:1/ollama"),
        ("[::1]", "http://[::1]:11434"),
        ("[::1]:1337", "http://[::1]:1337"),
        ("::1", "http://[::1]:11434"),
        ("[::]", "http://[::1]:11434"),
        ("http://[::]:1337", "http://[::1]:1337"),
        ("[0001:002:003:0004::1]:1337", "http://[0001:002:003:0004::1]:1337"),
        (" 1.2.3.4 ", "http://1.2.3.4:11434"),
        ('"1.2.3.4"', "http://1.2.3.4:11434"),
        ("' 1.2.3.4 '", "http://1.2.3.4:11434"),
        ("1.2.3.4:99999", "http://1.2.3.4:11434"),
        ("1.2.3.4:port", "http://1.2.3.4:11434"),
        ("http://me:pw@gpu.lan:1234", "http://me:pw@gpu.lan:1234"),
        ("localhost", "http://localhost:11434"),
    ],
)
def test_ollama_host_in_all_its_spellings(
    monkeypatch: pytest.MonkeyPatch, value: str, url: str
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", value)
    assert default_urls("ollama") == (url,)
    Endpoint.parse(url)


@given(st.text())
def test_whatever_it_says_is_an_address_or_a_clear_fault(value: str) -> None:
    assert "://" in ollama_url(value)


def test_the_usual_ports() -> None:
    assert {name: default_urls(name) for name in PORTS} == {
        "ollama": ("http://127.0.0.1:11434",),
        "llamacpp": ("http://127.0.0.1:8080",),
        "vllm": ("http://127.0.0.1:8000",),
        "lmstudio": ("http://127.0.0.1:1234",),
        "foundry": ("http://127.0.0.1:5273",),
        "prism": ("http://127.0.0.1:5272",),
        "openai": ("http://127.0.0.1:8000",),
    }
    assert default_urls("embedded") == default_urls("onnx") == default_urls("replay") == ()


def test_each_variable_moves_its_own_runtime_only(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {name: default_urls(name) for name in PORTS}
    monkeypatch.setenv("OLLAMA_HOST", "a:1")
    monkeypatch.setenv("OPENAI_BASE_URL", " http://b:2/v1 ")
    monkeypatch.setenv("FOUNDRY_BASE_URL", "http://c:3")
    moved = {name: default_urls(name) for name in PORTS}
    assert moved.pop("ollama") == ("http://a:1",)
    assert moved.pop("openai") == ("http://b:2/v1",)
    assert moved.pop("foundry") == ("http://c:3",)
    assert all(before[name] == url for name, url in moved.items())


class TestFoundrysDaemonFile:
    @pytest.fixture
    def daemon(self, tmp_path: Path) -> Path:
        (tmp_path / ".foundry").mkdir()
        return tmp_path / ".foundry" / "daemon.json"

    def test_it_names_the_port_of_this_start(self, daemon: Path) -> None:
        daemon.write_text(json.dumps({"web_urls": ["http://127.0.0.1:62796/"], "pid": 1}))
        assert default_urls("foundry") == ("http://127.0.0.1:62796",)

    def test_the_variable_wins(self, daemon: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        daemon.write_text(json.dumps({"web_urls": ["http://127.0.0.1:62796"]}))
        monkeypatch.setenv("FOUNDRY_BASE_URL", "http://127.0.0.1:1")
        assert default_urls("foundry") == ("http://127.0.0.1:1",)

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "[]",
            "{",
            "null",
            '{"web_urls": null}',
            '{"web_urls": [7, "http://evil.example:80", "http://[", ""]}',
        ],
    )
    def test_without_a_usable_address_the_default_is_taken(self, daemon: Path, text: str) -> None:
        daemon.write_text(text)
        assert foundry_daemon_url() is None
        assert default_urls("foundry") == ("http://127.0.0.1:5273",)

    def test_a_folder_in_its_place(self, daemon: Path) -> None:
        daemon.mkdir()
        assert foundry_daemon_url() is None


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:1", True),
        ("http://127.8.8.8", True),
        ("localhost:11434", True),
        ("https://me.localhost", True),
        ("http://[::1]:1", True),
        ("http://0.0.0.0:1", False),
        ("http://192.168.0.2", False),
        ("http://localhost.evil.example", False),
        ("http://127.0.0.1.evil.example", False),
        ("http://[", False),
    ],
)
def test_what_is_this_machine(url: str, local: bool) -> None:
    assert is_loopback_url(url) is local
