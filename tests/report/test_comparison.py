"""A comparison as text, comment, JSON and page: bounded, harmless, in equal words."""

from __future__ import annotations

import json
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pytest_graphbreak.baseline.changes import Change as Entry
from pytest_graphbreak.baseline.changes import FileChange
from pytest_graphbreak.report.comparison import commit, page, text, words
from pytest_graphbreak.runs import comparison
from pytest_graphbreak.runs.compare import compare
from pytest_graphbreak.runs.comparison import Comparison
from pytest_graphbreak.runs.incoming import parse
from pytest_graphbreak.text.output import plain
from tests.report.browser import Browser
from tests.report.test_html import data_of
from tests.reports import Data, a_break, a_graph, a_report, a_test, place
from tests.untrusted import STRINGS, an_untrusted_report

SCHEMA = json.loads((files("pytest_graphbreak") / "schemas/comparison.json").read_text("utf-8"))
VALID = Draft202012Validator(SCHEMA)


def found_in(before: Data, after: Data) -> Comparison:
    return compare([parse("before.json", before)], [parse("after.json", after)])


def broken(nodeid: str, code: str, **changes: Any) -> Data:
    where = place("transformers/models/bart.py", "Decoder.forward", 9, code)
    item = a_break(where, **changes)
    graphs = [a_graph(ops=6), a_graph("1/0", "break", where=where, ops=6)]
    return a_test(nodeid, graphs={"dynamo": 2}, breaks=[item], graph_list=graphs)


def a_comparison() -> Comparison:
    """One of each: new, gone, reworded, moved, again, left, fewer operations, once, unmeasured."""
    where = place("models/m.py", "M.forward", 3, "def forward(self, x):")
    again = {"layer": "dynamo", "graph": "0/1", "reason": "n == 3", "where": where}
    looped = [a_graph(where=where), a_graph("0/1", "recompile", where=where)]
    left = {"layer": "dynamo", "reason": "skipped", "count": 1, "where": where}
    before = a_report(
        a_test("t.py::new"),
        broken("t.py::gone", "print(x)"),
        broken("t.py::reworded", "y.item()", id="GB0156", reason="Unsupported method"),
        broken("t.py::moved", "if mask.any():"),
        a_test("t.py::again"),
        a_test("t.py::left", graph_list=[a_graph(ops=100)], ops={"dynamo": 100}),
        a_test("t.py::old"),
        a_test("t.py::failed"),
        torch="2.9.1",
    )
    moved = broken("t.py::moved", "if mask.any():")
    for item in (moved["breaks"][0], moved["graph_list"][1]):
        item["where"] = item["where"] | {"file": "transformers/bart2.py"}
    after = a_report(
        broken("t.py::new", "if mask.any():"),
        a_test("t.py::gone"),
        broken("t.py::reworded", "y.item()", id="GB4347", reason="Missing tp_iternext"),
        moved,
        a_test(
            "t.py::again",
            graphs={"dynamo": 2},
            recompiles={"dynamo": 1},
            recompile_list=[again],
            graph_list=looped,
        ),
        a_test("t.py::left", eager=[left], graph_list=[a_graph(ops=40)], ops={"dynamo": 40}),
        a_test("u.py::old"),
        a_test("t.py::failed", outcome="failed", failed_by="test"),
    )
    after["tests"][0]["settings"] = {"torch._dynamo.config.assume_static_by_default": False}
    for report, version in ((before, "5.20.0"), (after, "5.24.0")):
        report["environment"]["packages"] = {"transformers": version}
    return found_in(before, after)


def test_each_kind_is_reported_under_its_own_title() -> None:
    said = plain(text.lines(a_comparison()))
    titles = [line for line in said.split("\n") if line and line[0] != " "]
    assert titles == [
        "before  8 tests on cpu; torch 2.9.1, python 3.11.7, transformers 5.20.0",
        "after   7 tests on cpu; torch 2.13.0, python 3.11.7, transformers 5.24.0",
        "6 tests compared, 2 with more graphs, 1 with fewer; dynamo 9 -> 10",
        "new: 1 place",
        "gone: 1 place",
        "compiled again: 1 place",
        "left the compiler, or came back: 1 place",
        "reworded by torch 2.13, no regression: 1 place",
        "unclear: 1 place",
        "captured operations",
        "tests with other counts: 3 tests",
        "only before: 1 test",
        "only after: 1 test",
        "measured with other settings: 1 setting",
        "cannot be compared: 1 test",
    ]
    assert "package transformers 5.20.0 -> 5.24.0" in said
    assert "before: GB0156  Unsupported method" in said
    assert "the same line in another file: renamed, or gone here and new there" in said
    assert "or is it u.py::old? A renamed file is unknown here" in said
    assert "dynamo 100 -> 40   t.py::left" in said
    assert (
        "  torch._dynamo.config.assume_static_by_default: its default -> False   1 test: t.py::new"
    ) in said


