"""The CSVs of PyTorch's benchmarks: rows, and faults with file and line."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_graphbreak.cli import import_csv
from pytest_graphbreak.cli.import_csv import ExpectationsError, load_rows
from tests.examples import examples

HEADER = "name,accuracy,graph_breaks\n"


def load(path: Path, text: str | bytes) -> list[import_csv.ExpectedRow]:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_rows(str(path))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "expected.csv"


def test_rows_with_blank_lines_between_them(file: Path) -> None:
    rows = load(file, HEADER + "\n\n\nmlp,pass,0\n\n\n\nopenai/whisper-tiny,pass,5\n")
    assert [(row.name, row.accuracy, dict(row.counts)) for row in rows] == [
        ("mlp", "pass", {"graph_breaks": 0}),
        ("openai/whisper-tiny", "pass", {"graph_breaks": 5}),
    ]
    assert [row.place for row in rows] == [f"{file}:5", f"{file}:9"]


@pytest.mark.parametrize(
    ("columns", "cells", "one"),
    [
        ("", "", True),
        (",recompiles", ",0", True),
        (",recompiles", ",2", False),
        (",unique_graphs", ",1", True),
        (",unique_graphs", ",2", False),
        (",unique_graphs", ",0", False),
        (",fallbacks_to_eager", ",1", False),
        (",calls_captured,batch_size", ",812,x", True),
        (",recompiles", ",", True),  # an empty cell says as little as a missing column
        (",unique_graphs,recompiles", ",1,", True),
    ],
)
def test_what_says_that_a_model_is_one_graph(
    file: Path, columns: str, cells: str, one: bool
) -> None:
    (row,) = load(file, f"name,accuracy,graph_breaks{columns}\nmlp,pass,0{cells}\n")
    assert row.is_one_graph is one


@pytest.mark.parametrize(
    ("cells", "one", "more"),
    [
        (",1", True, {}),
        (",4", False, {"unique_graphs": 4}),
        (",", False, {"graph_breaks": None}),
    ],
)
def test_where_breaks_are_not_counted_the_graphs_are(
    file: Path, cells: str, one: bool, more: dict[str, int | None]
) -> None:
    (row,) = load(file, f"name,accuracy,graph_breaks,unique_graphs\nmlp,pass,{cells}\n")
    assert (row.is_one_graph, row.more) == (one, more)


@pytest.mark.parametrize(("cell", "ops"), [("812", 812), ("812.0", 812), ("", None)])
def test_captured_operations(file: Path, cell: str, ops: int | None) -> None:
    (row,) = load(file, f"name,accuracy,graph_breaks,calls_captured\nmlp,pass,0,{cell}\n")
    assert (row.is_one_graph, row.ops) == (True, ops)


@pytest.mark.parametrize("cells", ["pass,1", "pass,", "fail_to_run,0", "pass_due_to_skip,0", ",0"])
def test_what_does_not(file: Path, cells: str) -> None:
    (row,) = load(file, f"{HEADER}mlp,{cells}\n")
    assert not row.is_one_graph


def test_other_spellings(file: Path) -> None:
    text = "\ufeff accuracy ,graph_breaks, name\r\npass,0.0,mlp\r\n"
    (row,) = load(file, text)
    assert row.is_one_graph
    assert row.line == 2


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", None, "is empty; the columns name, accuracy, graph_breaks are needed"),
        ("\n\n", None, "is empty"),
        ("suite,name,extra_breaks\n", 1, "no column accuracy and no graph_breaks"),
        ("name,accuracy,graph_breaks,name\n", 1, "column name is there twice"),
        (HEADER + "\nmlp,pass\n", 3, "2 cells, and the header has 3"),
        (HEADER + "mlp,pass,0,1\n", 2, "4 cells, and the header has 3"),
        (HEADER + ",pass,0\n", 2, "'' is no name of a model"),
        (HEADER + "a\x1b[31m,pass,0\n", 2, "is no name of a model"),
        (HEADER + "mlp,pass,-1\n", 2, "mlp: graph_breaks is '-1', no count"),
        (HEADER + "mlp,pass,1.5\n", 2, "mlp: graph_breaks is '1.5', no count"),
        (HEADER + "mlp,pass,١\n", 2, "no count"),
        (HEADER + f"mlp,pass,{'9' * 5000}\n", 2, "no count"),
        (HEADER + "mlp,pass,0\nmlp,pass,0\n", 3, "mlp is on line 2, too; keep one"),
        (HEADER + '"mlp,pass,0\n', 2, "not CSV: unexpected end of data"),
        (HEADER + f"{'x' * 200_000},pass,0\n", 2, "not CSV: field larger than field limit"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    file: Path, text: str, line: int | None, words: str
) -> None:
    place = str(file) if line is None else f"{file}:{line}"
    with pytest.raises(ExpectationsError) as error:
        load(file, text)
    assert str(error.value).startswith(f"{place}: ")
    assert words in str(error.value)
    assert len(str(error.value)) < 700


def test_all_bad_rows_are_named(file: Path) -> None:
    with pytest.raises(ExpectationsError) as error:
        load(file, HEADER + "mlp,pass,x\nfine,pass,0\nbert,pass,\n,pass,0\n")
    assert [line.partition(": ")[0] for line in str(error.value).splitlines()] == [
        f"{file}:2",
        f"{file}:5",
    ]


def test_what_is_no_text_or_no_file(file: Path) -> None:
    with pytest.raises(ExpectationsError, match=r"cannot be read: .*utf-8"):
        load(file, b"name,accuracy,graph_breaks\n\xff,pass,0\n")
    with pytest.raises(ExpectationsError, match="No such file"):
        load_rows(str(file.parent / "other.csv"))
    with pytest.raises(ExpectationsError, match="not a regular file"):
        load_rows("/dev/null")


def test_more_rows_than_one_command_takes(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_csv, "MOST_ROWS", 2)
    load(file, HEADER + "a,pass,0\nb,pass,0\n")
    with pytest.raises(ExpectationsError, match="more than 2 rows; split the file"):
        load(file, HEADER + "a,pass,0\nb,pass,0\nc,pass,0\nd,pass,0\n")


@examples(100)
@given(text=st.text() | st.binary())
def test_any_text_is_rows_or_a_fault_of_one_line_each(
    tmp_path_factory: pytest.TempPathFactory, text: str | bytes
) -> None:
    file = tmp_path_factory.getbasetemp() / "any.csv"
    start = HEADER.encode()
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    for each in (data, start + data):
        rows, said = [], ""
        try:
            rows = load(file, each)
        except ExpectationsError as error:
            said = str(error)
        assert all(row.name and row.line > 0 for row in rows)
        assert all(line.startswith(str(file)) for line in said.split("\n") if said)


NAMES = st.text(st.characters(blacklist_categories=("C", "Z")), min_size=1, max_size=30)


@examples(100)
@given(
    rows=st.lists(
        st.tuples(NAMES, st.sampled_from(["pass", "fail_to_run"]), st.integers(0, 99)),
        unique_by=lambda row: row[0],
    )
)
def test_what_a_writer_of_csv_wrote_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, int]]
) -> None:
    file = tmp_path_factory.getbasetemp() / "written.csv"
    out = io.StringIO()
    csv.writer(out).writerows([HEADER.strip().split(","), *rows])
    found = load(file, out.getvalue())
    assert [(row.name, row.accuracy, row.counts["graph_breaks"]) for row in found] == rows
