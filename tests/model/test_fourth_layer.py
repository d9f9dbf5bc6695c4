"""A layer is one folder and one entry in a list: two more are added to a copy of the package.

They need no torch: these tests run where it is not installed, and it is not imported where it is.
``toy`` has graph breaks of its own; ``toy_host`` is counted, and judged only where it is named.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

import pytest_graphbreak
from pytest_graphbreak.model.layers import LAYERS
from tests.conftest import ENVIRON

pytestmark = pytest.mark.pure

HERE = Path(__file__).parent / "fourth"
PACKAGE = Path(pytest_graphbreak.__file__).parent

CONFTEST = """
import sys


def pytest_unconfigure():
    assert "torch" not in sys.modules
"""
MODEL = """
import toycompiler


def head():
    pass


def step(shape):
    toycompiler.run(head, shape)
    toycompiler.run(head, 1, "host")
"""
BROKEN = (
    MODEL
    + """    toycompiler.say("hello")
    toycompiler.run(head, shape + 1)
"""
)
TESTS = """
import subprocess
import sys

import pytest

from model import step


def test_step():
    step(3)


@pytest.mark.max_graphs(toy=1)
def test_capped():
    step(3)


@pytest.mark.max_graphs(toy_host=0)
def test_host():
    step(3)


@pytest.mark.max_graphs(3)
def test_block(graph_budget):
    with graph_budget(breaks=1) as seen:
        step(3)
    assert seen.graphs == seen.record.graphs["toy"]


def test_child():
    subprocess.run([sys.executable, "-c", "from model import step; step(3)"], check=True)
"""


class Copy:
    """The package with two layers more, and a suite that is measured with it."""

    def __init__(self, place: Path) -> None:
        self.site = place / "site"
        self.suite = place / "suite"
        package = self.site / "pytest_graphbreak"
        shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
        for layer in ("toy", "toy_host"):
            shutil.copytree(HERE / layer, package / "layers" / layer)
        table = package / "model" / "layers.py"
        text = table.read_text("utf-8")
        end = ")\n\nDESCRIPTIONS: Final"
        assert text.count(end) == 1
        entries = (HERE / "descriptions.txt").read_text("utf-8")
        table.write_text(text.replace(end, f"{entries}{end}"))
        shutil.copy(HERE / "toycompiler.py", self.site)
        self.suite.mkdir()
        self.write("conftest.py", CONFTEST)
        self.write("test_model.py", TESTS)
        self.write("model.py", MODEL)

    def write(self, name: str, text: str) -> None:
        (self.suite / name).write_text(text, "utf-8")

    def python(self, *arguments: str, code: int = 0) -> str:
        """Run a Python there; what it printed."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.suite,
            # With its bytecode written: a dozen processes import it.
            env={**ENVIRON, "PYTHONPATH": str(self.site), "PYTHONDONTWRITEBYTECODE": "", "CI": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def gate(self, *options: str, report: str, code: int = 0) -> tuple[str, dict[str, Any]]:
        """Run the suite under the gate: its output, and the tests of its report by name."""
        said = self.python(
            *("-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly"),
            *(f"--graph-budget-report={report}", "--graph-budget-profile=card", *options),
            code=code,
        )
        data = json.loads((self.suite / report).read_text())
        return said, {test["nodeid"].partition("::")[2]: test for test in data["tests"]}


class Runs:
    """What the copy did: recorded, checked as recorded, and red with a break."""

    def __init__(self, place: Path) -> None:
        copy = self.copy = Copy(place)
        few = ("--graph-budget-record", "-k", "not host")
        _, self.recorded = copy.gate(*few, report="a.json")
        self.baseline = (copy.suite / "baselines/test_model.yaml").read_text()
        self.said, self.green = copy.gate("--graph-budget", report="b.json", code=1)
        copy.write("model.py", BROKEN)
        self.red_said, self.red = copy.gate("--graph-budget", report="c.json", code=1)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("fourth"))


def at(test: dict[str, Any], *keys: str) -> list[Any]:
    return [test[key] for key in keys]


def test_it_is_observed_and_recorded(runs: Runs) -> None:
    step = runs.recorded["test_step"]
    assert at(step, "layers", "graphs") == [["toy", "toy_host"], {"toy": 1, "toy_host": 1}]
    (made, host) = step["graph_list"]
    assert at(made, "layer", "cause", "ops") == ["toy", "made", 3]
    assert made["where"]["code"] == "toycompiler.run(head, shape)"
    assert host["layer"] == "toy_host"
    entry = {"graphs": {"toy": 1}, "ops": {"toy": 3}}
    tests = yaml.safe_load(runs.baseline)["tests"]
    assert {key: tests["test_step"][key] for key in entry} == entry


def test_its_baseline_is_read(runs: Runs) -> None:
    assert runs.green["test_step"]["verdict"] == "ok"
    assert runs.green["test_step"]["baseline"]["graphs"] == {"toy": 1}


def test_a_child_process_is_followed(runs: Runs) -> None:
    graphs = runs.recorded["test_child"]["graph_list"]
    assert [(graph["layer"], graph["process"]) for graph in graphs][:1] == [("toy", "python -c")]


def test_it_is_capped(runs: Runs) -> None:
    assert runs.green["test_capped"]["verdict"] == "ok"
    assert runs.red["test_capped"]["verdict"] == "over"
    assert "\n  marker    @pytest.mark.max_graphs" in runs.red["test_capped"]["message"]
    assert runs.green["test_block"]["verdict"] == "ok"


def test_what_is_not_judged_is_reported_and_judged_where_it_is_named(runs: Runs) -> None:
    assert "toy_host" not in runs.baseline
    assert runs.green["test_host"]["verdict"] == "over"
    assert "1 toy_host graph, the marker allows 0 (+1)" in runs.green["test_host"]["message"]


