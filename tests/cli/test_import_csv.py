"""``graphbreak import-csv``: what PyTorch's benchmarks expect becomes baselines."""

from __future__ import annotations

import string

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_graphbreak.baseline import Baselines
from tests.cli.conftest import Said, Workspace
from tests.examples import examples
from tests.reports import a_report, a_test

TEST = "tests/test_a.py::test_model[{name}]"
HEADER = "name,accuracy,graph_breaks\n"
CSV = HEADER + "\n\n\nmlp,pass,0\n\n\n\nrouter,pass,3\ndetector,eager_fail_to_run,0\na/b,pass,0\n"


def imported(workspace: Workspace, text: str = CSV, *args: str, test: str = TEST) -> Said:
    (workspace.path / "expected.csv").write_text(text)
    return workspace.run("import-csv", "expected.csv", "--test", test, "--profile", "cpu", *args)


def test_models_without_a_break_are_one_graph_and_the_others_are_named(
    workspace: Workspace,
) -> None:
    said = imported(workspace)
    assert said.code == 0
    assert said.out == (
        "left out   router   graph_breaks 3   expected.csv:9\n"
        "left out   detector   accuracy eager_fail_to_run   expected.csv:10\n"
        "4 rows: 2 of one graph, 2 left out\n"
        "next       record those: python -m pytest --graph-budget-record\n"
        "Wrote baselines of 2 tests in 1 file below baselines.\n"
    )
    assert workspace.baseline() == (
        "version: 1\nprofile: cpu\ntests:\n  test_model:\n    cases:\n"
        "      mlp: {graphs: {dynamo: 1}}\n      a/b: {graphs: {dynamo: 1}}\n"
    )


def test_captured_operations_are_written_with_the_torch_that_they_are_compared_on(
    workspace: Workspace,
) -> None:
    text = (
        "name,accuracy,graph_breaks,calls_captured,unique_graphs,recompiles\n"
        "mlp,pass,0,12,1,\nlstm,pass,,40,1,0\nrouter,pass,,9,2,\nvit,pass,0,,,\n"
    )
    said = imported(workspace, text, "--torch", "2.13.0")
    assert "left out   router   unique_graphs 2   expected.csv:4\n" in said.out
    assert workspace.baseline() == (
        'version: 1\nprofile: cpu\ntorch: "2.13"\ntests:\n  test_model:\n    cases:\n'
        "      mlp: {graphs: {dynamo: 1}, ops: {dynamo: 12}}\n"
        "      lstm: {graphs: {dynamo: 1}, ops: {dynamo: 40}}\n"
        "      vit: {graphs: {dynamo: 1}}\n"
    )


@pytest.mark.parametrize("version", ["newest", "2", "2.13 ", ""])
def test_a_version_of_torch_that_is_none(workspace: Workspace, version: str) -> None:
    said = imported(workspace, CSV, "--torch", version)
    assert said.code == 2
    assert f"--torch {version}: no version; write one such as 2.13" in said.err
    assert not (workspace.path / "baselines").exists()


def test_again_there_is_nothing_to_write(workspace: Workspace) -> None:
    imported(workspace)
    before = workspace.files()
    said = imported(workspace)
    assert said.code == 0
    assert "Nothing to write: the baselines say this already." in said.out
    assert workspace.files() == before
    assert "Nothing to write.\n" in imported(workspace, HEADER + "router,pass,3\n").out


def test_a_dry_run_writes_nothing(workspace: Workspace) -> None:
    said = imported(workspace, CSV, "--dry-run")
    assert said.code == 0
    assert "would add  tests/test_a.py::test_model[mlp]\n" in said.out
    assert "Would write baselines of 2 tests in 1 file below baselines." in said.out
    assert not (workspace.path / "baselines").exists()


@pytest.mark.parametrize("profile", ["cpu", "cuda"])
def test_an_entry_that_is_there_is_never_changed(workspace: Workspace, profile: str) -> None:
    workspace.report("one.json", a_report(a_test(TEST.format(name="a/b"), 2), profile=profile))
    workspace.run("accept", "--yes", "one.json")
    before = workspace.files()
    said = imported(workspace)
    assert said.code == 2
    assert said.err == (
        "graphbreak import-csv: baselines/tests/test_a.yaml:7: "
        "tests/test_a.py::test_model[a/b] has another entry already (expected.csv:11)\n"
        "nothing is written: remove these entries, or the rows\n"
    )
    assert {**workspace.files(), "expected.csv": b""} == {**before, "expected.csv": b""}


def test_a_test_without_parameters_that_has_an_entry_stays(workspace: Workspace) -> None:
    workspace.report("one.json", a_report(a_test("tests/test_a.py::test_model", 2)))
    workspace.run("accept", "--yes", "one.json")
    text = workspace.baseline()
    said = imported(workspace)
    assert said.code == 2
    assert "baselines/tests/test_a.yaml:5: tests/test_a.py::test_model has another" in said.err
    assert workspace.baseline() == text


