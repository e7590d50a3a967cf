"""LaTeX read as the text a reader sees."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_benchrig.core.latex import boxes, simplify_latex


@pytest.mark.parametrize(
    ("latex", "plain"),
    [
        (r"\boxed{\dfrac{1}{6}}", "1/6"),
        (r"\tfrac{1}{6}", "1/6"),
        (r"\frac16", "1/6"),
        (r"\frac1{6}", "1/6"),
        (r"\frac{1}6", "1/6"),
        (r"\frac 1 6", "1/6"),
        (r"\frac{-1}{6}", "-1/6"),
        (r"-\frac{1}{6}", "-1/6"),
        (r"\frac{1}{-6}", "-1/6"),
        (r"\frac{-1}{-6}", "1/6"),
        (r"\frac{a+b}{2}", "(a+b)/2"),
        (r"\frac{\frac{1}{2}}{3}", "(1/2)/3"),
        (r"2\frac{1}{2}", "2 1/2"),
        (r"\boxed{\boxed{42}}", "42"),
        (r"\boxed{ 42 }", "42"),
        (r"\boxed 42", "42"),
        (r"is\boxed{42}", "is 42"),
        (r"=\boxed{-42}", "=-42"),
        (r"\text{Ala is a } \mathbf{knave}", "Ala is a  knave"),
        (r"\boxed{\text{Final answer: } 42}", "Final answer:  42"),
        (r"\(42\) \[42\] $42$ $$42$$", "42 42 42 42"),
        ("US$5", "US 5"),
        ("$5 and $6", "5 and 6"),
        (r"\$5", "5"),
        (r"1{,}025", "1,025"),
        (r"1\,025", "1 025"),
        (r"50\%", "50%"),
        (r"42\ \text{km}", "42 km"),
        (r"\left(3, 4\right)", "(3, 4)"),
        (r"1.2 \times 10^{-3}", "1.2 × 10^-3"),
        (r"30^\circ 30^{\circ}", "30° 30°"),
        (r"\{1, 2\}", "{1, 2}"),
        (r"\textcolor{red}{42} {\color{red} 42}", "42  42"),
        (r"{\bf 42} \bf{42} \bf 42", " 42 42  42"),
        (r"\left( 3, 4 \right) \left\{1\right\} \left.x\right|", "(3, 4) {1} x|"),
        (r"\boxed{{42}} \frac{{1}}{{6}} 42~\text{km}", "42 1/6 42 km"),
        (r"\section*{Final answer}", "Final answer"),
        (r"x_{{a}} \sqrt{\frac{1}{2}}", r"x_{{a}} \sqrt{1/2}"),
        (r"\begin{aligned}x = 42\end{aligned}", "x = 42"),
        (r"a \\ b", "a \n b"),
        (r"\boxed{42", r"\boxed{42"),
        (r"\frac{1}{", r"\frac{1}{"),
        (r"\unknown{x}", r"\unknown{x}"),
        ("no LaTeX {here}", "no LaTeX {here}"),
        ("\\", "\\"),
    ],
)
def test_simplified(latex: str, plain: str) -> None:
    assert simplify_latex(latex) == plain


def test_boxes_are_found_in_order_and_only_when_closed() -> None:
    assert boxes(r"\boxed{1} \fbox{2} \boxed{\boxed{3}} \boxed{4") == ["1", "2", r"\boxed{3}", "3"]
    assert boxes("none") == []


def test_deep_nesting_ends() -> None:
    deep = r"\boxed{" * 5000 + "42" + "}" * 5000
    assert "42" in simplify_latex(deep)
    assert simplify_latex(r"\boxed{" * 50_000).startswith(r"\boxed{")


@given(st.text("\\{}$frac boxed16,^()", max_size=40))
def test_any_text_is_read(text: str) -> None:
    assert "$" not in simplify_latex(text)


@given(st.text("ab 12.,", max_size=40))
def test_text_without_latex_stays(text: str) -> None:
    assert simplify_latex(text) == text
