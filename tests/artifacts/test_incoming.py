"""Reports from elsewhere: read if they are what they say, refused by name if not."""

from __future__ import annotations

import contextlib
import copy
import json
import os
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_graphbreak.artifacts import containers, incoming
from pytest_graphbreak.artifacts.incoming import ReportError, load_all, parse
from pytest_graphbreak.model.forms import LONGEST_FACT, LONGEST_TEXT
from pytest_graphbreak.model.json import entry_of
from pytest_graphbreak.model.report import LONGEST_MESSAGE, MOST_PACKAGES, MOST_SHARDS
from pytest_graphbreak.report import html, markdown
from pytest_graphbreak.report.runs import runs_of
from tests.report.tools import unlike_spots
from tests.reports import Data, a_break, a_report, a_test, over, place, write
from tests.untrusted import everywhere, spots

pytestmark = pytest.mark.pure

FULL = a_report(everywhere("some text"), over(), a_test("tests/test_b.py::test_c", 0))


SPOTS = [path for path in spots(FULL) if path]


def put(data: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        data = data[key]
    data[path[-1]] = value


def test_reads_what_the_plugin_writes(tmp_path: Path) -> None:
    (report,) = load_all([write(tmp_path / "graphs.json", FULL)])
    assert report.profile == "cpu"
    assert report.versions == {"torch": "2.13.0"}
    assert report.tests[0].record == entry_of(FULL["tests"][0]).record
    assert report.tests[1].baseline.graphs == {"dynamo": 1}


def test_missing_keys_are_empty_and_unknown_ones_are_dropped() -> None:
    test = {"nodeid": "t.py::t", "outcome": "passed", "new in version 1.1": 1}
    report = parse("x", {"version": 1, "environment": {"profile": "cpu"}, "tests": [test]})
    assert report.session.complete_files == ()
    assert report.tests[0].record.breaks == ()
    assert "new in version 1.1" not in report.tests[0].to_dict()


def test_settings_are_flags_numbers_and_text() -> None:
    settings = {"a": True, "b": 1, "c": 1.5, "d": None, "e": "x" * 1000}
    report = parse("x", a_report(a_test("t.py::a", settings=settings)))
    long = settings["e"][: LONGEST_FACT - 3] + "..."
    assert report.tests[0].record.settings == settings | {"e": long}
    assert report.tests[0].record.settings["a"] is True


@pytest.mark.parametrize(
    ("change", "place", "words"),
    [
        ({"graphs": {"dynamo": -1}}, "tests[1].graphs[...]", "Expected `int` >= 0"),
        ({"graphs": {"dynamo": True}}, "tests[1].graphs[...]", "Expected `int`, got `bool`"),
        ({"graphs": {"dynamo": 1.5}}, "tests[1].graphs[...]", "Expected `int`, got `float`"),
        ({"graphs": {"dynamo": 10**30}}, "tests[1].graphs[...]", "Expected `int` <= 10000000"),
        ({"graphs": {"gpu": 1}}, "tests[1].graphs", "Invalid enum value 'gpu'"),
        ({"graphs": {"xla": 1}}, "tests[1].graphs.xla", "was not observed"),
        ({"graphs": []}, "tests[1].graphs", "Expected `object`, got `array`"),
        ({"outcome": "fine"}, "tests[1].outcome", "Invalid enum value 'fine'"),
        ({"outcome": None}, "tests[1].outcome", "Expected `str`, got `null`"),
        ({"failed_by": "me"}, "tests[1].failed_by", "Invalid enum value 'me'"),
        ({"nodeid": ""}, "tests[1].nodeid", "Expected `str` of length >= 1"),
        ({"nodeid": "x" * 5000}, "tests[1].nodeid", "Expected `str` of length <= 4096"),
        ({"nodeid": 3}, "tests[1].nodeid", "Expected `str`, got `int`"),
        ({"breaks": {}}, "tests[1].breaks", "Expected `array`, got `object`"),
        ({"breaks": [{}]}, "tests[1].breaks[0]", "Object missing required field `layer`"),
        ({"message": {}}, "tests[1].message", "Expected `str | null`, got `object`"),
        ({"settings": []}, "tests[1].settings", "Expected `object`, got `array`"),
        ({"settings": {"stance": []}}, "tests[1].settings[...]", "got `array`"),
        ({"leaks": {str(n): 1 for n in range(2000)}}, "tests[1].leaks", "of length <= 1000"),
        ({"packages": {"torch": 2}}, "environment.packages[...]", "Expected `str`, got `int`"),
        (
            {"packages": {str(n): "1" for n in range(MOST_PACKAGES + 1)}},
            "environment.packages",
            "<= 1000",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(change: Data, place: str, words: str) -> None:
    report = a_report(a_test("t.py::a"), a_test("t.py::b"))
    (report["environment"] if "packages" in change else report["tests"][1]).update(change)
    with pytest.raises(ReportError) as caught:
        parse("shard.json", report)
    assert str(caught.value).startswith(f"shard.json: {place}: ")
    assert words in str(caught.value)


@pytest.mark.parametrize("group", [0, MOST_SHARDS + 1])
def test_a_shard_is_one_of_so_many(group: int) -> None:
    with pytest.raises(ReportError, match=r"x: session\.shard\.group: Expected `int` [<>]="):
        parse("x", a_report(shard={"group": group, "of": 3}))


def test_deep_places_are_named_too() -> None:
    report = copy.deepcopy(FULL)
    report["tests"][1]["breaks"][0]["stack"][1]["line"] = "7"
    with pytest.raises(ReportError, match=r"x: tests\[1\]\.breaks\[0\]\.stack\[1\]\.line: Exp"):
        parse("x", report)


@pytest.mark.parametrize("version", [0, 2, "1", True, None, 10**40])
def test_another_version_is_refused(version: object) -> None:
    with pytest.raises(ReportError, match=r"x: version: .* where 1 is expected"):
        parse("x", a_report() | {"version": version})


@pytest.mark.parametrize("data", [[], {}, None, "text", 1])
def test_what_is_no_report_is_refused(data: object) -> None:
    with pytest.raises(ReportError):
        parse("x", data)


@pytest.mark.parametrize("profile", ["", "a\nb", "\x1b[31m", "x" * 257, [], 3])
def test_a_profile_has_a_printable_name(profile: object) -> None:
    report = a_report()
    report["environment"]["profile"] = profile
    with pytest.raises(ReportError, match=r"environment\.profile"):
        parse("x", report)


VALID = copy.deepcopy(FULL)
VALID["tests"][0]["graph_list"].pop()  # a cause that is none
SCHEMA = json.loads((files("pytest_graphbreak") / "schemas" / "report.json").read_text())


def test_the_reports_of_these_tests_are_what_the_schema_says() -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(VALID)


def test_every_null_of_the_schema_is_taken() -> None:
    """One by one: what the writer may leave out, the reader must not refuse."""
    taken = 0
    known = SCHEMA["$defs"]["SessionReport"]["properties"]
    schema = jsonschema.Draft202012Validator(SCHEMA)
    for path in filter(None, unlike_spots(VALID)):
        if path[0] == "session" and len(path) > 1 and path[1] not in known:
            continue
        data = copy.deepcopy(VALID)
        put(data, path, None)
        if schema.is_valid(data):
            parse("x", data)
            taken += 1
    assert taken > 20


# files


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"{", b"\0", b"[" * 200_000, b'{"version": NaN}', b"9" * 10_000),
        *(b'{"a": 1} trailing', os.urandom(64) + b"\xff\xfe\xff"),
    ],
    ids=["empty", "cut off", "nul", "deep", "NaN", "huge number", "trailing", "no text"],
)
def test_what_is_no_json_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(data)
    with pytest.raises(ReportError, match=r"bad\.json: "):
        load_all([str(path)])


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name in ("missing.json", ".", "fifo"):
        with pytest.raises(ReportError):
            load_all([str(tmp_path / name)])
    with pytest.raises(ReportError, match="regular file"):
        load_all(["/dev/zero"])


def test_what_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "MOST_BYTES", 2**20)
    path = tmp_path / "large.json"
    path.write_text(" " * (2**20 + 1) + json.dumps(a_report()))
    with pytest.raises(ReportError, match=r"large\.json: .*larger than 1 MiB"):
        load_all([str(path)])