def test_entries_of_other_tests_stay_as_they_are(workspace: Workspace) -> None:
    workspace.report("one.json", a_report(a_test("tests/test_a.py::test_b", 2)))
    workspace.run("accept", "--yes", "one.json")
    text = workspace.baseline()
    assert imported(workspace).code == 0
    assert workspace.baseline().startswith(text)


def test_an_entry_that_is_not_judged_stays(workspace: Workspace) -> None:
    text = (
        "version: 1\nprofile: cpu\ntests:\n  test_model:\n    cases:\n      mlp: {ungated: slow}\n"
    )
    path = workspace.path / "baselines" / "tests" / "test_a.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    said = imported(workspace)
    assert said.code == 0
    assert "ungated    tests/test_a.py::test_model[mlp]\n" in said.out
    assert workspace.baseline() == text + "      a/b: {graphs: {dynamo: 1}}\n"


def test_several_files(workspace: Workspace) -> None:
    for name in ("inference", "training"):
        (workspace.path / f"{name}.csv").write_text(CSV)
    files = ("inference.csv", "training.csv", "--profile", "cpu")
    said = workspace.run("import-csv", *files, "--test", TEST)
    assert said.code == 2
    assert (
        "training.csv:5: tests/test_a.py::test_model[mlp] is the test of inference.csv:5, too\n"
        in said.err
    )
    assert "put {file} into --test" in said.err
    assert not (workspace.path / "baselines").exists()
    said = workspace.run("import-csv", *files, "--test", "tests/test_{file}.py::test[{name}]")
    assert said.code == 0
    assert "Wrote baselines of 4 tests in 2 files below baselines." in said.out
    assert "mlp:" in workspace.baseline("tests/test_inference.yaml")


@pytest.mark.parametrize(
    ("test", "words"),
    [
        ("tests/test_a.py::test_model", "has no {name}; write the id of a test"),
        ("tests/test_a.py::test[{nam}]", "{nam} is not known; write the id of a test"),
        ("tests/test_a.py[{name}]", "is not the node id of a test (file::test)"),
        ("/tests/test_a.py::t[{name}]", "is not relative to the root directory"),
        ("tests/{name}.py::t", "expected.csv:3: 'tests/../b.py::t' is outside of the root"),
    ],
)
def test_ids_that_are_none(workspace: Workspace, test: str, words: str) -> None:
    said = imported(workspace, HEADER + "a,pass,0\n../b,pass,0\n", test=test)
    assert said.code == 2
    assert words in said.err
    assert len(said.err.splitlines()) == 1
    assert not (workspace.path / "baselines").exists()


def test_bad_rows_are_named_and_nothing_is_written(workspace: Workspace) -> None:
    said = imported(workspace, HEADER + "mlp,pass,0\nbert,pass,many\n,pass,0\n")
    assert said.code == 2
    assert said.out == ""
    assert said.err == (
        "graphbreak import-csv: expected.csv:3: bert: graph_breaks is 'many', no count\n"
        "expected.csv:4: '' is no name of a model\n"
    )
    assert not (workspace.path / "baselines").exists()


@pytest.mark.parametrize("profile", ["xla-cpu", "tt-n150", "tt"])
def test_the_profile_of_a_device_that_makes_graphs_of_its_own_is_refused(
    workspace: Workspace, profile: str
) -> None:
    (workspace.path / "expected.csv").write_text(CSV)
    said = workspace.run("import-csv", "expected.csv", "--test", TEST, "--profile", profile)
    assert said.code == 2
    assert f"--profile {profile}: its tests make {profile.partition('-')[0]} graphs" in said.err


def test_a_profile_that_is_no_name(workspace: Workspace) -> None:
    (workspace.path / "expected.csv").write_text(CSV)
    said = workspace.run("import-csv", "expected.csv", "--test", TEST, "--profile", " ")
    assert said.code == 2
    assert "cannot name a profile" in said.err


def test_what_is_written_is_judged_on_the_dynamo_layer_of_every_profile(
    workspace: Workspace,
) -> None:
    imported(workspace)
    mlp = TEST.format(name="mlp")
    for profile, code, graphs in (("cpu", 0, 1), ("cpu", 1, 2), ("tt-n150", 0, 1)):
        workspace.report("one.json", a_report(a_test(mlp, graphs), profile=profile))
        assert workspace.run("check", "one.json", "--allow-missing").code == code


NAMES = st.text(string.ascii_letters + string.digits + "/.-_ :[]'\"#{}&*é中", min_size=1).map(
    str.strip
)


@settings(examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(NAMES.filter(bool), unique=True, min_size=1, max_size=5))
def test_whatever_the_models_are_called(workspace: Workspace, names: list[str]) -> None:
    for path in (workspace.path / "baselines").rglob("*.yaml"):
        path.unlink()
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    said = imported(workspace, HEADER + "".join(f"{name},pass,0\n" for name in quoted))
    assert said.code == 0, said.err
    entries = [*Baselines(workspace.path / "baselines").entries()]
    assert [entry.nodeid for entry in entries] == [TEST.replace("{name}", name) for name in names]
    expected = [entry.expected("cpu") for entry in entries]
    assert all(item and item.values.graphs == {"dynamo": 1} for item in expected)
