"""How torch_xla is made to report its compilations, and that the user sees nothing of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

os.environ.setdefault("PJRT_DEVICE", "CPU")
pytest.importorskip("torch_xla")

from tests.forkserver import Server
from tests.layers.xla.tools import python, python_process, with_windows

LENT = """
    import ctypes

    def env(name):
        getenv = ctypes.CDLL(None).getenv
        getenv.restype = ctypes.c_char_p
        return getenv(name.encode())

    def lent():
        names = ("PT_XLA_DEBUG_FILE", "PT_XLA_DEBUG_LEVEL", "PT_XLA_DEBUG_MAX_FRAME")
        return [env(name) is not None for name in names]
"""

pytestmark = pytest.mark.usefixtures("xla_forks")


def run(source: str, **env: str) -> list[str]:
    return python(with_windows(LENT + source), **env).splitlines()


def test_the_environment_is_lent_until_something_compiled() -> None:
    assert run("""
    before = dict(os.environ)
    window = open_window()
    print(lent(), dict(os.environ) == before)
    graph(2)
    window.peek()
    print(lent())
    print(causes(window), dict(os.environ) == before)
    window = open_window()
    print(lent())
    graph(3)
    print(causes(window))
    """) == [
        "[True, True, True] True",
        "[False, False, False]",
        "['access'] True",
        "[False, False, False]",
        "['access']",
    ]


def test_it_is_given_back_when_nothing_compiled() -> None:
    assert run("""
    open_window().close()
    print(lent())
    window = open_window()
    graph(2)
    print(causes(window), lent())
    """) == ["[False, False, False]", "['access'] [False, False, False]"]


def test_torch_xla_imported_inside_is_reported_too(
    server_of_forks: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", server_of_forks.python)
    out = python("""
        import sys
        from pathlib import Path
        assert "torch_xla" not in sys.modules
        from pytest_graphbreak.layers.xla.observer import XlaObserver
        from pytest_graphbreak.model.places import Places
        window = XlaObserver().open(Places(Path.cwd()))
        import torch, torch_xla
        (torch.ones(2).to("xla") + 1).cpu()
        torch.compile(lambda x: x * 2 + 1, backend="openxla")(torch.ones(2).to("xla"))
        seen = window.close()
        print([(item.cause, item.sources) for item in seen.graph_list], seen.errors)
        import torch_xla.core.dynamo_bridge as copy
        print(copy.extract_compiled_graph.__code__.co_filename.endswith("dynamo_bridge.py"))
    """)
    assert out.splitlines() == ["[('access', ()), ('fx', ('0/0',))] ()", "True"]


def test_the_users_own_file_is_read_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "debug.txt"
    file.write_text("what was there before\n")
    assert run(
        """
    window = open_window()
    graph(2)
    print(causes(window))
    """,
        PT_XLA_DEBUG_FILE=str(file),
        PT_XLA_DEBUG_LEVEL="2",
    ) == ["['access']"]
    text = file.read_text()
    assert text.startswith("what was there before\n")
    assert text.count("Compilation Cause") == 1
    assert text.count("Execution Cause") == 1


def test_the_users_own_file_may_be_emptied_meanwhile(tmp_path: Path) -> None:
    file = tmp_path / "debug.txt"
    file.write_text("x" * 100_000)
    assert run(
        f"""
    window = open_window()
    graph(2)
    open({str(file)!r}, "w").close()
    graph(3)
    print(len(window.close().graph_list))
    """,
        PT_XLA_DEBUG_FILE=str(file),
        PT_XLA_DEBUG_LEVEL="1",
    ) == ["2"]


def test_reports_that_the_user_wants_on_stderr_stay_there() -> None:
    done = python_process(
        with_windows("""
    window = open_window()
    graph(2)
    seen = window.close()
    print(seen.graphs["xla"], causes(window), seen.graph_list[0].reason)
    """),
        PT_XLA_DEBUG_LEVEL="1",
    )
    assert "Compilation Analysis" in done.stderr
    assert done.stdout == (
        "1 ['other'] "
        "PT_XLA_DEBUG_LEVEL sends torch_xla's reports to stderr: set PT_XLA_DEBUG_FILE too\n"
    )


def test_a_file_without_a_level_gets_nothing_that_the_user_did_not_ask_for(tmp_path: Path) -> None:
    file = tmp_path / "debug.txt"
    assert run(
        """
    window = open_window()
    graph(2)
    print(window.close().graph_list[0].reason)
    """,
        PT_XLA_DEBUG_FILE=str(file),
    ) == ["PT_XLA_DEBUG_FILE is set and PT_XLA_DEBUG_LEVEL is not: set it to 1"]
    assert not file.exists()


def test_what_torch_xla_says_of_a_refused_execution_reaches_the_user() -> None:
    source = """
    def f(x):
        return x * 2 if x.sum() > 0 else x

    WINDOW
    try:
        torch_xla.compile(f, full_graph=True)(torch.ones(3).to("xla"))
    except RuntimeError as error:
        print("raised")
    CLOSE
    """
    plain = python_process(with_windows(source.replace("WINDOW", "").replace("CLOSE", "")))
    source = source.replace("WINDOW", "window = open_window()").replace("CLOSE", "window.close()")
    ours = python_process(with_windows(source))
    assert plain.stdout == ours.stdout == "raised\n"
    wanted = "Unexpected Execution Analysis: Compilation Cause"
    assert plain.stderr.count(wanted) == ours.stderr.count(wanted) == 1
    assert "Number of Graph Inputs" in ours.stderr


def test_a_forked_child_has_a_file_of_its_own() -> None:
    assert run("""
    def child():
        window = open_window()
        graph(3)
        graph(4)
        print(causes(window), flush=True)

    def fork():
        pid = os.fork()
        if pid == 0:
            child()
            os._exit(0)
        os.waitpid(pid, 0)

    outer = open_window()
    fork()
    print(outer.peek().graphs)
    _recorder.debug.read()
    print(outer.close().graph_list)
    """) == ["['access', 'access']", "{}", "()"]


def test_a_child_process_started_meanwhile_reports_to_nobody() -> None:
    assert run("""
    import subprocess, sys
    window = open_window()
    child = "import torch, torch_xla; print((torch.ones(2).to('xla') + 1).cpu().tolist())"
    done = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True)
    print(done.stdout.strip(), "Analysis" in done.stderr)
    graph(3)
    print(causes(window))
    """) == ["[2.0, 2.0] False", "['access']"]