def test_every_bad_report_is_named(tmp_path: Path) -> None:
    good = write(tmp_path / "good.json", a_report())
    for name in ("one.json", "two.json"):
        (tmp_path / name).write_text("{")
    with pytest.raises(ReportError) as caught:
        incoming.load_all([str(tmp_path / "one.json"), good, str(tmp_path / "two.json")])
    assert "one.json" in str(caught.value)
    assert "two.json" in str(caught.value)
    assert "good.json" not in str(caught.value)


# anything at all


ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, -1, 0, 1, 2.5, 10**20, "", "x", "dynamo", "\ud800", [], {}, [None], [[]], {"a": 1}]
)


@given(st.lists(st.tuples(st.sampled_from(SPOTS), ODD), min_size=1, max_size=4))
def test_a_changed_report_is_refused_by_name_or_every_page_can_show_it(
    changes: list[tuple[tuple[Any, ...], Any]],
) -> None:
    data = copy.deepcopy(FULL)
    for path, value in changes:
        with contextlib.suppress(TypeError, KeyError, IndexError):
            put(data, path, value)  # an earlier change may have taken this place away
    try:
        found = runs_of([parse("x", data)])
    except ReportError:
        return
    assert html.render(found)
    assert markdown.render(found)


# how much of it is taken


def test_every_text_is_bounded() -> None:
    """A test of every place that takes text, each far too long."""
    long = "x" * 300_000
    report = a_report(everywhere(long, "tests/test_a.py::t"))
    report["environment"] |= dict.fromkeys(("torch", "python", "platform", "arch"), long)
    found = parse("x", report)
    environment = found.environment.to_dict()
    assert {len(value or "") for value in environment.values()} <= {0, 3, 200, 5, 6}
    test = found.tests[0].to_dict()
    assert len(test["message"]) == LONGEST_MESSAGE
    assert test["message"].endswith("...")
    del test["message"]
    assert max(map(len, texts(test))) == LONGEST_TEXT


