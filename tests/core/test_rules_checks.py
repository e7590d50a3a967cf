"""``exact_or_contains``, ``regex`` and ``numeric``: replies as models write them."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_benchrig.core.answers import judge_answer
from pytest_benchrig.core.scenario import AnswerSpec


def judged(check: Any, reply: str, expected: str, *patterns: str, **more: Any) -> bool:
    spec = AnswerSpec(check, expected, patterns, **more)
    return judge_answer(spec, reply).passed is True


@pytest.mark.parametrize(
    ("expected", "reply"),
    [
        ("1/6", "It is 1⁄6."),
        ("1/6", "It is １／６."),
        ("1/6", "$P = \\tfrac{1}{6}$"),
        ("1/6", "\\frac{ 1 }{ 6 }"),
        ("1/6", "either 1/6, or less"),
        ("1/6", "**1/6**"),
        ("1/6", "| p | 1 / 6 |"),
        ("3/4", "¾ of it"),
        ("5", "5−3 = 2"),
        ("3", "5−3 = 2"),
        ("3", "5-3 = 2"),
        ("5", "3–5 of them"),
        ("5", "it is +5"),
        ("-5", "it is −\u00a05 °C"),
        ("-5", "$-5$"),
        ("-5", "x=−5"),
        ("1000", "1,000 in all"),
        ("1000", "1 000 in all"),
        ("1000", "exactly 1\u202f000."),
        ("1000", "exactly $1{,}000$"),
        ("1,000", "1000 of them"),
        ("1000", "**1,000**"),
        ("1000000", "1,000,000"),
        ("42", "#42"),
        ("42", "[42]"),
        ("42", "<b>42</b>"),
        ("42", "(42)"),
        ("42", "42;"),
        ("42", "42nd"),
        ("42", "6×7=42"),
        ("42", "a 42-fold gain"),
        ("42", "41,42,43"),
        ("42", "41, 42, 43"),
        ("42", "｢４２｣"),
        ("42", "4\u00ad2"),
        ("42", "答えは42です"),
        ("42", "это 42."),
        ("42", "4️⃣2️⃣"),
        ("42", "\\boxed{\\mathbf{42}}"),
        ("0.5", "it is .5"),
        ("114.6", "114.6%"),
        ("50%", "50\u202f%"),
        ("50%", "$50\\%$"),
        ("10^3", "10^{3}"),
        ("1.2e3", "1.2E3"),
        ("16 GB", "a 16 gb card"),
        ("Route 66", "on ROUTE 66!"),
        ("4 July 2031", "due 4 July 2031."),
        ("11:20", "at **11:20**."),
        ("B12", "vitamin b12"),
        ("cat", "concatenate"),
        ("C++", "I like c++."),
        ("Dr. No", "with dr. no"),
        ("knave", "\\text{kna}\\text{ve}"),
        ("Canberra", "**Can**berra"),
        ("Canberra", "Can\u200bberra"),
        ("łódź", "ŁO\u0301DZ\u0301"),
        ("Tak, to prawda", "tak,\u00a0to prawda."),
        ("Санкт-Петербург", "САНКТ-ПЕТЕРБУРГ"),
    ],
)
def test_contained(expected: str, reply: str) -> None:
    assert judged("exact_or_contains", reply, expected)


@pytest.mark.parametrize(
    ("expected", "reply"),
    [
        ("1/6", "11/60"),
        ("1/6", "21/6"),
        ("1/6", "1/6.5"),
        ("1/6", "1/61"),
        ("1/6", "1 1/6"),
        ("1/6", "−1/6"),
        ("1/6", "1 : 6"),
        ("1/6", "1 in 6"),
        ("1/6", "\\frac{1}{60}"),
        ("1/6", "\\frac{1}{16}"),
        ("1", "1/6"),
        ("6", "1 / 6"),
        ("5", "−5"),
        ("5", "(-5)"),
        ("5", "-\u00a35"),
        ("5", "$-5$"),
        ("5", "5e0"),
        ("5", "5.0"),
        ("5", "5,0"),
        ("5", "5²"),
        ("5", "5^2"),
        ("5", "55"),
        ("-5", "5"),
        ("-5", "8 - 5"),
        ("-5", "8-5"),
        ("-5", "-5.1"),
        ("-5", "-5/2"),
        ("3", "3,5"),
        ("3", "3/4"),
        ("3", "1/3"),
        ("3", "2^3"),
        ("3", "x^{3}"),
        ("3", "1.3"),
        ("3", "3 × 10^5"),
        ("5", "3 × 10^5"),
        ("3", "3E5"),
        ("2.5", "2.50"),
        ("2.5", "12.5"),
        ("2.5", "-2.5"),
        ("2.5", "2.5e1"),
        ("2.5", "2.5/3"),
        ("114.6", "$1,114.6"),
        ("114.6", "114,6"),
        ("1000", "1,000,000"),
        ("1000", "11,000"),
        ("1000", "1 000 000"),
        ("1000", "1.000"),
        ("1000", "1,000.5"),
        ("1000", "1_000"),
        ("1000", "1e3"),
        ("000", "1,000"),
        ("12", "vitamin B12"),
        ("50%", "50 percent"),
        ("50%", "0.50%"),
        ("50%", "-50%"),
        ("16 GB", "116 GB"),
        ("4 July 2031", "14 July 2031"),
        ("Route 66", "Route 660"),
        ("2031-07-04", "2031-07-040"),
        ("3.5", "3x5"),
        ("a.c", "abc"),
        ("a b", "a\nb"),
        ("a b", "a  b"),
        ("łódź", "lodz"),
        ("Canberra", "Can berra"),
    ],
)
def test_not_contained(expected: str, reply: str) -> None:
    assert not judged("exact_or_contains", reply, expected)


BOXES = r"(?i)box 1 (?:(?:holds|is) ){0,2}oranges box 2 (?:(?:holds|is) ){0,2}apples(?! and)"


@pytest.mark.parametrize(
    ("reply", "pattern"),
    [
        ("**Box 1:** Oranges\n\n**Box 2:** Apples", BOXES),
        ("| Box 1 | Oranges |\n|---|---|\n| Box 2 | Apples |", BOXES),
        ("1. Box 1 – oranges\n2. ~~Box 3~~", "box 1 oranges 2 box 3"),
        ("* Box 1 → `Oranges`\n* Box 2 → `Apples`", BOXES),
        ("> Box 1: *oranges*;\r\n> Box 2: *apples*!", BOXES),
        ("$\\text{Box 1}: \\text{Oranges}$, $\\text{Box 2}: \\text{Apples}$", BOXES),
        ("Box 1: Oranges<br>Box 2: Apples", BOXES),
        ("<ul><li>Box 1: Oranges</li><li>Box 2: Apples</li></ul>", BOXES),
        ("BOX\u00a01 = ORANGES / BOX\u20092 = APPLES", BOXES),
        ("Box 1 (labelled): “Oranges”. Box 2… apples?", "box 1 labelled oranges box 2 apples"),
        ("\\boxed{\\text{yes}}", "^yes$"),
        ("The result is −5.", r"is -5$"),
        ("x = \\frac{1}{6}", r"x 1/6$"),
        ("Odpowiedz\u0301: tak", "odpowiedź tak"),
        ("maybe. " + "so " * 98 + "yes", "^.*yes$"),
        ("Réponse : l’été — oui", "oui$"),
        ("answer yes" + " ok" * 96, "answer yes"),
        ("Up by 50%.", "by 50$"),
        ("It is 3.5 of 1,025.", "^it is 3 5 of 1 025$"),
        ("a_b – (c) [d] {e} ~~f~~ g/h", "^a b c d e f g h$"),
    ],
)
def test_the_end_matches(reply: str, pattern: str) -> None:
    assert judged("regex", reply, "x", pattern)


@pytest.mark.parametrize(
    ("reply", "pattern"),
    [
        ("Box 1: Oranges, Box 2: Apples and Oranges", BOXES),
        ("Box 1: Apples, Box 2: Oranges", BOXES),
        ("Box 11: Oranges, Box 2: Apples", r"\bbox 1 oranges"),
        ("The result is −5.", r"\bis 5\b"),
        ("The result is -5.", r"\bis 5$"),
        ("The result is -5%.", r"\bis 5$"),
        ("The result is - 5.", r"\bis 5\.5$"),
        ("answer yes" + " ok" * 100, "answer yes"),
        ("yes" + "\n- no" * 101, "yes"),
        ("\\frac{11}{60}", r"\b1/6\b"),
        ("", ".+"),
    ],
)
def test_the_end_does_not_match(reply: str, pattern: str) -> None:
    assert not judged("regex", reply, "x", pattern)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("The answer is **1 234,56**.", "1234.56"),
        ("1,234,567.89", "1234567.89"),
        ("€1,234.50 in all", "1234.5"),
        ("It costs 12,50 zł.", "12.5"),
        ("To 12,5 %.", "12.5"),
        ("1 234 zł", "1234"),
        ("-0,75", "-3/4"),
        ("1,5 × 10^3", "1500"),
        ("1.2E+03", "1200"),
        ("−1.5 × 10⁻²", "-0.015"),
        ("$1.2\\times10^{3}$", "1200"),
        ("$1.2\\cdot 10^{-3}$", "0.0012"),
        ("10^{3}", "1000"),
        ("2^10", "1024"),
        ("−½", "-0.5"),
        ("1½", "3/2"),
        ("$\\frac{1{,}000}{4}$", "250"),
        ("$-\\frac34$", "-0.75"),
        ("3 / 4", "0.75"),
        ("22/7 ≈ 3.14", "3.14"),
        ("7/15/1410", "1410"),
        ("-3%", "-3"),
        ("50\\%", "50"),
        ("US$5", "5"),
        ("-$5", "-5"),
        ("−£3.20", "-3.2"),
        ("zł 5", "5"),
        ("5zł", "5"),
        ("9.8 m/s2", "9.8"),
        ("9.8 m/s^2", "9.8"),
        ("9.8 m·s⁻²", "9.8"),
        ("5 m^{-1}", "5"),
        ("42 °C", "42"),
        ("42nd", "42"),
        ("42 kWh of CO2-free power", "42"),
        ("x₁ = 42", "42"),
        ("It is 42...", "42"),
        ("It is 42…", "42"),
        ("It is “42.”", "42"),
        ("Is it 42?", "42"),
        ("It is 42.The rest is clear.", "42"),
        ("It is 3.5.", "3.5"),
        ("42\n\n1. thanks\n2. bye", "42"),
        ("The sum is 42:\n(1) six\n(2) seven", "42"),
        ("1. **42**", "42"),
        ("* 42", "42"),
        ("- -5", "-5"),
        ("– 42", "42"),
        ("• −5", "-5"),
        ("-5", "-5"),
        ("answer—42", "42"),
        ("from 5 to −3 °C", "-3"),
        ("between −5 and −3", "-3"),
        ("5-3=2", "2"),
        ("－４２．５", "-42.5"),
        ("１，０２５", "1025"),
        ("42🎉", "42"),
        ("№ 42", "42"),
        ("<b>42</b>", "42"),
        ("[42]", "42"),
        ("\\boxed{a} so \\boxed{42} so \\boxed{b}", "42"),
        ("\\boxed{} hence 42", "42"),
        ("\\boxed{x=-3}", "-3"),
        ("\\boxed{4.2\\times10^{1}}", "42"),
        ("\\boxed{42\\%} (see 3)", "42"),
        ("\\boxed{\\$42}", "42"),
        ("\\boxed{5\\,\\mathrm{m}^{2}}", "5"),
        ("\\boxed{\\boxed{7}} of 9", "7"),
        ("\\boxed{{42}} of 9", "42"),
        ("\\boxed{1\\,025}", "1025"),
        ("\\fbox{42} of 9", "42"),
        ("123 456 789 012 345 678 901", "123456789012345678901"),
        ("0.10", "0.1"),
        ("00042", "42"),
        ("-0", "0"),
        ("1,200", "1.2e3"),
        ("42 seats, v1.2.3", "42"),
        ("42 in 1_000", "42"),
        ("50", "50 %"),
        ("5", "$5"),
    ],
)
def test_the_number(reply: str, expected: str) -> None:
    assert judged("numeric", reply, expected)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("42 (see step 3)", "42"),
        ("−42", "42"),
        ("1.234", "1234"),
        ("1,234", "1.234"),
        ("1'000", "1000"),
        ("1_000", "1000"),
        ("12 34", "1234"),
        ("1 0000", "10000"),
        ("50%", "0.5"),
        ("forty-two", "42"),
        ("\\boxed{43} or 42", "42"),
        ("\\boxed{-42}", "42"),
        ("40–44", "40"),
        ("9007199254740993.0000000001", "9007199254740993"),
        ("0.1000000000000000055511151231257827", "0.1"),
        ("1e-400", "0"),
        ("10²", "102"),
        ("x^42", "42"),
        ("H2", "2"),
    ],
)
def test_another_number(reply: str, expected: str) -> None:
    assert not judged("numeric", reply, expected)


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("It is 1,234.50 zł.", "1234.50"),
        ("so \\boxed{-\\frac{1}{6}}", "-1/6"),
        ("1.2 × 10^3 in all", "1.2e3"),
        ("about −5 °C", "-5"),
        ("none", ""),
    ],
)
def test_the_record_keeps_the_number(reply: str, text: str) -> None:
    verdict = judge_answer(AnswerSpec("numeric", "7"), reply)
    assert verdict.fields["extracted_answer"] == text
