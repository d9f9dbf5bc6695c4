"""The tt layer, driven by a native library that prints as the plugin does."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_graphbreak.layers.tt import observer
from pytest_graphbreak.layers.tt.observer import TTObserver
from pytest_graphbreak.layers.tt.variables import FILE, LEVEL, turn_on
from pytest_graphbreak.model.items import Frame, Graph
from pytest_graphbreak.model.merging import record_of
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Record
from tests.conftest import Suite
from tests.layers.tt.plugin import NINE, Plugin, build

ROOT = Path(__file__).parents[3]
NAMES = (
    LEVEL,
    FILE,
    "TTMLIR_RUNTIME_LOGGER_LEVEL",
    "XLA_HLO_DEBUG",
    "PJRT_DEVICE",
)
OBSERVER = TTObserver()


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.setenv(name, "")  # also what was not there is put back
        monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("plugin"))


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The plugin's log, turned on as a user does it."""
    path = tmp_path / "tt.log"
    monkeypatch.setenv(LEVEL, "DEBUG")
    monkeypatch.setenv(FILE, str(path))
    return path


@pytest.fixture
def plugin(tmp_path: Path, log: Path) -> Iterator[Plugin]:
    """The plugin, loaded anew: it reads its variables as it is loaded."""
    import _ctypes

    loaded = Plugin(build(tmp_path))
    yield loaded
    _ctypes.dlclose(loaded._library._handle)


def window() -> observer.TTWindow:
    return OBSERVER.open(Places(ROOT))


def seen(opened: observer.TTWindow) -> Record:
    found = opened.close()
    assert found is not None
    return found


def test_counts_what_is_compiled_in_the_window(plugin: Plugin) -> None:
    plugin.compile()
    opened = window()
    plugin.compile()
    plugin.compile()
    found = seen(opened)
    plugin.compile()
    assert (found.layers, found.graphs, found.errors) == (("tt",), {"tt": 2}, ())
    assert found.notes == (f"tt: 2 of 2 graphs completed; stages: 2 x {NINE}",)
    assert [graph.name for graph in found.graph_list] == ["graph 1", "graph 2"]
    assert seen(opened) is found


def test_what_is_compiled_aside_is_not_the_windows(plugin: Plugin) -> None:
    opened = window()
    plugin.compile()
    with opened.exclude():
        plugin.compile()
    plugin.compile()
    with opened.exclude():
        plugin.compile(stages=NINE.split()[:3])
    found = seen(opened)
    assert (found.graphs, found.errors) == ({"tt": 2}, ())
    assert found.notes == (f"tt: 2 of 2 graphs completed; stages: 2 x {NINE}",)


def test_windows_nest_and_peeks_go_on(plugin: Plugin) -> None:
    outer = window()
    plugin.compile()
    inner = window()
    plugin.compile()
    assert seen(inner).graphs == {"tt": 1}
    for number in (2, 3):
        peeked = outer.peek()
        assert peeked.graphs == {"tt": number}
        plugin.compile()
    assert seen(outer).graphs == {"tt": 4}


def test_a_graph_that_fails_says_where(plugin: Plugin) -> None:
    opened = window()
    plugin.compile(stages=NINE.split()[:6], error="Failed to convert from SHLO to TTIR module")
    plugin.compile()
    found = seen(opened)
    assert found.graphs == {"tt": 2}
    assert found.graph_list[0].reason == (
        "stopped after shlo_compiler_cleaned: Failed to convert from SHLO to TTIR module"
    )
    six = " ".join(NINE.split()[:6])
    assert found.notes == (
        f"tt: 1 of 2 graphs completed; stages: 1 x {six}; 1 x {NINE}",
        "tt: 1 graphs failed to compile (1 after shlo_compiler_cleaned)",
    )


def test_without_a_log_the_layer_is_not_there() -> None:
    assert window().close() is None