def texts(value: Any) -> Iterator[str]:
    for path in spots(value):
        at = value
        for key in path:
            at = at[key]
        if isinstance(at, str):
            yield at


def test_how_many_tests_and_values_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "one.json", a_report(a_test("a.py::t"), a_test("a.py::u")))
    monkeypatch.setattr(incoming, "MOST_TESTS", 3)
    with pytest.raises(ReportError, match="4 tests are more than the 3 that one command takes"):
        load_all([path, path])
    monkeypatch.setattr(incoming, "MOST_VALUES", 20)
    with pytest.raises(ReportError, match=r"one\.json: it holds more than 20 values"):
        load_all([path])


def test_equal_places_are_one_object_and_no_forged_one() -> None:
    where = place()
    found = parse("x", a_report(a_test("a.py::t", 2, breaks=[a_break(where)] * 2)))
    one, other = (item.where for item in found.tests[0].record.breaks)
    assert one is other
    for wrong in (where | {"line": True}, where | {"line": 8.0}, where | {"code": []}):
        with pytest.raises(ReportError, match="where"):
            parse("x", a_report(a_test("a.py::t", 2, breaks=[a_break(wrong)])))


FOREIGN = ('{"version": 1, "tests": []}', "[]", "3", '{"ttnn_num_graphs": 2}')


@pytest.mark.parametrize("text", FOREIGN)
def test_foreign_json_in_a_directory_is_skipped(text: str, tmp_path: Path) -> None:
    """CI keeps other programs' JSON beside a report: tt-xla's benchmarks upload one directory."""
    write(tmp_path / "graphs.json", FULL)
    (tmp_path / "a_benchmark.json").write_text(text)
    notes: list[str] = []
    (report,) = load_all([str(tmp_path)], note=notes.append)
    assert report.name.endswith("graphs.json")
    assert notes == [
        f"{tmp_path}/a_benchmark.json is skipped: it is no report of --graph-budget-report"
    ]


def test_foreign_json_alone_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ReportError, match="is this a file that"):
        load_all([str(tmp_path)])
    with pytest.raises(ReportError, match="is this a file that"):
        load_all([str(tmp_path / "other.json")])


@pytest.mark.parametrize(
    "text", ['{"environment": {}, "session": {}, "tests": 3}', '{"version": 1']
)
def test_a_broken_report_in_a_directory_is_not_skipped(text: str, tmp_path: Path) -> None:
    write(tmp_path / "graphs.json", FULL)
    (tmp_path / "broken.json").write_text(text)
    with pytest.raises(ReportError, match=r"broken\.json"):
        load_all([str(tmp_path)])


def test_a_report_in_a_directory_that_is_too_large_is_not_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "graphs.json", a_report())
    write(tmp_path / "large.json", FULL)
    (tmp_path / "trace.json").write_text(f"[0{', 0' * 1000}]")
    monkeypatch.setattr(incoming, "MOST_VALUES", 50)
    with pytest.raises(ReportError, match=r"large\.json: it holds more than 50 values") as caught:
        load_all([str(tmp_path)])
    assert "trace.json" not in str(caught.value)
