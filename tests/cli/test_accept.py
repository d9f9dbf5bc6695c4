"""``graphbreak accept``: reports become baselines."""

from __future__ import annotations

import io
import sys

import pytest

from tests import terminal
from tests.cli.conftest import Workspace
from tests.reports import a_report, a_shard, a_test, over
from tests.text.tools import Terminal
from tests.untrusted import PATHS

pytestmark = pytest.mark.pure

T = "tests/test_a.py::test_b"


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())


def test_every_test_but_those_that_failed_by_themselves(workspace: Workspace) -> None:
    (workspace.path / "baselines").mkdir()
    workspace.report(
        "one.json",
        a_report(
            over("tests/test_a.py::gate", 1, 3),
            a_test("tests/test_a.py::passed"),
            a_test("tests/test_a.py::xpassed", outcome="xpassed"),
            over("tests/test_a.py::xfailed_by_gate", 1, 2, outcome="xfailed", failed_by=None),
            a_test("tests/test_a.py::own", 5, outcome="failed", failed_by="test"),
            a_test("tests/test_a.py::xfailed", 5, outcome="xfailed"),
            a_test("tests/test_a.py::skipped", 0, outcome="skipped"),
            a_test("tests/test_a.py::crashed", 0, outcome="crashed", failed_by="test"),
            a_test("tests/test_a.py::nothing", 0),
            over("tests/test_a.py::blind", 1, 2, verdict="error", errors=["a sensor is missing"]),
        ),
    )
    said = workspace.run("accept", "--yes", "one.json", code=0)
    text = workspace.baseline()
    for name in ("gate", "passed", "xpassed", "xfailed_by_gate"):
        assert f"  {name}:\n" in text
    for name in ("own", "xfailed", "skipped", "crashed", "nothing", "blind"):
        assert f"  {name}:\n" not in text
    assert "failed     tests/test_a.py::own   on cpu" in said.out
    assert "xfailed    tests/test_a.py::xfailed   on cpu" in said.out
    assert "1 failed by themselves and left out, 1 xfailed and left out" in said.out
    assert "not seen   tests/test_a.py::blind   a sensor is missing   on cpu" in said.out


def test_tests_that_are_not_gated_are_left_out(workspace: Workspace) -> None:
    """As ``--graph-budget-record`` and ``--graph-budget-update`` leave them out."""
    ungated = a_test("tests/test_a.py::apart", ungated="it depends on the data")
    workspace.report("one.json", a_report(ungated))
    said = workspace.run("accept", "--yes", "one.json", code=0)
    assert said.out == (
        "ungated    tests/test_a.py::apart\n"
        "cpu: 1 ungated\n"
        "Nothing to write: what differs is left out.\n"
    )
    # An entry that there is already is renewed.
    workspace.report("one.json", a_report(ungated | {"ungated": None}))
    assert workspace.run("accept", "--yes", "one.json").code == 0
    workspace.report("one.json", a_report(ungated | {"graphs": {"dynamo": 2}}))
    assert "~ apart   cpu   dynamo 1 -> 2" in workspace.run("accept", "--yes", "one.json").out


def test_the_baselines_say_it_already_only_where_nothing_is_left_out(workspace: Workspace) -> None:
    workspace.report("one.json", a_report(a_test(T)))
    workspace.run("accept", "--yes", "one.json")
    said = workspace.run("accept", "--yes", "one.json", code=0)
    assert said.out.endswith("Nothing to write: the baselines say this already.\n")
    xfailed = a_test(f"{T}_2", 5, outcome="xfailed")
    workspace.report("one.json", a_report(a_test(T), xfailed))
    said = workspace.run("accept", "--yes", "one.json", code=0)
    assert said.out.endswith("Nothing to write: what differs is left out.\n")


# profiles


