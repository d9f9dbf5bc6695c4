"""What the child processes of a test compile is the test's, marked with the process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pytest_graphbreak.measuring.measure import Measurement, follow, pass_over
from pytest_graphbreak.model.items import Break, Frame, Graph
from pytest_graphbreak.model.merging import merge, number_names, of_process
from pytest_graphbreak.model.record import Frames, Record
from tests.conftest import Suite

HEAD = """
import multiprocessing, os, subprocess, sys, time
import torch

def broken(x):
    y = torch.sin(x)
    print("hello")
    return y + 1

def work(size=3):
    torch.compile(broken, backend="eager")(torch.ones(size))

def start(way, size=3, **kwargs):
    process = multiprocessing.get_context(way).Process(target=work, args=(size,), **kwargs)
    process.start()
    process.join()
    assert process.exitcode == 0
"""

FORKS = """
def test_process(): start("fork")

def test_named():
    start("fork", name="engine")
    start("fork", name="engine")

def test_by_hand():
    pid = os.fork()
    if pid == 0:
        work()
        os._exit(0)
    os.waitpid(pid, 0)

def test_grandchild():
    process = multiprocessing.get_context("fork").Process(target=start, args=("fork",))
    process.start()
    process.join()

def test_with_own():
    work(3)
    start("fork", 3)  # has inherited what is compiled
    start("fork", 4)

def test_idle():
    process = multiprocessing.get_context("fork").Process(target=print)
    process.start()
    process.join()

def test_pool():
    with multiprocessing.get_context("fork").Pool(1) as pool:
        pool.map(work, [3, 4])

def killed(queue):
    def backend(gm, args):
        if args[0].shape[0] == 5:
            queue.put("compiling")
            time.sleep(100)
        return gm
    compiled = torch.compile(lambda x: x + 1, backend=backend, dynamic=False)
    compiled(torch.ones(3))
    compiled(torch.ones(5))

def test_killed():
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=killed, args=(queue,))
    process.start()
    queue.get()
    process.kill()
    process.join()

def serve(connection):
    while size := connection.recv():
        work(size)
        connection.send("done")

def test_block(graph_budget):
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("fork").Process(target=serve, args=(theirs,))
    server.start()
    def ask(size):
        ours.send(size)
        ours.recv()
    ask(3)
    with graph_budget() as warm:
        ask(3)
    with graph_budget() as grown:
        ask(7)
    ours.send(0)
    server.join()
    assert warm.record.graphs == {}
    assert grown.record.graphs == {"dynamo": 2}
    assert {graph.process for graph in grown.record.graph_list} == {"ForkProcess"}
    assert grown.recompiles == 2
"""


@pytest.fixture
def forking(suite: Suite) -> dict[str, Any]:
    suite.write(HEAD + FORKS)
    return suite.tests()


def processes(test: dict[str, Any]) -> dict[str | None, int]:
    return Counter(graph["process"] for graph in test["graph_list"])


def left() -> list[Path]:
    import tempfile

    return list(Path(tempfile.gettempdir()).glob(f"graphbreak-{os.getpid()}-*"))


@pytest.mark.once
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_what_a_fork_compiles_is_the_tests(forking: dict[str, Any]) -> None:
    assert all(test["outcome"] == "passed" for test in forking.values()), forking
    assert {name: processes(test) for name, test in forking.items()} == {
        "test_process": {"ForkProcess": 2},
        "test_named": {"engine": 2, "engine 2": 2},
        "test_by_hand": {"fork": 2},
        "test_grandchild": {"ForkProcess": 2},
        # The first of its processes only runs what it has inherited, which has its name as well.
        "test_with_own": {None: 2, "ForkProcess 2": 2},
        "test_idle": {},
        "test_pool": {"ForkPoolWorker": 4},
        "test_killed": {"ForkProcess": 1},
        "test_block": {"ForkProcess": 4},
    }
    for name, test in forking.items():
        assert test["graphs"].get("dynamo", 0) == len(test["graph_list"]), name
        assert test["errors"] == []
    (broke,) = forking["test_process"]["breaks"]
    assert (broke["where"]["file"], broke["where"]["code"]) == ("test_it.py", 'print("hello")')
    assert forking["test_with_own"]["breaks"][0]["count"] == 2
    assert [name for name, test in forking.items() if test["note"]] == ["test_killed"]
    assert "ended in the middle of a compilation" in forking["test_killed"]["note"]
    assert left() == []


SPAWNS = """
SCRIPT = "import torch; torch.compile(lambda x: x + 1, backend='eager')(torch.ones(3))"