def test_its_breaks_are_judged(runs: Runs) -> None:
    step = runs.red["test_step"]
    assert at(step, "verdict", "graphs") == ["over", {"toy": 3, "toy_host": 1}]
    assert [at(item, "layer", "id", "count") for item in step["breaks"]] == [["toy", "T1", 1]]
    for line in (
        "  toy 1 -> 3 (1 made, 1 broken, 1 again)",
        "toy recompiles 0 -> 1",
        "breaks 0 -> 1",
        "  + T1  say() is called with hello",
        '          toycompiler.say("hello")',
        "shape 4 after 3",
    ):
        assert line in step["message"], line


def test_its_places_are_in_the_baseline_with_their_layer(runs: Runs) -> None:
    copy, file = runs.copy, runs.copy.suite / "baselines/test_model.yaml"
    copy.gate("--graph-budget-update", "-k", "step or child", report="d.json")
    written = file.read_text()
    item = {
        "layer": "toy",
        "reason": "say() is called with hello",
        "id": "T1",
        "where": "model.py::step",
        "code": 'toycompiler.say("hello")',
    }
    assert yaml.safe_load(written)["tests"]["test_step"]["breaks"] == [item]
    # As many graphs and recompiles as there were: only that it breaks is new.
    places = written[written.index("    breaks:") : written.index("  test_capped")]
    file.write_text(written.replace(places, "", 1))
    said, tests = copy.gate("--graph-budget", "-k", "step or child", report="d.json", code=1)
    assert tests["test_child"]["verdict"] == "ok"
    assert tests["test_child"]["baseline"]["breaks"][0]["layer"] == "toy"
    assert tests["test_step"]["verdict"] == "over"
    assert "graph budget: 1 graph break, the baseline allows 0 (+1)" in said


def test_its_report_is_valid(runs: Runs) -> None:
    runs.copy.python("-m", "pytest_graphbreak.baseline.schemas")
    home = runs.copy.site / "pytest_graphbreak" / "schemas"
    schema = json.loads((home / "report.json").read_text())
    assert schema["$defs"]["layer"]["enum"][-2:] == ["toy", "toy_host"]
    for name in ("a.json", "b.json", "c.json"):
        Draft202012Validator(schema).validate(json.loads((runs.copy.suite / name).read_text()))
    baseline = json.loads((home / "baseline.json").read_text())
    written = (runs.copy.suite / "baselines/test_model.yaml").read_text()
    Draft202012Validator(baseline).validate(yaml.safe_load(written))


def test_it_is_reported_as_text_markdown_and_html(runs: Runs) -> None:
    # A test is told once, where it failed; the summary has each place with its tests.
    assert "\n  toy 1 -> 3 (1 made, 1 broken, 1 again), toy recompiles 0 -> 1" in runs.red_said
    summary = runs.red_said[runs.red_said.index(" graph budget =") :]
    assert "\n  + T1  say() is called with hello\n      model.py:12 in step\n" in summary
    assert "test_model.py::test_block" in summary
    files = ("--markdown", "c.md", "--html", "c.html")
    runs.copy.python("-m", "pytest_graphbreak", "report", "c.json", *files)
    markdown = (runs.copy.suite / "c.md").read_text()
    assert "toy 1 → 3" in markdown or "toy 1 -> 3" in markdown
    assert "say() is called with hello" in markdown
    page = (runs.copy.suite / "c.html").read_text()
    (data,) = [line for line in page.split("<script") if 'id="data"' in line]
    assert '"name":"toy"' in data.replace(": ", ":")
    assert "say() is called with hello" in data


ASKED = """
import json
from pytest_graphbreak import observe
from pytest_graphbreak.config.settings import MARKERS
from pytest_graphbreak.cli.doctor import run_probe
from pytest_graphbreak.model.layers import DESCRIPTIONS

with observe(toy=1) as seen:
    pass
print(json.dumps({"markers": MARKERS, "probe": run_probe({"layer": "toy"}), "seen": seen.graphs}))
"""


def test_it_is_in_help_texts_and_the_doctor_tries_it(runs: Runs) -> None:
    facts = json.loads(runs.copy.python("-c", ASKED))
    assert (
        f"max_graphs(n, {'=n, '.join(LAYERS)}=n, toy=n, toy_host=n, recompiles=n"
        in facts["markers"][0]
    )
    assert facts["probe"] == {
        "expected": "2 graphs = 1 made + 1 broken, 0 recompiles, 1 break",
        "saw": "2 graphs = 1 made + 1 broken, 0 recompiles, 1 break",
        "about": "a toy",
        "reasons": [],
        "errors": [],
        "notes": [],
    }


def test_a_layer_that_cannot_be_loaded_is_an_error(runs: Runs) -> None:
    layers = runs.copy.site / "pytest_graphbreak" / "layers"
    gone = [file for name in ("xla", "toy_host") for file in (layers / name).glob("[!_]*.py")]
    assert len(gone) > 10
    texts = [file.read_text() for file in gone]
    for file in gone:
        file.unlink()
    try:
        words = runs.copy.python("-m", "pytest", "--graph-budget", "-k", "test_step", code=1)
    finally:
        for file, text in zip(gone, texts, strict=True):
            file.write_text(text)
    why = "layer cannot be loaded (ModuleNotFoundError: No module named 'pytest_graphbreak.layers."
    assert f"graph budget: could not see: the xla {why}xla.observer')" in words
    assert f"  and the toy_host {why}toy_host.observer')" in words
    assert "INTERNALERROR" not in words