def test_profiles_in_one_go_base_first(workspace: Workspace) -> None:
    workspace.report("n300.json", a_report(a_test(T, 3), profile="tt-n300"))
    workspace.report("n150.json", a_report(a_test(T, 1), profile="tt-n150"))
    workspace.report("p150.json", a_report(a_test(T, 1), profile="tt-p150"))
    reports = ("n300.json", "n150.json", "p150.json")
    workspace.run("accept", "--yes", "--base-profile", "tt-n150", *reports, code=0)
    text = workspace.baseline()
    assert "profile: tt-n150" in text
    assert (
        "graphs: {dynamo: 1}\n    ops: {dynamo: 12}\n"
        '    entries: ["models/head.py::Model.forward"]\n    overrides:\n      tt-n300:\n'
        "        graphs: {dynamo: 3}\n        ops: {dynamo: 12}\n" in text
    )
    assert "tt-p150" not in text  # as the plain values
    assert workspace.run("check", *reports).code == 0


def test_a_base_profile_that_no_report_has_is_refused(workspace: Workspace) -> None:
    workspace.report("one.json", a_report(a_test(T)))
    said = workspace.run("accept", "--yes", "--base-profile", "tt-n150", "one.json", code=2)
    assert "no report is of tt-n150; they are of cpu" in said.err
    assert not (workspace.path / "baselines").exists()


# shards, retries, contradictions


@pytest.mark.parametrize("runs", ["report", "fail"])
def test_what_agrees_is_written_and_each_contradiction_named_and_left_out(
    runs: str, workspace: Workspace
) -> None:
    (workspace.path / "pytest.ini").write_text(f"[pytest]\ngraph_budget_runs = {runs}\n")
    names = [f"tests/test_a.py::t{number}" for number in range(3)]
    for file, graphs, executions in (("1.json", 1, 4), ("2.json", 2, 5)):
        tests = (
            a_test(names[0], executions={"dynamo": 1}),
            a_test(names[1], graphs, executions={"dynamo": 1}),
            a_test(names[2], executions={"dynamo": executions}),
        )
        workspace.report(file, a_report(*tests))
    said = workspace.run("accept", "--yes", "1.json", "2.json", code=1)
    assert f"contradiction: {names[1]} on cpu: 1 or 2 dynamo graphs\n  1.json\n  2.json" in said.out
    ran = f"contradiction: {names[2]} on cpu: 4 or 5 dynamo executions\n  1.json\n  2.json"
    assert (ran in said.out) == (runs == "fail")
    text = workspace.baseline()
    assert ["t0:" in text, "t1:" in text, "t2:" in text] == [True, False, runs == "report"]
    assert workspace.run("accept", "--yes", "--tests", "t0", "1.json", "2.json").code == 0


def test_no_baselines_are_made_of_reports_that_were_compared_with_some(
    workspace: Workspace,
) -> None:
    """The user stands in another directory, or the checkout left the baselines out."""
    workspace.report("one.json", a_report(over(T, 1, 4)))
    before = workspace.files()
    said = workspace.run("accept", "--yes", "one.json", code=2)
    assert f"{workspace.path}/baselines is not there, and {T} was compared with a" in said.err
    assert "--graph-budget-dir" in said.err
    assert workspace.files() == before
    (workspace.path / "baselines").mkdir()
    assert workspace.run("accept", "--yes", "one.json").code == 0
    said = workspace.run("accept", "--yes", "one.json", "--graph-budget-dir", "pytest.ini", code=2)
    assert "pytest.ini: is no directory; name a directory with graph_budget_dir" in said.err


# asking


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ([], 2, "--yes writes without asking"),
        (["--review"], 2, "--review asks for each test, and there is no terminal to ask on"),
        (["--dry-run", "--yes"], 0, "Would write 1 change in 1 file below baselines."),
    ],
    ids=["nowhere to ask", "nowhere to review", "a dry run"],
)
def test_nothing_is_written(
    options: list[str], code: int, words: str, workspace: Workspace
) -> None:
    workspace.report("one.json", a_report(a_test(T)))
    before = workspace.files()
    said = workspace.run("accept", *options, "one.json", code=code)
    assert words in said.out + said.err
    assert ("+ test_b   cpu   dynamo 1" in said.out) == ("--review" not in options)
    assert workspace.files() == before


