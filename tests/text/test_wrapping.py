"""Lines in rows: broken at words, code and commands as one."""

from __future__ import annotations

import re
import shlex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_graphbreak.text.output import TextLine, label_line, sign_line
from pytest_graphbreak.text.wrapping import table, wrap_line

pytestmark = pytest.mark.pure

TRY = TextLine(
    "print after the call, or torch._dynamo.config.reorderable_logging_functions.add(print)",
    "advice",
    6,
    "fix: ",
)


def rows(line: TextLine, width: int) -> list[str]:
    return [str(row) for row in wrap_line(line, width)]


def test_prose_is_broken_at_words_and_hangs() -> None:
    assert rows(TRY, 80) == [
        "      fix: print after the call, or",
        "           torch._dynamo.config.reorderable_logging_functions.add(print)",
    ]


@pytest.mark.parametrize(
    ("line", "rest"),
    [
        (sign_line("+", "Unsupported Tensor.item() call with", "GB0124  "), 12),
        (sign_line("+", "recompile 0/1 to 0/3   tensor 'x' is of another size, it says,"), 4),
        (TextLine("baselines/test_it.yaml:5, recorded on cpu", head="baseline  ", indent=2), 12),
        (label_line("over", "tests/test_a.py::test_b   dynamo 1 -> 3, 2 graph breaks"), 11),
        (TextLine("install g++, or compile with backend=eager", head="-> ", indent=20), 23),
        (TextLine("3 tests on cpu: 1 over, 1 new, 1 without graphs"), 2),
        (TextLine("if scores.max().item() > self.limit and not self.training:", indent=10), 14),
        (label_line("", "smaller was not possible: the class is made in a function"), 11),
    ],
)
def test_further_rows_stand_below_the_text(line: TextLine, rest: int) -> None:
    first, *further = rows(replace(line, text=f"{line.text} and so on{' word' * 20}"), 60)
    assert first.startswith(str(line)[:40].rpartition(" ")[0])
    assert further
    assert {len(part) - len(part.lstrip()) for part in further} == {rest}


@given(
    st.sampled_from(["fix: ", "+ GB0124  ", "baseline  ", "graph budget: ", ""]),
    st.integers(0, 12),
    st.lists(st.text("ab(.)-_", min_size=1, max_size=30), min_size=1, max_size=40),
    st.integers(0, 200),
)
@example("", 0, ["____(a", "b" * 10, "b" * 10 + ")_(" + "a" * 10, "b)"], 40)
@example("", 0, ["a(b", "b" * 20 + ")" + "." * 20, "a"], 40)
@example("", 0, ["-" * 20 + "a(b", "b" * 20 + ")", "a"], 40)
def test_no_word_is_lost_or_cut(head: str, indent: int, words: list[str], width: int) -> None:
    line = TextLine(" ".join(words), indent=indent, head=head)
    parts = rows(line, width)
    assert " ".join(parts).split() == str(line).split()
    assert all(len(part) <= width or len(part.split()) <= 2 for part in parts) or width < 40


COMMANDS = [
    "python -m pytest -p no:randomly --graph-budget-update 'tests/a.py::t[a b c d]'",
    "pytest --graph-budget-update tests/models/" + "deep/" * 20 + "test_it.py::test_model[1-2]",
    "uv run --extra dev pytest --graph-budget-record " + "'tests/a b.py::test_it[it'\"'\"'s]' " * 4,
    "/home/somebody/projects/" + "x" * 60 + "/.venv/bin/python -m pytest tests",
    "graphbreak accept --run 1234567 --repo owner/name --tests " + "a" * 140,
    "graphbreak explain GB0170",
    "TORCH_COMPILE_DEBUG=1 pytest " + "tests/test_a.py::test_it " * 4,
    "git apply some/where/a-patch-of-a-long-name.patch",
    "uv pip install 'pytest-graphbreak[fix]' --python /home/somebody/.venv/bin/python3.11",
]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "before",
    [
        TextLine(indent=2, head="accept    "),
        TextLine(indent=4),
        TextLine(),
        label_line("next", "fix the code, or accept: "),
        TextLine("2 tests judged on cpu (1 report): 2 over. Over the graph budget. Accept: "),
    ],
)
def test_what_is_pasted_of_a_command_is_the_command(
    before: TextLine, command: str, width: int
) -> None:
    parts = rows(replace(before, command=command), width)
    assert all(len(part) <= width for part in parts), parts
    text = "\n".join(parts)
    words = len(str(before).split())
    pasted = re.sub(rf"\A\s*(?:\S+\s+){{{words}}}", "", text)
    assert shlex.split(pasted.replace("\\\n", "")) == shlex.split(command)


def test_narrow_terminals_and_files_are_left_alone() -> None:
    assert rows(TRY, 20) == [str(TRY)]
    assert rows(TRY, 0) == [str(TRY)]
    assert rows(replace(TRY, whole=True), 60) == [str(TRY)]


@pytest.mark.parametrize("width", [40, 60, 80])
@pytest.mark.parametrize(
    "line",
    [
        label_line(
            "", "tests/models_of_the_house/encoders/test_transformer_encoder.py:12 in forward"
        ),
        TextLine("torch._dynamo.config.capture_dynamic_shapes = True", "text", 8, "kept  "),
        TextLine("reorderable_logging_functions_of_it.add(print) and then on", "text", 6, "- "),
    ],
)
def test_further_rows_keep_the_indent_of_the_line(line: TextLine, width: int) -> None:
    """Also where a word is wider than what is left: they began at column 4."""
    _, *further = rows(line, width)
    assert all(len(part) - len(part.lstrip()) >= min(line.indent, 8) for part in further), further


ROWS = [
    ("break", "remedy", "graphs", "time"),
    ("forward:12", "the loop goes over all indices, and " + "more of it " * 6, "3 -> 1", ""),
    ("a_function_of_a_long_name:123", "none", "", ""),
    ("all", "", "3 -> 1", "1.04 ms -> 0.77 ms a call"),
]


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_a_table_that_is_too_wide_is_a_list(width: int) -> None:
    lines = table(ROWS, width)
    assert all(len(line) <= width for line in lines), lines
    words = " ".join(cell for row in ROWS for cell in row).split()
    assert sorted(" ".join(lines).split()) == sorted(words)


def test_a_table_in_a_file_is_whole() -> None:
    first, second, *_ = table(ROWS, 0)
    assert len(table(ROWS, 0)) == len(ROWS)
    assert first.index("graphs") == second.index("3 -> 1")


def test_source_is_never_broken() -> None:
    line = TextLine("if scores.max().item() > limit and not training:" * 2, "source", 10)
    assert rows(line, 60) == [str(line)]
    (row,) = wrap_line(TextLine(" kept  ", whole=True), 60)  # a diff has lines that are one blank
    assert str(row) == " kept  "


@pytest.mark.parametrize("width", range(40, 120, 7))
@pytest.mark.parametrize(
    "code",
    [
        "dynamo.config.capture_scalar_outputs = True",
        "torch._dynamo.mark_dynamic(x, 0)",
        "f(g(a, b), [1, 2])",
    ],
)
def test_code_in_a_text_is_not_broken(code: str, width: int) -> None:
    words = f"keep the value a tensor, or set {code}; or call it outside of the compiled function"
    line = TextLine(words, "advice", 2, "fix: ")
    broken = rows(line, width)
    assert any(code in row for row in broken) or len(code) + 6 > width
    assert " ".join(" ".join(broken).split()) == str(line).strip()