@pytest.mark.parametrize("level", ["DEBUG", "INFO"], ids=["nobody writes", "no headers"])
def test_a_log_without_headers_is_no_layer(
    log: Path, monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    log.write_text("from an earlier session: MLIR Module vhlo:\n")
    monkeypatch.setenv(LEVEL, level)
    assert window().close() is None


def test_the_file_may_be_named_anew(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tt-xla's --log-pid puts the process id into the name, after the window opened."""
    import _ctypes

    later = tmp_path / "tt.4242.log"
    later.write_text("2026-08-20 10:22:52.123 old| MLIR Module vhlo:\n")
    opened = window()
    monkeypatch.setenv(FILE, str(later))
    plugin = Plugin(build(tmp_path))
    plugin.compile()
    assert seen(opened).graphs == {"tt": 1}
    _ctypes.dlclose(plugin._library._handle)


def test_a_log_that_is_cut_back_is_an_error(plugin: Plugin, log: Path) -> None:
    plugin.compile()
    opened = window()
    log.write_bytes(b"")
    (error,) = seen(opened).errors
    assert "cut back" in error


def test_a_log_that_cannot_be_read_is_an_error(plugin: Plugin, log: Path) -> None:
    opened = window()
    plugin.compile()
    log.rename(log.with_suffix(".old"))
    log.mkdir()
    (error,) = seen(opened).errors
    assert "cannot be read" in error


MINE = {
    "TTXLA_LOGGER_LEVEL": "VERBOSE",
    "TTXLA_LOGGER_FILE": "mine.log",
    "TTMLIR_RUNTIME_LOGGER_LEVEL": "WARNING",
    "XLA_HLO_DEBUG": "0",
}
HEADERS = {"TTXLA_LOGGER_LEVEL": "DEBUG", "TTXLA_LOGGER_FILE": f"DIR/tt-{os.getpid()}.log"}
FULL = {**HEADERS, "TTMLIR_RUNTIME_LOGGER_LEVEL": "DEBUG", "XLA_HLO_DEBUG": "1"}


@pytest.mark.parametrize(
    ("before", "log", "added"),
    [
        ({}, "headers", HEADERS),
        ({}, "full", FULL),
        ({}, "off", {}),
        (MINE, "full", {}),
        *(({"TTXLA_LOGGER_LEVEL": level}, "full", {}) for level in ("INFO", "WARNING", "debug")),
    ],
    ids=["headers", "full", "off", "the user's own", "INFO", "WARNING", "debug"],
)
def test_what_is_set_for_a_log_is_put_back(
    monkeypatch: pytest.MonkeyPatch, before: dict[str, str], log: str, added: dict[str, str]
) -> None:
    """A level of the user's own that prints no headers is respected, and nothing else is set."""
    for name, value in before.items():
        monkeypatch.setenv(name, value)
    off = turn_on(log)
    directory = Path(os.environ.get(FILE, "")).parent
    expected = {name: value.replace("DIR", str(directory)) for name, value in added.items()}
    assert variables() == before | expected
    if "XLA_HLO_DEBUG" in added:
        os.environ["XLA_HLO_DEBUG"] = "0"  # by the user, meanwhile
        before = {**before, "XLA_HLO_DEBUG": "0"}
    off()
    assert variables() == before


def variables() -> dict[str, str]:
    return {name: os.environ[name] for name in NAMES if name in os.environ}


SUITE = """
    import os
    import pytest
    from pathlib import Path
    from tests.layers.tt.plugin import NINE, Plugin

    @pytest.fixture(scope="session")
    def plugin():
        return Plugin(Path({library!r}))

    def test_one(plugin):
        plugin.compile()

    def test_three(plugin):
        for _ in range(3):
            plugin.compile()

    def test_failed(plugin):
        plugin.compile(stages=NINE.split()[:6], error="Failed to convert from SHLO to TTIR module")

    def test_none():
        print("log:", os.environ["TTXLA_LOGGER_FILE"])

    @pytest.mark.max_graphs(1)
    def test_cap(plugin):
        plugin.compile()
        plugin.compile()
"""
COUNTS = {"test_one": 1, "test_three": 3, "test_failed": 1, "test_none": 0, "test_cap": 2}


def run_suite(
    library: Path,
    directory: Path,
    options: list[str],
    *,
    source: str = SUITE,
    code: int = 1,
    report: bool = True,
    tee: bool = False,
    **environ: str,
) -> tuple[str, dict[str, Any]]:
    """Run the suite in a process of its own; what it printed, and its tests by name."""
    (directory / "test_suite.py").write_text(textwrap.dedent(source.format(library=str(library))))
    (directory / "pytest.ini").write_text("[pytest]\n")
    file = directory / "report.json"
    command = [sys.executable, "-m", "pytest", *([f"--graph-budget-report={file}"] * report)]
    command += ["-p", "no:cacheprovider", *options, str(directory / "test_suite.py")]
    line = f"set -o pipefail; {shlex.join(command)} 2>&1" + (" | tee pytest.log" if tee else "")
    said = subprocess.run(
        ["bash", "-c", line],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(directory), **environ},
        cwd=directory,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert said.returncode == code, said.stdout
    tests = json.loads(file.read_text())["tests"] if report else []
    return said.stdout, {test["nodeid"].rpartition("::")[2]: test for test in tests}


def graphs(tests: dict[str, Any]) -> dict[str, int]:
    return {name: test["graphs"].get("tt", 0) for name, test in tests.items()}


@pytest.mark.parametrize(
    "options",
    [
        ["--forked"],  # pytest-forked is in the xla environment only
        *(
            pytest.param(options, marks=pytest.mark.once)
            for options in ([], ["-sv"], ["-n2"], ["-p", "no:terminal"])
        ),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("forks")
def test_on_tt_the_log_is_on_and_every_test_has_its_own_graphs(
    library: Path, tmp_path: Path, options: list[str]
) -> None:
    """Nothing is set but the device. Nothing of ours is left."""
    needs = {"--forked": "pytest_forked", "-n2": "xdist"}
    for option in options:
        pytest.importorskip(needs.get(option, "pytest"))
    out, tests = run_suite(library, tmp_path, options, tee="-sv" in options, PJRT_DEVICE="TT")
    assert graphs(tests) == COUNTS
    assert tests["test_cap"]["verdict"] == "over"
    assert "failed to compile" in tests["test_failed"]["note"]
    # The modules of a test that failed by the gate are shown with it; under -s those of all.
    shown = {"-sv": 6 * 9 + 6, "-p": 0}.get(options[0] if options else "", 2 * 9)
    assert out.count("END OF MLIR MODULE") == shown
    assert not list(tmp_path.glob("graphbreak-tt-*"))
    if "-sv" in options:
        assert (tmp_path / "pytest.log").read_text() == out
        assert out.count("MLIR Module vhlo:") == 7  # what the user sees is all still there


RENAMING = """
import os
from pathlib import Path

import pytest
from tests.layers.tt.plugin import Plugin

LOADED = []

def compile():
    if not LOADED:
        LOADED.append(Plugin(Path({library!r})))
    LOADED[0].compile()

@pytest.fixture(autouse=True)
def renamed():
    before = os.environ["TTXLA_LOGGER_FILE"]
    os.environ["TTXLA_LOGGER_FILE"] = before.replace(".log", f".{{os.getpid()}}.log")
    yield
    os.environ["TTXLA_LOGGER_FILE"] = before

@pytest.mark.parametrize("number", range(5))
def test_one(number):
    compile()

"""


@pytest.mark.once
@pytest.mark.usefixtures("forks")
@pytest.mark.parametrize("early", ["", "compile()"], ids=["loaded-in-a-test", "loaded-before"])
def test_a_fixture_that_renames_the_log_and_puts_it_back(
    library: Path, tmp_path: Path, log: Path, early: str
) -> None:
    """As tt-xla's --log-pid does, without --forked: all graphs are in one file, of either name."""
    _, tests = run_suite(library, tmp_path, [], source=RENAMING + early, code=0)
    assert [test["graphs"] for test in tests.values()] == [{"tt": 1}] * 5
    assert [test["setup"]["phases"] for test in tests.values()] == [{}] * 5


@pytest.mark.once
@pytest.mark.usefixtures("forks")
def test_a_log_that_is_renamed_where_only_some_tests_are_measured(
    library: Path, tmp_path: Path, log: Path
) -> None:
    """The plugin has written to the file of the other name before the first window opens."""
    marked = "@pytest.mark.max_graphs(1)\ndef test_marked(): compile()\n"
    out, _ = run_suite(library, tmp_path, [], source=RENAMING + marked, code=0, report=False)
    assert "6 passed" in out


@pytest.mark.parametrize(
    ("device", "options"),
    [("CPU", ["--graph-budget-report=r.json"]), ("TT", [])],
    ids=["without TT", "without counts"],
)
def test_where_nothing_is_to_be_counted_on_tt_nothing_is_set(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, device: str, options: list[str]
) -> None:
    monkeypatch.setenv("PJRT_DEVICE", device)
    suite.write("import os\ndef test_it():\n    assert 'TTXLA_LOGGER_FILE' not in os.environ\n")
    suite.run(*options).assert_outcomes(passed=1)


INSIDE = """
    import os, pytest
    from pathlib import Path

    MARK
    def test_it():
        assert os.environ["TTXLA_LOGGER_LEVEL"] == "DEBUG"
        file = Path(os.environ["TTXLA_LOGGER_FILE"])
        assert file.parent.is_dir()
        Path("where").write_text(str(file))
"""


@pytest.mark.parametrize(
    ("mark", "options"),
    [("", ["--graph-budget-report=r.json"]), ("@pytest.mark.max_graphs(1)", [])],
    ids=["report", "marker"],
)
def test_what_is_set_is_put_back_at_the_end(
    suite: Suite, monkeypatch: pytest.MonkeyPatch, mark: str, options: list[str]
) -> None:
    monkeypatch.setenv("PJRT_DEVICE", "TT")
    suite.write(INSIDE.replace("MARK", mark))
    before = dict(os.environ)
    suite.run(*options).assert_outcomes(passed=1)
    changed = {name for name in before.keys() ^ os.environ.keys() if name in NAMES}
    assert changed == set()
    assert not Path((suite.path / "where").read_text()).parent.exists()


def test_turning_on_nests() -> None:
    first, second = turn_on(), turn_on()
    file = os.environ[FILE]
    first()
    first()  # once is enough, twice is no harm
    assert os.environ[FILE] == file
    second()
    assert not any(name in os.environ for name in NAMES)
    assert not Path(file).parent.exists()


DISAGREE = """
    import os, sys
    sys.path.insert(0, {root!r})
    from pathlib import Path
    import torch, torch_xla
    from pytest_graphbreak.measuring.measure import Measurement
    from tests.layers.tt.plugin import Plugin

    device = torch_xla.device()
    os.environ["PJRT_DEVICE"] = "TT"  # the client is open: it stays what it is
    plugin = Plugin(Path({library!r}))
    for printed, compiled in ((1, 1), (0, 2), (1, 2), (2, 1)):
        window = Measurement(Path.cwd())
        for number in range(compiled):
            x = torch.ones(3 + printed, 5 + compiled, 7 + number, device=device) + 1
            torch_xla.sync()
        for _ in range(printed):
            plugin.compile()
        found = window.close()
        tt = [graph for graph in found.graph_list if graph.layer == "tt"]
        print(found.graphs.get("tt", 0), {{graph.cause for graph in tt}}, found.errors, found.note)
"""


@pytest.mark.usefixtures("xla_forks")
@pytest.mark.skipif(importlib.util.find_spec("torch_xla") is None, reason="needs torch_xla")
def test_disagreement_with_torch_xla_is_reported(library: Path, log: Path) -> None:
    script = textwrap.dedent(DISAGREE.format(root=str(ROOT), library=str(library)))
    alone = {name: value for name, value in os.environ.items() if "XDIST" not in name}
    said = subprocess.run(
        [sys.executable, "-c", script],
        env={**alone, "PJRT_DEVICE": "CPU"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    one = f"tt: 1 of 1 graphs completed; stages: 1 x {NINE}"
    agreed, blind, cached, others = said.stdout.splitlines()
    assert agreed == f"1 {{'sync'}} () {one}"
    assert blind.startswith("0 set() ('tt: torch_xla compiled 2 graphs and the log has none of th")
    assert cached.startswith(f"1 {{'other'}} () {one}; tt: 1 graphs here, 2 compiled by torch_xla")
    assert others.startswith("2 {'other'} () tt: 2 of 2 ")
    assert "tt: 2 graphs here, 1 compiled by torch_xla" in others


def test_without_headers_tt_graphs_are_counted_through_xla(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = Frame("net.py", "forward", 3, "x @ x")
    seen = Record(
        layers=("dynamo", "xla"),
        graphs={"dynamo": 1, "xla": 1},
        graph_list=(Graph("dynamo", "0/0", "entry"), Graph("xla", "0", "fx", where=where)),
        notes=("as before",),
    )
    monkeypatch.setattr(observer, "is_in_use", lambda: True)
    assert observer.count_through_xla(seen) is seen  # the log is on
    monkeypatch.delenv(LEVEL)
    reported = observer.count_through_xla(seen)
    assert reported.layers == ("dynamo", "xla", "tt")
    assert reported.graphs == {"dynamo": 1, "xla": 1, "tt": 1}
    last = reported.graph_list[-1]
    assert (last.layer, last.cause, last.sources, last.where) == ("tt", "fx", ("0",), where)
    assert (
        reported.note == "as before; tt: counted through xla, since the TT plugin's log is not on"
    )
    idle = Record(layers=("xla",))
    assert observer.count_through_xla(idle).layers == ("xla", "tt")
    assert observer.count_through_xla(idle).note is None
    assert observer.count_through_xla(reported) is reported
    monkeypatch.setattr(observer, "is_in_use", lambda: False)
    assert observer.count_through_xla(seen) is seen


def test_workers_that_share_a_log_are_an_error(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observer, "is_in_use", lambda: True)
    monkeypatch.delenv("PYTEST_XDIST_WORKER_COUNT", raising=False)
    own, xla = record_of("tt", graphs=3), record_of("xla", graphs=1)
    assert not observer.reconcile(own, xla).errors
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "2")
    (error,) = observer.reconcile(own, xla).errors
    assert "share the log" in error
    monkeypatch.setenv(FILE, "/tmp/graphbreak-tt-x/tt-1.log")
    assert not observer.reconcile(own, xla).errors


def test_xla_graphs_explain_tt_graphs() -> None:
    where = Frame("net.py", "forward", 3, "x @ x")
    xla = record_of(
        "xla",
        graphs=2,
        graph_list=(
            Graph("xla", "0", "fx", sources=("0/0",), where=where, hash="ab"),
            Graph("xla", "1", "access", reason="a value was read"),
        ),
    )
    names = ("graph 1", "graph 2")
    own = record_of("tt", graphs=2, graph_list=tuple(Graph("tt", name, "other") for name in names))
    first, second = observer.reconcile(own, xla).graph_list
    assert (first.layer, first.name, first.cause, first.where) == ("tt", "graph 1", "fx", where)
    assert (first.sources, first.hash) == (("0",), "ab")
    assert (second.cause, second.reason) == ("access", "a value was read")
    fewer = record_of("xla", graphs=1, graph_list=xla.graph_list[:1])
    assert observer.reconcile(own, fewer) is own