@pytest.mark.parametrize(
    ("answer", "code", "written"), [("y\n", 0, True), ("\n", 1, False), ("", 1, False)]
)
def test_a_terminal_is_asked(
    answer: str, code: int, written: bool, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    workspace.report("one.json", a_report(a_test(T)))
    said = workspace.run("accept", "one.json", code=code)
    assert "Write 1 change in 1 file below baselines? [y/N]" in said.out
    assert (workspace.path / "baselines").exists() == written


@pytest.mark.parametrize(
    ("answers", "code", "written"),
    [
        ("y\nn\ny\n", 1, [0, 2]),
        ("y\nwhat\ny\ny\n", 0, [0, 1, 2]),
        ("y\nq\n", 1, [0]),
        ("y\n", 1, [0]),
        ("n\nq\n", 1, []),
    ],
)
def test_a_review_asks_for_each_test_and_writes_at_the_end(
    answers: str,
    code: int,
    written: list[int],
    workspace: Workspace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"tests/test_a.py::t{number}" for number in range(3)]
    workspace.report("was.json", a_report(*(a_test(name) for name in names)))
    workspace.run("accept", "--yes", "was.json")
    before = workspace.baseline()
    workspace.report("now.json", a_report(*(a_test(name, 2) for name in names)))
    monkeypatch.setattr("sys.stdin", Terminal(answers))
    said = workspace.run("accept", "--review", "now.json", code=code)
    assert (
        f"{names[0]}   on cpu\n  graph budget: 2 dynamo graphs, the baseline allows 1" in said.out
    )
    assert "if scores[0].item():" in said.out
    assert "Accept it (1 of 3)? [y/n/q]" in said.out
    after = workspace.baseline()
    entries = [after.partition(f"  t{number}:\n")[2][:30] for number in range(3)]
    assert [n for n, entry in enumerate(entries) if "dynamo: 2" in entry] == written
    assert (after != before) == bool(written)


def test_a_review_on_a_terminal(workspace: Workspace) -> None:
    """Each question is answered by keys, and the end of the input is ``q``."""
    names = [f"tests/test_a.py::t{number}" for number in range(4)]
    workspace.report("was.json", a_report(*(a_test(name) for name in names)))
    workspace.run("accept", "--yes", "was.json")
    workspace.report("now.json", a_report(*(a_test(name, 2) for name in names)))
    command = (sys.executable, "-m", "pytest_graphbreak", "accept", "--review", "now.json")
    shown = terminal.run(command, workspace.path, answers=("n\n", "y\n", "\x04"))
    assert shown.code == 1
    assert shown.raw != shown.text
    assert max(map(len, shown.lines)) <= 80
    asked = [line[:18] for line in shown.lines if line.startswith("Accept it ")]
    assert asked == [f"Accept it ({number} of 4)" for number in (1, 2, 3)]
    assert shown.lines[-1] == "Wrote 1 change in 1 file."
    after = workspace.baseline()
    assert [after.partition(f"  t{number}:\n")[2][:23] for number in range(4)] == [
        f"    graphs: {{dynamo: {count}}}" for count in (1, 2, 1, 1)
    ]


def test_a_review_that_is_interrupted_writes_nothing(workspace: Workspace) -> None:
    """By Ctrl-C, after a change was accepted."""
    names = [f"tests/test_a.py::t{number}" for number in range(2)]
    workspace.report("now.json", a_report(*(a_test(name) for name in names)))
    command = (sys.executable, "-m", "pytest_graphbreak", "accept", "--review", "now.json")
    shown = terminal.run(command, workspace.path, answers=("y\n", "\x03"))
    assert shown.code == 130
    assert shown.lines[-1].endswith("^Cgraphbreak: interrupted")
    assert not (workspace.path / "baselines").exists()


# --tests


@pytest.mark.parametrize(
    ("pattern", "taken"),
    [
        ("test_yolo", ["test_yolo[a]", "test_yolo[b]"]),
        ("test_yolo[a]", ["test_yolo[a]"]),
        ("*yolo[?]", ["test_yolo[a]", "test_yolo[b]"]),
        ("tests/test_a.py::*b*", ["test_yolo[b]", "test_bert"]),
    ],
)
def test_only_the_tests_asked_for(pattern: str, taken: list[str], workspace: Workspace) -> None:
    names = ("test_yolo[a]", "test_yolo[b]", "test_bert")
    workspace.report("one.json", a_report(*(a_test(f"tests/test_a.py::{name}") for name in names)))
    said = workspace.run("accept", "--dry-run", "--tests", pattern, "one.json", code=0)
    assert [name for name in names if f"+ {name}   " in said.out] == taken


@pytest.mark.parametrize("pattern", ["yolo*", "[ab]", "test_Bert"])
def test_a_pattern_that_names_no_test_is_refused(pattern: str, workspace: Workspace) -> None:
    workspace.report("one.json", a_report(a_test("tests/test_a.py::test_bert[a]"), a_test(T)))
    for command in (("accept", "--yes"), ("explain",)):
        said = workspace.run(*command, "one.json", "--tests", pattern, code=2)
        assert f"--tests {pattern}: no test of these reports matches; they have 2 tests" in said.err
    assert not (workspace.path / "baselines").exists()


# --prune


def shards(workspace: Workspace, *numbers: int) -> list[str]:
    """A report for each test of one file, as shards make them."""
    return [workspace.report(f"{number}.json", a_shard(number)) for number in numbers]


def with_a_stale_entry(workspace: Workspace) -> None:
    names = [f"tests/test_a.py::test[{number}]" for number in range(4)]
    stale = ("tests/test_a.py::test[gone]", "tests/test_b.py::also_gone")
    workspace.report("old.json", a_report(*(a_test(name) for name in (*names, *stale))))
    assert workspace.run("accept", "--yes", "old.json").code == 0


def test_shards_prune_together(workspace: Workspace) -> None:
    with_a_stale_entry(workspace)
    said = workspace.run("accept", "--yes", "--prune", *shards(workspace, 0, 1, 2, 3), code=0)
    assert "- test[gone]   its test is gone" in said.out
    assert "gone" not in workspace.baseline()
    assert "also_gone" in workspace.baseline("tests/test_b.yaml")  # no shard ran that file
    assert "collected in part" not in said.out


def test_a_missing_shard_loses_nothing(workspace: Workspace) -> None:
    """The others know which tests it had."""
    with_a_stale_entry(workspace)
    workspace.run("accept", "--yes", "--prune", *shards(workspace, 0, 1, 3), code=0)
    text = workspace.baseline()
    assert "gone" not in text
    for number in range(4):
        assert (
            f'      "{number}":\n        graphs: {{dynamo: 1}}\n        ops: {{dynamo: 12}}\n'
            in text
        )


def test_a_file_collected_in_part_prunes_nothing(workspace: Workspace) -> None:
    with_a_stale_entry(workspace)
    before = workspace.baseline()
    test = a_test("tests/test_a.py::test[0]")
    workspace.report("one.json", a_report(test, collected_whole=[]))
    said = workspace.run("accept", "--yes", "--prune", "one.json", code=0)
    assert "1 file collected in part only: nothing of theirs is dropped" in said.out
    assert workspace.baseline() == before
    assert "collected in part" not in workspace.run("accept", "--yes", "one.json").out


def test_a_function_collected_whole_prunes_its_own_cases(workspace: Workspace) -> None:
    """tt-xla names one function of a file of models: `test_models.py::test_all_models_torch`."""
    names = ("test[0]", "test[gone]", "other[0]", "other[gone]")
    workspace.report("old.json", a_report(*(a_test(f"tests/test_a.py::{name}") for name in names)))
    workspace.run("accept", "--yes", "old.json")
    test = a_test("tests/test_a.py::test[0]")
    workspace.report("one.json", a_report(test, collected_whole=["tests/test_a.py::test"]))
    said = workspace.run("accept", "--yes", "--prune", "one.json")
    assert "- test[gone]   its test is gone" in said.out
    assert workspace.baseline().count("gone") == 1


def test_without_prune_nothing_is_dropped(workspace: Workspace) -> None:
    with_a_stale_entry(workspace)
    before = workspace.baseline()
    workspace.run("accept", "--yes", *shards(workspace, 0, 1, 2, 3))
    assert workspace.baseline() == before


def test_prune_keeps_to_the_tests_asked_for(workspace: Workspace) -> None:
    with_a_stale_entry(workspace)
    reports = shards(workspace, 0, 1, 2, 3)
    workspace.run("accept", "--yes", "--prune", "--tests", "test[0]", *reports)
    assert "gone" in workspace.baseline()
    workspace.run("accept", "--yes", "--prune", "--tests", "test[gone]", *reports, code=0)
    assert "gone" not in workspace.baseline()


def test_the_baseline_of_a_deleted_file_goes(workspace: Workspace) -> None:
    with_a_stale_entry(workspace)
    (workspace.path / "tests/test_b.py").unlink()
    said = workspace.run("accept", "--yes", "--prune", *shards(workspace, 0, 1, 2, 3))
    assert "- also_gone   its test is gone" in said.out
    assert not (workspace.path / "baselines/tests/test_b.yaml").exists()


def test_a_checkout_of_something_else_loses_nothing(workspace: Workspace) -> None:
    with_a_stale_entry(workspace)
    for name in ("tests/test_a.py", "tests/test_b.py"):
        (workspace.path / name).unlink()
    workspace.run("accept", "--yes", "--prune", *shards(workspace, 0, 1, 2, 3))
    assert (workspace.path / "baselines/tests/test_b.yaml").exists()


# where


def test_a_broken_baseline_is_named_and_nothing_is_written(workspace: Workspace) -> None:
    path = workspace.path / "baselines/tests/test_a.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("version: 1\nprofile: cpu\ntests:\n  test_b:\n    graphs: {dynamo: -1}\n")
    workspace.report("one.json", a_report(a_test(T), a_test("tests/test_b.py::t")))
    before = workspace.files()
    said = workspace.run("accept", "--yes", "one.json", code=2)
    assert "baselines/tests/test_a.yaml:5" in said.err
    assert workspace.files() == before


# untrusted


@pytest.mark.parametrize("nodeid", PATHS)
def test_a_forged_node_id_writes_nothing_anywhere(nodeid: str, workspace: Workspace) -> None:
    workspace.report("evil.json", a_report(a_test("tests/test_b.py::fine"), a_test(nodeid)))
    above = sorted(workspace.path.parent.rglob("*"))
    said = workspace.run("accept", "--yes", "evil.json", code=2)
    assert "evil.json: " in said.err
    assert sorted(workspace.path.parent.rglob("*")) == above
    assert said.err.replace("\n", "").isprintable()


@pytest.mark.parametrize("file", ["tests/" + "x" * 300 + ".py", "/".join("x" * 600)])
def test_a_name_that_no_file_system_takes_is_refused(file: str, workspace: Workspace) -> None:
    workspace.report("one.json", a_report(a_test(f"{file}::t")))
    said = workspace.run("accept", "--yes", "one.json")
    assert said.code in (0, 2)
    assert "Traceback" not in said.err


@pytest.mark.nightly
def test_scale_of_40_reports(workspace: Workspace) -> None:
    """All of it is accepted; `docs/how-to/tt-xla-ci-gate.md` says how long 20,000 tests take."""
    cases = 500
    names = []
    for shard in range(40):
        tests = [
            a_test(f"tests/test_{shard}.py::test_model[case-{number}]", 1 + number % 3)
            for number in range(cases)
        ]
        names.append(workspace.report(f"{shard}.json", a_report(*tests)))
    said = workspace.run("accept", "--yes", *names, code=0)
    assert f"Wrote {40 * cases:,} changes in 40 files" in said.out
    assert f"{40 * cases:,}" in workspace.run("check", *names).out