def test_the_owner_says_what_is_known_of_both_sides() -> None:
    def reported(before: dict[str, str], after: dict[str, str], torch: str = "2.13.0") -> str:
        one = a_report(a_test("t.py::a"), torch="2.13.0")
        other = a_report(broken("t.py::a", "print(x)"), torch=torch)
        one["environment"]["packages"], other["environment"]["packages"] = before, after
        found = found_in(one, other)
        return words.owner(found.changes[0], found)

    of = {"transformers": "5.24.0"}
    assert reported(of, of) == "transformers 5.24.0 on both sides"
    assert reported(of, of, "2.14.0") == "transformers 5.24.0 on both sides, torch 2.13.0 -> 2.14.0"
    assert reported({}, of) == "transformers 5.24.0 after; no report before names it"
    assert reported(of, {}) == "transformers 5.24.0 before; no report after names it"
    assert reported({}, {}) == ""


def test_the_schema_is_one_and_holds() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    document = json.loads(json.dumps(comparison.document(a_comparison())))
    VALID.validate(document)
    assert set(document) == set(SCHEMA["properties"])
    assert {change["how"] for change in document["changes"]} == {"new", "gone", "reworded"}
    assert [pair["why"] for pair in document["moved"]] == ["file"]
    assert document["differs"] is True


def test_a_comparison_of_hostile_text_has_its_form() -> None:
    untrusted = an_untrusted_report()
    mild = a_report(*(a_test(test["nodeid"]) for test in untrusted["tests"]))
    for found in (
        found_in(mild, untrusted),
        found_in(untrusted, mild),
        found_in(untrusted, untrusted),
    ):
        VALID.validate(json.loads(json.dumps(comparison.document(found))))
        assert len(text.render(found).encode()) <= text.COMMENT
    assert len(found_in(mild, untrusted).unequal) == len(STRINGS)  # they could not be seen


def test_a_long_comment_says_what_it_leaves_out() -> None:
    names = [f"tests/test_a.py::test_b[{number}]" for number in range(400)]
    before = a_report(*map(a_test, names))
    after = a_report(*(broken(name, f"line({number})") for number, name in enumerate(names)))
    comment = text.render(found_in(before, after))
    assert len(comment.encode()) <= text.COMMENT
    assert "Left out for its length: " in comment
    assert comment.startswith(text.MARK)


def test_both_sides_of_a_test_are_in_the_page() -> None:
    shown = data_of(page.render(a_comparison()))
    (test,) = [test for test in shown["tests"] if test["id"] == "t.py::reworded"]
    (row,) = [row for row in test["rows"] if row["kind"] == "graph break"]
    assert [row[side]["id"] for side in ("before", "after")] == ["GB0156", "GB4347"]
    assert [len(side["dynamo"]) for side in test["strips"]] == [2, 2]
    (test,) = [test for test in shown["tests"] if test["id"] == "t.py::new"]
    (row,) = [row for row in test["rows"] if row["kind"] == "graph break"]
    assert row["before"] is None
    assert (row["after"]["times"], row["after"]["graphs"]) == (1, "dynamo 1")
    at = shown["frames"][row["at"]]
    assert (at["file"], at["line"]) == ("transformers/models/bart.py", 9)
    assert (at["function"], at["code"]) == ("Decoder.forward", "if mask.any():")


def ran(executions: int, reads: int) -> Data:
    return a_report(
        a_test("t.py::step", executions={"dynamo": executions}, reads={"dynamo": reads}),
        a_test("t.py::still", executions={"dynamo": 1}),
    )


def test_the_page_has_what_ran_on_both_sides(show: Any) -> None:
    found = found_in(ran(3, 0), ran(36, 0))
    (test,) = data_of(page.render(found))["tests"]
    assert (test["id"], test["ran"]) == ("t.py::step", [["dynamo executions", 3, 36]])
    shown = show(found)
    row = "document.querySelector('#list summary').innerText"
    assert "dynamo executions 3 → 36" in shown.run(row)
    shown.run("document.querySelector('details.test').open = true")
    shown.settle()
    tallies = "[...document.querySelectorAll('.panel .tally')].map((node) => node.textContent)"
    assert shown.run(tallies) == ["dynamo executions 3", "dynamo executions 36"]


@pytest.fixture
def show(chromium: Browser, tmp_path: Path) -> Any:
    """Open the page of a comparison; at the end nothing may have gone wrong in it or left it."""

    def opened(found: Comparison, width: int = 1280) -> Browser:
        chromium.looks(width=width)
        (tmp_path / "page.html").write_text(page.render(found), encoding="utf-8")
        chromium.open(tmp_path / "page.html")
        return chromium

    yield opened
    assert chromium.faults() == []


