"""Lines on a terminal: broken at words at its width, coloured unless NO_COLOR says otherwise."""

from __future__ import annotations

import io
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_graphbreak.text.terminal import fitted, has_colour, markup, painted, shown, wrapped

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
    "line",
    [
        "          " + "code(that, stays, whole) " * 8,
        "  accept    python -m pytest --graph-budget-update " + "tests/test_a.py::test " * 5,
        "next       mend the code, or accept: " + "python -m pytest " * 9,
        "      from " + "tests/test_a.py " * 9,
        "over       tests/test_a.py::" + "test " * 30,
    ],
)
def test_code_commands_and_names_stay_whole(line: str) -> None:
    assert wrapped(line, 80) == [line]


@given(
    st.sampled_from(["      try: ", "  + GB0124  ", "  baseline  ", "graph budget: "]),
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


RED = (
    "graph budget: 2 captured operations left in dynamo graphs, the baseline has 12 (-10)",
    "  + GB0124  Unsupported Tensor.item() call with capture_scalar_outputs=False and more   x2",
    "      transformers/models/longformer/modeling_longformer.py:1175 in LongformerEncoder.forward",
    "          is_global_attn = is_index_global_attn.flatten().any().item() or something_else(y)",
    "      try: what it called before runs without the compiler now: look for torch.compile",
    "  accept    python -m pytest -p no:randomly --graph-budget-update 'tests/a.py::t[a b c d]'",
    "  accept    add --graph-budget-report=graphs.json, and keep graphs.json as an artifact",
)


@pytest.mark.parametrize("line", RED)
@pytest.mark.parametrize("width", [40, 80])
def test_no_line_of_a_red_test_is_wider_than_the_terminal(line: str, width: int) -> None:
    _, *rest = parts = fitted(line, width)
    assert all(len(part) <= width for part in parts)
    assert all(part.startswith("  ") for part in rest)
    if "pytest" not in line:
        assert "".join("".join(parts).split()) == "".join(line.split())


def test_a_command_goes_on_behind_a_backslash() -> None:
    command = RED[5].removeprefix("  accept    ")
    parts = fitted(RED[5], 60)
    assert len(parts) == 3
    text = "\n".join(parts).removeprefix("  accept    ")
    assert shlex.split(text.replace("\\\n", "")) == shlex.split(command)
    assert fitted("  accept    python -m pytest " + "x" * 90, 60)[-1].strip() == "x" * 90


def test_narrow_terminals_and_files_are_left_alone() -> None:
    assert fitted(RED[3], 20) == [RED[3]]
    assert fitted(RED[3], 0) == [RED[3]]