def test_script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    subprocess.run([sys.executable, path], env={**os.environ, "A": "1"}, check=True)

def test_not_followed():
    code = "import sys; print('pytest_graphbreak' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], env={}) == b"False\\n"

def test_own_sitecustomize(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('mine')")
    env = {**os.environ}
    env["PYTHONPATH"] += os.pathsep + str(tmp_path)
    code = "import sys; import sitecustomize; print(sitecustomize.__file__, 'torch' in sys.modules)"
    out = subprocess.check_output([sys.executable, "-c", code], env=env, text=True)
    assert out.split() == ["mine", str(tmp_path / "sitecustomize.py"), "False"]
"""


@pytest.mark.once
def test_what_a_new_python_compiles_is_the_tests(suite: Suite) -> None:
    suite.write(HEAD + SPAWNS)
    tests = suite.tests()
    assert all(test["outcome"] == "passed" for test in tests.values()), tests
    assert {name: processes(test) for name, test in tests.items()} == {
        "test_script": {"train.py": 1},
        "test_not_followed": {},
        "test_own_sitecustomize": {},
    }
    assert left() == []


FORKSERVER = """
def test_first(): start("forkserver")

def test_second():
    start("forkserver", 4, name="engine")

def test_nothing(): pass
"""


@pytest.mark.once
@pytest.mark.nightly
@pytest.mark.usefixtures("forks")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_server_that_outlives_its_test_forks_for_the_next(suite: Suite) -> None:
    """The server keeps the environment of the test that started it."""
    suite.write(HEAD + FORKSERVER)
    run = suite.pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "--graph-budget-report=graphs.json"
    )
    run.assert_outcomes(passed=3)
    tests = suite.reported().values()
    assert [processes(test) for test in tests] == [
        {"ForkServerProcess": 2},
        {"engine": 2},
        {},
    ]
    assert not any(test["errors"] or test["note"] for test in tests)


@pytest.mark.once
def test_a_child_that_cannot_be_watched_is_reported(tmp_path: Path) -> None:
    """A Python that has torch and not this package: another environment."""
    (tmp_path / "torch.py").write_text("")
    (tmp_path / "pytest_graphbreak.py").write_text("raise ImportError('not here')")
    with Measurement(tmp_path) as seen:
        env = {**os.environ, "PYTHONPATH": f"{os.environ['PYTHONPATH']}{os.pathsep}{tmp_path}"}
        subprocess.run([sys.executable, "-c", "import torch"], env=env, check=True, cwd=tmp_path)
    record = seen.close()
    assert record.note is not None
    assert "is not counted: not here" in record.note
    assert (record.errors, left()) == ((), [])


@pytest.mark.once
@pytest.mark.nightly
@pytest.mark.usefixtures("forks")
def test_a_process_that_becomes_another_program_leaves_nothing(tmp_path: Path) -> None:
    source = """
        import os, sys
        from pathlib import Path
        from pytest_graphbreak.measuring.measure import Measurement
        code = "import torch; torch.compile(lambda x: x + 1, backend='eager')(torch.ones(3))"
        with Measurement(Path.cwd()):
            os.execv(sys.executable, [sys.executable, "-c", code])
    """
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    code = textwrap.dedent(source)
    subprocess.run([sys.executable, "-c", code], env=env, check=True)
    assert not list(tmp_path.glob("graphbreak-*"))


@pytest.mark.once
def test_the_environment_is_the_users_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for before in (None, "", "/a:/b"):
        monkeypatch.delenv("PYTHONPATH", raising=False)
        if before is not None:
            monkeypatch.setenv("PYTHONPATH", before)
        was = dict(os.environ)
        with Measurement(tmp_path), Measurement(tmp_path):
            assert os.environ["PYTHONPATH"].split(os.pathsep)[0].endswith("children/site")
            assert os.environ["GRAPHBREAK_CHILDREN"]
        assert dict(os.environ) == was


@pytest.mark.once
@pytest.mark.parametrize("what", ["open", "close"])
def test_all_is_put_back_if_an_observer_is_interrupted(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the time limit of a test, which raises wherever the program is."""
    closed = []

    class Layer:
        """An observer and its window."""

        def __init__(self, layer: str, fails: str = "") -> None:
            self.layer, self.fails = layer, fails

        def join(self, record: Record, others: object) -> Record:
            return record

        def open(self, places: object) -> Layer:
            if self.fails == "open":
                raise KeyboardInterrupt
            return self

        def close(self) -> None:
            closed.append(self.layer)
            if self.fails == "close":
                raise KeyboardInterrupt

    found = (Layer("first"), Layer("second", what))
    monkeypatch.setattr("pytest_graphbreak.measuring.measure.observers", lambda: found)
    was = dict(os.environ)
    with pytest.raises(KeyboardInterrupt):
        Measurement(tmp_path).close()
    assert closed == (["first"] if what == "open" else ["second", "first"])
    assert dict(os.environ) == was


def test_a_forked_test_is_counted_once(suite: Suite) -> None:
    pytest.importorskip("pytest_forked")
    suite.write(HEAD + "def test_it(): work(); start('fork', 4)")
    with Measurement(suite.path) as seen:
        (test,) = suite.report("--forked")["tests"]
    assert processes(test) == {None: 2, "ForkProcess": 2}
    assert seen.close().graphs == {"dynamo": 4}
    assert left() == []


# Records, put together and taken apart.


def record(graphs: int, code: str = "print(x)", times: int = 1) -> Record:
    where = Frame("a.py", "f", 1, code)
    return Record(
        layers=("dynamo",),
        graphs={"dynamo": graphs},
        frames=Frames(attempted=graphs),
        breaks=(Break("dynamo", "why", where, count=times),),
        graph_list=tuple(Graph("dynamo", f"{n}/0", "entry") for n in range(graphs)),
    )


@pytest.mark.once
def test_processes_are_numbered_by_what_they_did() -> None:
    records = [record(3), record(1), record(2)]
    there = number_names(["p", "q", "p"], records)
    back = number_names(["p", "q", "p"], records[::-1])
    assert there == ["p 2", "q", "p"]
    assert back == there[::-1]


def test_together() -> None:
    own = Record(layers=("dynamo", "xla"), graphs={"xla": 1}, notes=("own",))
    idle = of_process(Record(errors=("blind",)), "helper")
    whole = merge([own, of_process(record(2), "p"), idle])
    assert whole.layers == ("dynamo", "xla")
    assert whole.graphs == {"dynamo": 2, "xla": 1}
    assert {graph.process for graph in whole.graph_list} == {"p"}
    assert whole.errors == ()
    assert whole.note == "own; in the process helper: blind"


@pytest.mark.once
@pytest.mark.nightly
def test_a_new_python_passes_over_test_infrastructure_too(tmp_path: Path) -> None:
    (tmp_path / "infra").mkdir()
    (tmp_path / "infra" / "run.py").write_text("def run(f, x): return f(x)\n")
    (tmp_path / "train.py").write_text(
        "import sys; sys.path.append('infra')\n"
        "import torch; from run import run\n"
        "run(torch.compile(lambda x: x.sin().tolist(), backend='eager'), torch.ones(3))\n"
    )
    for infra, files in (["infra"], {"train.py"}), ([], {"train.py", "infra/run.py"}):
        pass_over(tmp_path, infra)
        with Measurement(tmp_path) as seen:
            subprocess.run([sys.executable, "train.py"], cwd=tmp_path, check=True)
        (broke,) = seen.close().breaks
        assert {frame.file for frame in broke.stack} == files


@pytest.mark.once
def test_a_window_tells_children_anew_where_a_session_tells_them_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test took the variables away, and another window names other infrastructure."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with follow(tmp_path):
        session = os.environ["PYTHONPATH"]
        del os.environ["PYTHONPATH"], os.environ["GRAPHBREAK_CHILDREN"]
        pass_over(tmp_path, ["infra"])
        try:
            with Measurement(tmp_path), Measurement(tmp_path):
                assert os.environ["PYTHONPATH"].split(os.pathsep)[0].endswith("children/site")
                assert "infra" in os.environ["GRAPHBREAK_CHILDREN"]
        finally:
            pass_over(tmp_path, ())
        assert os.environ["PYTHONPATH"] == session
    assert "GRAPHBREAK_CHILDREN" not in os.environ
    assert "PYTHONPATH" not in os.environ
