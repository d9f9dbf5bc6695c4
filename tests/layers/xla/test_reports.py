"""The text that torch_xla writes for each compilation, read in pieces broken anywhere."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_graphbreak.layers.xla.reports import CompileReport, Reader
from pytest_graphbreak.model.stacks import Line

RULE = "=" * 80


def analysis(
    frames: list[str],
    said: str = "user torch_xla.sync",
    prefix: str = "Compilation Analysis: ",
    name: str = "",
    hash: str = "4a2b71f67e86b951f15c941dbe8d3041",
) -> str:
    lines = [
        RULE,
        "Compilation Cause",
        f"  {said}",
        "Graph Info: ",
        *([f"  Graph Name: {name}"] if name else []),
        f"  Graph Hash: {hash}",
        "  Number of Graph Inputs: 2",
        "  Number of Graph Outputs: 1",
        "Python Frame Triggered Execution: ",
        *(f"  {frame}" for frame in frames),
        "-" * 80,
        RULE,
    ]
    return "\n" + "".join(f"{prefix}{line}\n" for line in lines)


AFTER = """
Computation hash: ab400737e9063016d3c317b9e5103d1a

Post Compilation Analysis: ================================================================================
Post Compilation Analysis: Graph input size: 0.000000 GB
Post Compilation Analysis: Compiled program size: 0.000000 GB
Post Compilation Analysis: --------------------------------------------------------------------------------
Post Compilation Analysis: ================================================================================
"""  # noqa: E501 as torch_xla writes it


def read(text: str) -> list[CompileReport]:
    return Reader().feed(text)


def test_one_compilation() -> None:
    (report,) = read(analysis(["sync (/x/torch_xla.py:87)", "f (/a b/c (1).py:9)"]) + AFTER)
    assert report.stated_cause == "user torch_xla.sync"
    assert report.hash == "4a2b71f67e86b951f15c941dbe8d3041"
    assert (report.inputs, report.outputs) == (2, 1)
    assert report.frames == (Line("/x/torch_xla.py", 87, "sync"), Line("/a b/c (1).py", 9, "f"))


def test_dots_for_frames_that_were_left_out_are_no_frame() -> None:
    (report,) = read(analysis(["f (a.py:1)", ".........."]))
    assert report.frames == (Line("a.py", 1, "f"),)


def test_a_graph_with_a_name_and_a_short_hash() -> None:
    (report,) = read(analysis(["f (a.py:1)"], name="step (1)", hash="abc"))
    assert (report.name, report.hash) == ("step (1)", "abc".zfill(32))


def test_a_compilation_without_python_frames_has_only_its_second_block() -> None:
    first, second, third = read(analysis(["f (a.py:1)"]) + AFTER + AFTER + analysis(["g (a.py:2)"]))
    assert [bool(report.frames) for report in (first, second, third)] == [True, False, True]


def test_a_compilation_that_failed_is_not_paired_with_the_next() -> None:
    reader = Reader()
    assert len(reader.feed(analysis(["f (a.py:1)"]))) == 1
    reader.forget_unpaired()
    assert len(reader.feed(AFTER)) == 1


def test_an_execution_that_was_refused_is_no_compilation() -> None:
    reader = Reader()
    text = analysis(["f (a.py:1)"], prefix="Unexpected Execution Analysis: ")
    assert reader.feed(text + analysis(["g (a.py:2)"])) != []
    assert reader.refused == [text]


def test_reports_of_executions_and_other_text_are_passed_over() -> None:
    text = analysis(["f (a.py:1)"], prefix="Execution Analysis: ")
    assert read("pt-xla-profiler: TransferFromDeviceTime too frequent\n" + text) == []


NAMES = st.text("abcdefgh_<>", min_size=1, max_size=9)
FILES = st.text("abc/. ()-:0", min_size=1, max_size=20).filter(lambda name: name.strip() == name)
FRAMES = st.tuples(NAMES, FILES, st.integers(1, 10**6))


@given(st.lists(st.lists(FRAMES, max_size=4), max_size=4), st.data())
def test_what_was_written_is_read_whatever_the_pieces(
    compilations: list[list[tuple[str, str, int]]], data: st.DataObject
) -> None:
    text = "".join(
        (analysis([f"{name} ({file}:{line})" for name, file, line in frames]) if frames else "")
        + AFTER
        for frames in compilations
    )
    reader, found = Reader(), []
    while text:
        size = data.draw(st.integers(1, len(text)))
        found += reader.feed(text[:size])
        text = text[size:]
    expected = [
        tuple(Line(file, line, name) for name, file, line in frames) for frames in compilations
    ]
    assert [report.frames for report in found] == expected


@given(st.text())
def test_no_text_is_a_fault(text: str) -> None:
    Reader().feed(text)


def test_lines_of_another_version_are_passed_over() -> None:
    text = analysis(["no frame of ours", "f (/a.py:9)"]).replace(
        "Graph Outputs: 1", "Graph Outputs: many"
    )
    (report,) = read(text.replace("Graph Inputs: 2", "Graph Edges: 7") + AFTER)
    assert report.frames == (Line("/a.py", 9, "f"),)
    assert (report.inputs, report.outputs) == (None, None)
