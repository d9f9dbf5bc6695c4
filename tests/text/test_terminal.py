"""Lines on a terminal: broken at words at its width, coloured unless NO_COLOR says otherwise."""

from __future__ import annotations

import io
import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_graphbreak.text.terminal import has_colour, markup, painted, shown, table, wrapped

TRY = (
    "      try: print after the call, or "
    "torch._dynamo.config.reorderable_logging_functions.add(print)"
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_prose_is_broken_at_words_and_hangs() -> None:
    assert wrapped(TRY, 80) == [
        "      try: print after the call, or",
        "           torch._dynamo.config.reorderable_logging_functions.add(print)",
    ]


@pytest.mark.parametrize(
    ("line", "rest"),
    [
        ("  + GB0124  Unsupported Tensor.item() call with", 12),
        ("  baseline  baselines/tests/test_it.yaml:5, recorded on cpu with torch 2.13", 12),
        ("over       tests/test_a.py::test_b   dynamo 1 -> 3, 2 breaking places", 11),
        ("ok       python     3.11.7, pytest 9.0.2, pytest-graphbreak 0.2.0", 20),
        ("                    -> install g++, or compile with backend=eager", 23),
        ("3 tests on cpu: 1 over, 1 new, 1 without graphs", 2),
        ("          if scores.max().item() > self.limit and not self.training:", 14),
        ("           smaller was not possible: the class is made in a function", 15),
    ],
)
def test_further_lines_stand_below_the_text(line: str, rest: int) -> None:
    first, *further = wrapped(f"{line} and so on{' word' * 20}", 60)
    assert first.startswith(line[:40].rpartition(" ")[0])
    assert further
    assert {len(part) - len(part.lstrip()) for part in further} == {rest}


@given(
    st.sampled_from(
        ["      try: ", "  + GB0124  ", "  baseline  ", "graph budget: ", "over  ", ""]
    ),
    st.lists(st.text("ab(.)-_", min_size=1, max_size=30), min_size=1, max_size=40),
    st.integers(0, 200),
)
def test_no_word_is_lost_or_cut(head: str, words: list[str], width: int) -> None:
    line = head + " ".join(words)
    parts = wrapped(line, width)
    assert " ".join(parts).split() == line.split()
    assert all(len(part) <= width or len(part.split()) <= 2 for part in parts) or width < 40


def test_colours_are_those_of_a_terminal_and_of_the_environment() -> None:
    assert has_colour(Terminal(), {"TERM": "xterm"})
    assert not has_colour(Terminal(), {"TERM": "dumb"})
    assert not has_colour(io.StringIO(), {})
    assert not has_colour(Terminal(), {"NO_COLOR": "1", "FORCE_COLOR": "1"})
    assert has_colour(io.StringIO(), {"FORCE_COLOR": "1"})
    assert not has_colour(io.StringIO(), {"FORCE_COLOR": "0"})


@pytest.mark.parametrize(
    ("line", "marked"),
    [
        ("  graph budget: 3 xla graphs, the baseline allows 1 (+2)", ("red", "bold")),
        ("    + GB0124  Unsupported Tensor.item() call", ("red",)),
        ("  + test_model[bert]   tt-n150   dynamo 1", ()),
        ("left the compiler, or came back: 2 places", ("bold",)),
        ("tests with other counts: 1,204 tests", ("bold",)),
        ("  - GB0124  Unsupported Tensor.item() call   3 tests, -3 dynamo graphs", ("green",)),
        ("  + left to eager  skipped   1 test", ("red",)),
        ("  ~ GB4347  Missing tp_iternext   2 tests", ("yellow",)),
        ("over       tests/test_a.py::test_b   dynamo 1 -> 3", ("red",)),
        ("ok       python     3.11.7", ("green",)),
        ("2 tests judged on cpu (1 report): 2 ok. Within the graph budget.", ("green", "bold")),
        ("newer torch may have mended it", ()),
        ("          over = 3", ()),
    ],
)
def test_lines_of_commands_are_marked(line: str, marked: tuple[str, ...]) -> None:
    assert markup(line) == marked


def test_a_file_gets_the_line_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert list(shown(TRY, io.StringIO())) == [TRY]
    assert painted("over", ("red", "bold")) == "\x1b[31;1mover\x1b[0m"


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
        "  accept    ",
        "    ",
        "",
        "next       mend the code, or accept: ",
        "2 tests judged on cpu (1 report): 2 over. Over the graph budget. Accept what is meant: ",
    ],
)
def test_what_is_pasted_of_a_command_is_the_command(before: str, command: str, width: int) -> None:
    parts = wrapped(before + command, width)
    assert all(len(part) <= width for part in parts), parts
    text = "\n".join(parts)
    words = len(before.split())
    pasted = re.sub(rf"\A\s*(?:\S+\s+){{{words}}}", "", text)
    assert shlex.split(pasted.replace("\\\n", "")) == shlex.split(command)


@pytest.mark.parametrize(
    "line",
    [
        "graphbreak fix: some/where/a.py: cannot be written: the directory is not writable",
        "      pytest: what is said of it is no command, and it goes on without backslashes",
        "ok       python     3.11.7, pytest 9.0.2, pytest-graphbreak 0.2.0 and what else is there",
    ],
)
def test_prose_on_programs_is_no_command(line: str) -> None:
    assert "\\" not in "".join(wrapped(line, 60))


def test_narrow_terminals_and_files_are_left_alone() -> None:
    assert wrapped(TRY, 20) == [TRY]
    assert wrapped(TRY, 0) == [TRY]


@pytest.mark.parametrize("width", [40, 60, 80])
@pytest.mark.parametrize(
    "line",
    [
        "           tests/models_of_the_house/encoders/test_transformer_encoder.py:12 in forward",
        "        kept  torch._dynamo.config.capture_dynamic_output_shape_ops_and_more = True",
        "      - torch._dynamo.config.reorderable_logging_functions.add(print) and then on",
    ],
)
def test_further_lines_keep_the_indent_of_the_line(line: str, width: int) -> None:
    """Also where a word is wider than what is left: they began at column 4."""
    own = len(line) - len(line.lstrip())
    _, *further = wrapped(line, width)
    assert all(len(part) - len(part.lstrip()) >= own for part in further), further


ROWS = [
    ("break", "remedy", "graphs", "time"),
    ("forward:12", "the loop goes over all indices, and " + "more of it " * 6, "3 -> 1", ""),
    ("a_function_of_a_long_name:123", "none", "", ""),
    ("all", "", "3 -> 1", "1.04 ms -> 0.77 ms a call"),
]


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_a_table_breaks_its_widest_column_at_words(width: int) -> None:
    lines = table(ROWS, width)
    assert all(len(line) <= width for line in lines), lines
    words = " ".join(cell for row in ROWS for cell in row).split()
    assert sorted(" ".join(lines).split()) == sorted(words)


def test_a_table_in_a_file_is_whole() -> None:
    first, second, *_ = table(ROWS, 0)
    assert len(table(ROWS, 0)) == len(ROWS)
    assert first.index("graphs") == second.index("3 -> 1")
