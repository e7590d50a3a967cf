"""Getting the code out of a reply."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.core.code_blocks import extract_code, truncation_text
from pytest_benchrig.core.fences import QuoteState, fenced_blocks, language_of

CASES = json.loads((Path(__file__).parents[1] / "data/cases/extraction.json").read_text("utf-8"))
ADD = "def add(a, b):\n    return a + b\n"


def code_of(reply: str, *wanted: str, cut_off: bool = False) -> str:
    found = extract_code(reply, cut_off=cut_off, budget="512", wanted=wanted or ("add",))
    assert found.kind == "code", found
    return found.code


def namespace_of(reply: str, *wanted: str) -> dict[str, Any]:
    """The names after running the code; only ever for the replies written in this file."""
    names: dict[str, Any] = {"__name__": "candidate"}
    exec(compile(code_of(reply, *wanted), "candidate", "exec", dont_inherit=True), names)
    return names


def adds(reply: str) -> bool:
    return bool(namespace_of(reply)["add"](2, 3) == 5)


@pytest.mark.parametrize("case", CASES, ids=[c["id"] for c in CASES])
def test_shared_cases(case: dict[str, Any]) -> None:
    answer = case["response"].split("</think>")[-1]

    found = extract_code(answer, cut_off=case["finish_reason"] == "length", wanted=("add",))

    expected = case["expect"]["verdict"]
    assert found.kind == (expected if expected in ("no_code", "truncated") else "code")


@pytest.mark.parametrize(
    "reply",
    [
        f"```python\n{ADD}```",
        f"```Python\n{ADD}```",
        f"```py\n{ADD}```",
        f"```python3\n{ADD}```",
        f"```PYTHON\n{ADD}```",
        f"```\n{ADD}```",
        f"~~~\n{ADD}~~~",
        f"````python\n{ADD}````",
        f"``````\n{ADD}``````",
        f"``` python\n{ADD}```",
        f'```python title="add.py" linenums="1"\n{ADD}```',
        f"```{{.python .numberLines}}\n{ADD}```",
        f"```python:add.py\n{ADD}```",
        f"```python {{highlight: [1]}}\n{ADD}```",
        f"```python\r\n{ADD}```".replace("\n", "\r\n"),
        f"\ufeff```python\n{ADD}```",
        f"```python\n\u200b{ADD}```",
        f"```python\n{ADD}```".replace("    return", "\u00a0\u00a0\u00a0\u00a0return"),
        "```python\ndef add(a, b):\n\treturn a + b\n```",
        f"```\npython\n{ADD}```",
        f"python\n{ADD}",
        ADD,
        f"\n\n{ADD}\n\n",
        f"Here it is:\n\n{ADD}\nThis adds the numbers.",
        f"Sure, import the function below.\n\n{ADD}\nHope it helps!",
        "Like this:\n\n    def add(a, b):\n        return a + b\n\nDone.",
        "<pre><code>def add(a, b):\n    return a + b\n</code></pre>",
        '<pre><code class="language-python">def add(a, b):\n    return a + b\n</code></pre>',
        "<PRE>\ndef add(a, b):\n    return a + b if a &lt; 10**9 else b + a\n</PRE>",
        "```pycon\n>>> def add(a, b):\n...     return a + b\n...\n>>> add(2, 3)\n5\n```",
        ">>> def add(a, b):\n...     return a + b\n...\n>>> add(1, 1)\n2\n",
        "> ```python\n> def add(a, b):\n>     return a + b\n> ```",
        "- ```python\n  def add(a, b):\n      return a + b\n  ```",
        "1. First\n\n    ```python\n    def add(a, b):\n        return a + b\n    ```\n",
        "10. Then\n\n\t```python\n\tdef add(a, b):\n\t    return a + b\n\t```\n",
        "```python\ndef add(a, b):\n    return a + b```",
        "```def add(a, b):\n    return a + b\n```",
        "```python def add(a, b): return a + b```",
        "```python\n    def add(a, b):\n        return a + b\n```",
        f"```bash\npip install add\n```\n\n```python\n{ADD}```",
        f"```python\n{ADD}```\n\nOutput:\n\n```\n5\n```",
        f"```python\n{ADD}```\n\n```text\nadd(2, 3) -> 5\n```",
        f'```json\n{{"add": 1}}\n```\n```python\n{ADD}```',
        f"```python\n{ADD}```\n\n```python\n>>> add(2, 3)\n5\n```",
        f"```python\n{ADD}```\n\n```python\nresult = add(2, 3)\nprint(result)\n```",
        f"```python\n{ADD}```\n\n```python\nimport unittest\nfrom solution import add\n"
        "class TestAdd(unittest.TestCase):\n    def test(self): assert add(1, 1) == 2\n```",
        f"```python\nadd(2, 3)  # 5\n```\n\nwhere\n\n```python\n{ADD}```",
        "```python\nadd = lambda a, b: a + b\n```",
        "```python\nfrom operator import add\n```",
        f"```python\n{ADD}\nif __name__ == '__main__':\n    raise SystemExit(add(1, 2))\n```",
        f"Use `add(2, 3)`.\n```python\n{ADD}```\nand ``` stays.",
    ],
)
def test_code_is_found(reply: str) -> None:
    assert adds(reply)


def test_a_fence_inside_a_docstring_is_not_an_end() -> None:
    reply = (
        "```python\ndef add(a, b):\n"
        '    """Add.\n\n    ```\n    add(2, 3)\n    ```\n    """\n'
        "    return a + b\n```\nDone."
    )

    assert adds(reply)


def test_a_fence_inside_a_string_without_indent_is_not_an_end() -> None:
    reply = "```python\nTEXT = '''\n```\nnot the end\n```\n'''\n" + ADD + "```"

    assert namespace_of(reply)["TEXT"] == "\n```\nnot the end\n```\n"


def test_a_prompt_inside_a_docstring_is_not_a_session() -> None:
    reply = (
        '```python\ndef add(a, b):\n    """\n    >>> add(2, 3)\n    5\n    """\n'
        "    return a + b\n```"
    )

    assert adds(reply)
    assert ">>> add(2, 3)" in namespace_of(reply)["add"].__doc__


def test_one_block_is_kept_to_the_letter() -> None:
    source = "# a comment\n\n\ndef add(a, b):\n    return a + b  # ok\n"

    assert code_of(f"```python\n{source}```") == source.rstrip("\n")


def test_a_later_redefinition_replaces_an_earlier_one() -> None:
    reply = (
        "```python\ndef add(a, b):\n    return a - b\nprint(1 / 0)\n```\nBetter:\n"
        f"```python\n{ADD}```"
    )

    assert adds(reply)
    assert "1 / 0" not in code_of(reply)


def test_the_last_definition_counts_even_if_it_is_the_wrong_one() -> None:
    reply = f"```python\n{ADD}```\nOr:\n```python\ndef add(a, b):\n    return a - b\n```"

    assert not adds(reply)


def test_imports_of_a_replaced_block_stay_where_they_are_needed() -> None:
    reply = (
        "```python\nimport operator\n\ndef add(a, b):\n    return None\n```\nFixed:\n"
        "```python\ndef add(a, b):\n    return operator.add(a, b)\n```"
    )

    assert adds(reply)


def test_imports_in_a_block_of_their_own() -> None:
    reply = (
        "```python\nimport operator\n```\nand\n```python\ndef add(a, b):\n"
        "    return operator.add(a, b)\n```"
    )

    assert adds(reply)


def test_constants_in_a_block_of_their_own() -> None:
    reply = "```python\nZERO = 0\n```\n```python\ndef add(a, b):\n    return a + b + ZERO\n```"

    assert adds(reply)


def test_a_helper_after_its_user() -> None:
    reply = (
        "```python\ndef add(a, b):\n    return plus(a, b)\n```\nwith\n"
        "```python\ndef plus(a, b):\n    return a + b\n```"
    )

    assert adds(reply)


def test_a_method_in_a_block_of_its_own_continues_the_class() -> None:
    reply = (
        "```python\nclass Sum:\n    def __init__(self):\n        self.n = 0\n```\nThen:\n"
        "```python\n    def add(self, a):\n        self.n += a\n        return self.n\n```"
    )

    made = namespace_of(reply, "Sum")["Sum"]()

    assert made.add(2) == 2


def test_future_imports_stay_first() -> None:
    reply = (
        "```python\nX = 1\n\ndef plus(a, b):\n    return a + b\n```\n"
        "```python\nfrom __future__ import annotations\n\ndef add(a: Nowhere, b) -> Gone:\n"
        "    return plus(a, b)\n```"
    )

    assert adds(reply)


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ("", "empty"),
        ("   \n", "empty"),
        ("You add them with the plus sign.", "prose"),
        ("42", "prose"),
        ("```bash\npip install add\n```", "bash"),
        ('```json\n{"a": 1}\n```', "json"),
        ("```js\nfunction add(a, b) { return a + b }\n```", "js"),
        ("```\n5\n```", "without any definition"),
        ("Call `add(2, 3)`.", "prose"),
        ("```python\ndef add(a, b):\n    return (a +\n", "unclosed"),
    ],
)
def test_no_code_says_what_was_found_instead(reply: str, found: str) -> None:
    result = extract_code(reply, cut_off=False, wanted=("add",))

    assert result.kind == "no_code"
    assert found in result.found


def test_code_that_does_not_parse_is_still_the_models_code() -> None:
    assert "retrun" in code_of("```python\ndef add(a, b):\n    retrun a + b\n```")


def test_an_unclosed_fence_is_code_if_the_reply_was_not_cut_off_and_it_parses() -> None:
    reply = f"```python\n{ADD}"

    assert adds(reply)
    assert extract_code(reply, cut_off=True, wanted=("add",)).kind == "truncated"


@pytest.mark.parametrize(
    "reply",
    [
        ADD,
        "First, let me think about",
        f"```bash\nls\n```\n```python\n{ADD}",
        "```python\ndef plus(a, b):\n    return a + b\n```\n```python\ndef add(a, b):\n    ret",
    ],
)
def test_a_cut_off_reply_without_a_complete_block_is_truncated(reply: str) -> None:
    result = extract_code(reply, cut_off=True, budget="512 x 12 = 6144", wanted=("add",))

    assert result.kind == "truncated"
    assert result.found == (
        "Response truncated at num_predict=512 x 12 = 6144 before the code was complete"
    )


def test_a_complete_block_before_the_cut_counts() -> None:
    assert adds(f"```python\n{ADD}```\n\nFor example:\n```python\nprint(add(1,")


def test_truncation_without_a_known_budget() -> None:
    assert truncation_text("") == "Response truncated before the code was complete"


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ("", ("", "")),
        ("python", ("python", "")),
        ("Python3", ("python3", "")),
        ("{.python}", ("python", "")),
        ("python title='x=1'", ("python", "")),
        ("def add(a, b):", ("", "def add(a, b):")),
        ("c++", ("c++", "")),
        ("objective-c", ("objective-c", "")),
    ],
)
def test_info_strings(info: str, expected: tuple[str, str]) -> None:
    assert language_of(info) == expected


@pytest.mark.parametrize(
    ("lines", "open_quote"),
    [
        (['x = """'], '"""'),
        (['x = """a"""'], ""),
        (["x = '''a", "b'''"], ""),
        (['# it\'s """'], ""),
        (['x = \'"""\''], ""),
        (['x = "a\\"\\"\\""'], ""),
        (['"""a \\""" b'], '"""'),
        (['"""a \\""" b"""'], ""),
    ],
)
def test_quotes_are_followed(lines: list[str], open_quote: str) -> None:
    state = QuoteState()
    for line in lines:
        state.feed(line)

    assert state.open == open_quote


@given(st.text(alphabet="`~\n \t>'\"\\#python:def a(b),=1."), st.booleans())
def test_extraction_never_fails(reply: str, cut_off: bool) -> None:
    found = extract_code(reply, cut_off=cut_off, wanted=("add",))

    assert found.kind in ("code", "no_code", "truncated")
    assert bool(found.code) == (found.kind == "code")


@given(st.text())
def test_what_stands_in_one_fence_is_found_again(text: str) -> None:
    clean = text.replace("`", "").replace("\r", "").replace("\ufeff", "")

    blocks = fenced_blocks(f"````python\n{clean}\n````")

    assert blocks[0].text == clean or "'" in clean or '"' in clean


@pytest.mark.timeout(30)
def test_many_fences_with_open_strings_are_read_in_one_pass() -> None:
    reply = "```python\nx = '''\n```\n" * 50_000

    assert fenced_blocks(reply)