def test_a_browser_shows_causes_and_then_both_sides(show: Any) -> None:
    shown = show(a_comparison())
    heads = "[...document.querySelectorAll('#causes h2')].map((node) => node.textContent)"
    assert shown.run(heads)[:2] == ["new: 1 place", "gone: 1 place"]
    shown.run("document.querySelectorAll('details').forEach((node) => { node.open = true; })")
    shown.settle()
    assert shown.run("document.querySelectorAll('.beside').length") == 6
    shown.run("document.getElementById('query').focus()")
    shown.type("reworded tp_iternext")
    assert shown.run("document.getElementById('status').textContent") == "1 cause, 1 test"


def test_a_phone_shows_all_of_it(show: Any) -> None:
    shown = show(a_comparison(), width=390)
    shown.run("document.querySelectorAll('details').forEach((node) => { node.open = true; })")
    shown.settle()
    assert shown.run("document.body.scrollWidth") <= 390


def test_hostile_text_does_nothing_in_a_browser(show: Any) -> None:
    untrusted = an_untrusted_report()
    mild = a_report(*(a_test(test["nodeid"]) for test in untrusted["tests"]))
    for test in untrusted["tests"]:
        test["errors"] = []
    for found in (found_in(mild, untrusted), found_in(untrusted, mild)):
        shown = show(found)
        shown.run("document.querySelectorAll('details').forEach((node) => { node.open = true; })")
        shown.settle()
        assert shown.run("window.pwned === undefined")


# the message of a commit


def note_of(found: Comparison, *tests: str, kind: Any = "changed") -> str:
    entries = [Entry(kind, test, Path("x.yaml"), "cpu", None, None) for test in tests]
    return commit.message(found, entries)


def test_a_commit_says_why_each_group_moved() -> None:
    note = note_of(a_comparison(), "t.py::new", "t.py::moved", "t.py::left", "t.py::failed")
    assert note.split("\n")[0] == "Graph baselines for torch 2.13, transformers 5.24"
    assert "New:\n\n+ GB0124  Unsupported Tensor.item() call\n" in note
    assert "  transformers 5.20.0 -> 5.24.0\n  1 test, +1 dynamo graph, in t.py\n" in note
    assert "Renamed, or gone at one place and new at another:" in note
    assert "print(x)" not in note  # the entry of that test did not move
    assert note.endswith("\n1 test as in both runs: the baseline was older.\n")
    assert all(len(line) <= 72 for line in note.split("\n"))


@pytest.mark.parametrize("kind", ["added", "pruned"])
def test_a_commit_counts_what_is_recorded_or_dropped(kind: str) -> None:
    said = {"added": "recorded for the first time", "pruned": "dropped, since the test is gone"}
    note = note_of(a_comparison(), "t.py::x", kind=kind)
    assert note.endswith(f"\n1 test {said[kind]}.\n")


def sides(old: str | None, new: str | None) -> str:
    return commit.patch("why\n", [FileChange(Path("b.yaml"), old, new)], ['b/ü ".yaml'])


def test_a_patch_of_any_text_applies(tmp_path: Path) -> None:
    texts = (None, "a\n", "a", "a\r\nb\r\n", "a\n\x0cb\u2028c\nd", "\n" * 9 + "z\n", "")
    name = tmp_path / "b" / 'ü ".yaml'
    for old in texts:
        for new in texts:
            if old == new:
                continue
            name.parent.mkdir(exist_ok=True)
            name.unlink(missing_ok=True)
            if old is not None:
                name.write_bytes(old.encode())
            (tmp_path / "p").write_bytes(sides(old, new).encode())
            done = subprocess.run(
                ["git", "apply", "p"], cwd=tmp_path, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, (old, new, done.stderr, sides(old, new))
            assert (name.read_bytes().decode() if name.exists() else None) == new


def test_long_lists_are_cut_and_counted() -> None:
    many = [f"t.py::test[{number}]" for number in range(23)]
    full, few = [a_graph(ops=100)], [a_graph(ops=10)]
    before = a_report(*(a_test(one, graph_list=full, ops={"dynamo": 100}) for one in many))
    after = a_report(*(a_test(one, graph_list=few, ops={"dynamo": 10}) for one in many))
    shown = [*map(str, text.lines(found_in(before, after)))]
    assert "  dynamo: 23 tests down (-2,070)" in shown
    assert "    ... and 3 more that fell by more than 10%" in shown
    broke = a_report(*(broken(one, "print(x)") for one in many))
    shown = [*map(str, text.lines(found_in(before, broke)))]
    assert "      in t.py::test[0]" in shown
    assert "      in 20 more" in shown


def test_a_side_that_is_not_whole_says_so() -> None:
    whole = a_report(a_test("t.py::a"))
    cut = a_report(a_test("t.py::a"), exit=2)
    shown = [*map(str, text.lines(found_in(whole, cut)))]
    assert any(line.startswith("note    after: ") for line in shown)
