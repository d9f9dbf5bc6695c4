"""Counting and isolation on the xla layer, with real torch_xla on the PJRT CPU client."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

os.environ.setdefault("PJRT_DEVICE", "CPU")
torch_xla = pytest.importorskip("torch_xla")

import torch  # noqa: E402
import torch_xla.debug.metrics as met  # noqa: E402

from pytest_graphbreak.layers.xla import isolation, private  # noqa: E402
from pytest_graphbreak.layers.xla.meter import CLEARED  # noqa: E402
from pytest_graphbreak.layers.xla.observer import LOADED, XlaObserver, _recorder  # noqa: E402
from pytest_graphbreak.layers.xla.sensors import COPY, SENSORS, Sensor  # noqa: E402
from tests.layers.xla.tools import (  # noqa: E402
    PLACES,
    c_env,
    close,
    ones,
    open_window,
    python,
    runs,
    with_windows,
)

pytestmark = pytest.mark.usefixtures("_forks_run_cases")


@pytest.fixture(autouse=True, scope="module")
def _reported() -> None:
    """The first compilation of this process is seen, so torch_xla reports the others.

    Whichever test comes first here, in whichever worker.
    """
    window = open_window("first")
    lazy_graph(2)
    close(window)


@pytest.fixture(autouse=True)
def _settled(request: pytest.FixtureRequest) -> Iterator[None]:
    """No test of this file sees work or a cache key of another."""
    torch_xla.sync()
    yield
    torch_xla.sync()
    assert c_env(isolation.VARIABLE) == os.environ.get(isolation.VARIABLE)


def lazy_graph(size: int = 3) -> None:
    y = ones(size) + 1
    torch_xla.sync()
    del y


WAYS = [("forked",), ("order", "1")]


# --- the cases, in every order ----------------------------------------------------------


def counts(results: dict[str, Any]) -> dict[str, dict[str, int]]:
    """What is counted of each case; torch_xla has a metric of its own for runs under SPMD."""
    return {
        name: {
            "graphs": found["graphs"],
            "executions": found["executions"] + found.get("executions_replicated", 0),
            "reads": found["reads"],
        }
        for name, found in results.items()
    }


@pytest.mark.nightly
def test_cases_are_as_written_when_each_runs_alone_without_us() -> None:
    from cases.xla import CASES

    assert len(CASES) >= 45
    graphs = {name: found["graphs"] for name, found in runs("raw").items()}
    assert graphs == {name: case.graphs for name, case in CASES.items()}


@pytest.mark.nightly
@pytest.mark.parametrize("how", WAYS)
def test_counts_are_those_of_a_fresh_process(how: tuple[str, ...]) -> None:
    seen = runs(*how)
    assert counts(seen) == counts(runs("raw"))
    assert {name: result["errors"] for name, result in seen.items() if result["errors"]} == {}


def test_most_runs_and_reads_have_the_line_that_asked() -> None:
    listed = [run for found in runs("order", "1").values() for run in found["runs"]]
    lost = sum(run["count"] for run in listed if run["cause"] == "other")
    # Reads by .cpu(), .tolist() and print have none: a third of all in these cases.
    assert lost * 2 < sum(run["count"] for run in listed)


@pytest.mark.nightly
def test_what_dynamo_does_is_the_same_with_and_without_us() -> None:
    bare, seen = runs("raw"), runs("forked")
    assert {name: found["dynamo"] for name, found in seen.items()} == {
        name: found["dynamo"] for name, found in bare.items()
    }


def test_work_left_pending_is_said_of_the_test_that_left_it() -> None:
    notes = {name: result["notes"] for name, result in runs("order", "1").items()}
    left = notes.pop("leaves_work_pending")
    assert left == [
        "2 tensors are left pending on the xla device: the graph that computes them is not counted"
    ]
    assert notes["after_work_left_pending"] == []


# --- where the layer is and where it is not ---------------------------------------------


def test_without_torch_xla_nothing_is_observed_and_nothing_imported() -> None:
    out = python("""
        import sys
        from pathlib import Path
        from pytest_graphbreak.layers.xla.observer import XlaObserver
        from pytest_graphbreak.model.places import Places
        observer = XlaObserver()
        observer.isolate("a")
        window = observer.open(Places(Path.cwd()))
        print(window.peek(), window.close(), window.close())
        print([name for name in ("torch", "torch_xla", "yaml") if name in sys.modules])
    """)
    assert out == "None None None\n[]\n"


@pytest.mark.usefixtures("forks")
def test_torch_xla_imported_inside_counts_from_zero_and_over_cleared_metrics() -> None:
    out = python(
        """
        import sys
        from pathlib import Path
        from pytest_graphbreak.layers.xla.observer import XlaObserver
        from pytest_graphbreak.model.places import Places
        before = list(sys.meta_path)
        observer = XlaObserver()
        observer.isolate("a")
        window = observer.open(Places(Path.cwd()))
        import torch
        import torch_xla
        import torch_xla.debug.metrics as met
        plain = met.clear_all
        (torch.ones(3).to("xla") + 1).cpu()
        met.clear_all()
        (torch.ones(4).to("xla") + 1).cpu()
        seen = window.close()
        print(seen.graphs["xla"], seen.errors)
        print(sys.meta_path == before, torch_xla._XLAC._clear_xla_metrics.__module__)
        print("exec_module" in vars(type(torch_xla.__spec__.loader)))
        """,
    )
    assert out == "2 ()\nTrue _XLAC\nFalse\n"


@pytest.mark.usefixtures("forks")
def test_an_import_that_could_not_be_followed_is_an_error_and_no_zero() -> None:
    out = python(
        """
        import importlib.machinery
        from pathlib import Path
        from pytest_graphbreak.layers.xla.observer import XlaObserver
        from pytest_graphbreak.model.places import Places
        window = XlaObserver().open(Places(Path.cwd()))
        del importlib.machinery.SourceFileLoader.exec_module
        import torch_xla
        print(window.close().errors)
        """,
    )
    assert "torch_xla was imported in a way that could not be followed" in out


def test_a_module_that_another_thread_imports_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is listed as soon as it begins, and gets the functions of the bridge as they are then."""
    begun = ModuleType(COPY)
    begun.__spec__ = ModuleSpec(COPY, None)
    begun.__spec__._initializing = True  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, COPY, begun)
    window = open_window("begun")
    begun.__spec__._initializing = False  # type: ignore[attr-defined]
    assert window.close().errors == ()
    assert open_window("whole").close().errors != ()


@pytest.mark.usefixtures("xla_forks")
def test_no_client_is_opened_and_no_cache_created() -> None:
    out = python(
        with_windows("""
        window = open_window("a")
        print(window.peek().graphs, window.close().graphs)
        print(open_window("b").close().errors)
        print(torch_xla._XLAC._xla_runtime_is_initialized())
        print(torch_xla._XLAC._xla_computation_cache_is_initialized())
        """)
    )
    assert out == "{} {}\n()\nFalse\nFalse\n"


# --- windows ----------------------------------------------------------------------------


def test_windows_nest_and_overlap() -> None:
    first = open_window("nest")
    lazy_graph(3)
    second = open_window()
    lazy_graph(4)
    peeked = first.peek()
    assert peeked.graphs == {"xla": 2}
    third = open_window()
    assert close(second).graphs == {"xla": 1}
    lazy_graph(5)
    assert close(first).graphs == {"xla": 3}
    lazy_graph(6)
    assert close(third).graphs == {"xla": 2}
    assert close(first).graphs == {"xla": 3}, "closed windows stay as they were"


def test_what_is_compiled_aside_is_not_the_windows() -> None:
    for key in ("aside", None):
        window = open_window(key)
        lazy_graph(41)
        with window.exclude():
            lazy_graph(42)
        lazy_graph(43)
        assert close(window).graphs == {"xla": 2}
        assert window.peek() == close(window)


def test_aside_of_work_that_cannot_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be computed is pending as well: nothing is flushed that may be the test's."""

    def fails() -> int:
        raise RuntimeError("the device is gone")

    window = open_window("aside")
    monkeypatch.setattr(private, "pending_count", fails)
    with window.exclude():
        lazy_graph(44)
    monkeypatch.undo()
    lazy_graph(45)
    assert close(window).graphs == {"xla": 1}


def test_a_device_that_cannot_be_asked_is_not_open(monkeypatch: pytest.MonkeyPatch) -> None:
    assert XlaObserver().defers()
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "_XLAC", None)
        assert not XlaObserver().defers()


def test_a_block_in_the_middle_of_pending_work_executes_nothing() -> None:
    outer = open_window("block")
    y = ones(3) + 1
    block = open_window()
    assert met.metric_data("ExecuteTime") == (executed := met.metric_data("ExecuteTime"))
    seen = close(block)
    assert (seen.graphs, seen.notes) == ({}, ())
    assert private.pending_count() == 1
    assert met.metric_data("ExecuteTime") == executed
    y.cpu()
    assert close(outer).graphs == {"xla": 1}


def test_isolation_makes_a_known_graph_unknown_and_only_for_its_window() -> None:
    seen = []
    for key in ("a", "b", "a"):  # a test that is run again starts from cold too
        window = open_window(key)
        lazy_graph()
        seen.append(close(window).graphs)
    assert seen == [{"xla": 1}] * 3
    lazy_graph()
    window = open_window()
    lazy_graph()
    assert close(window).graphs == {}, "without isolation the cache is the user's"


def test_what_an_earlier_test_left_is_computed_and_charged_to_nobody() -> None:
    first = open_window("leaves")
    y = ones(3) + 1
    assert "1 tensor is left pending" in close(first).notes[0]

    outer = open_window()
    second = open_window("next")
    assert private.pending_count() == 0
    assert close(second).graphs == {}
    assert close(outer).graphs == {}, "our own compilation is not the outer window's either"
    assert y.cpu().tolist() == [2, 2, 2]


def test_work_that_cannot_be_computed_is_an_error_where_a_count_hangs_on_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: Any) -> None:
        raise RuntimeError("the device is gone\nmore")

    y = ones(3) + 1
    monkeypatch.setattr(torch_xla._XLAC, "_xla_sync_live_tensors", fail)
    doubt = (
        "the device could not be settled before this test: what an earlier one left pending "
        "cannot be computed (RuntimeError: the device is gone)"
    )
    # Nothing is compiled, or only what is asked for: the count does not depend on what was left.
    seen = close(open_window("after"))
    assert (seen.errors, seen.notes[0]) == ((), doubt)
    window = open_window("reads")
    (ones(3) + 2).sum().item()
    seen = close(window)
    assert (seen.graphs, seen.errors, seen.notes[0]) == ({"xla": 1}, (), doubt)
    # A sync computes all of it.
    window = open_window("syncs")
    kept = ones(3) + 2
    torch_xla.sync()
    seen = close(window)
    assert (seen.graphs, seen.errors) == ({"xla": 1}, (doubt,))
    del y, kept


def test_what_is_left_pending_is_a_note_and_never_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: Any) -> None:
        raise RuntimeError("XLATensor without XLAData and IR")

    window = open_window("leaves")
    monkeypatch.setattr(torch_xla._XLAC, "_check_device_tensor_need_materialization", fail)
    seen = close(window)
    assert (seen.errors, seen.notes) == ((), ())


# --- what the user's code sees ----------------------------------------------------------


def test_random_numbers_are_the_same_with_and_without_isolation() -> None:
    def draw(isolated: bool) -> list[float]:
        torch_xla.manual_seed(7)
        pending = torch.randn(2, device="xla")
        if isolated:
            window = open_window("random")
        drawn = torch.randn(2, device="xla").tolist()
        if isolated:
            close(window)
        return [*pending.tolist(), *drawn, *torch.randn(2, device="xla").tolist()]

    assert draw(isolated=True) == draw(isolated=False)


def test_the_cache_key_is_in_the_c_environment_only_and_only_inside() -> None:
    before = dict(os.environ)
    window = open_window("keyed")
    assert str(c_env(isolation.VARIABLE)).startswith("graphbreak-")
    assert dict(os.environ) == before
    close(window)
    assert c_env(isolation.VARIABLE) is None
    assert dict(os.environ) == before


def test_the_users_own_mesh_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(isolation.VARIABLE, "2,2")
    window = open_window("mesh")
    assert c_env(isolation.VARIABLE) != "2,2"
    close(window)
    assert c_env(isolation.VARIABLE) == "2,2"


def test_no_cache_key_under_auto_sharding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_AUTO_SPMD", "1")
    window = open_window("auto")
    assert c_env(isolation.VARIABLE) is None
    close(window)


def test_an_inner_test_gives_the_cache_key_back_to_the_outer_one() -> None:
    outer = open_window("outer")
    mine = c_env(isolation.VARIABLE)
    inner = open_window("inner")
    assert c_env(isolation.VARIABLE) != mine
    close(inner)
    assert c_env(isolation.VARIABLE) == mine
    inner = open_window("inner")
    close(outer)
    assert c_env(isolation.VARIABLE) != mine, "the inner test is still running"
    close(inner)
    assert c_env(isolation.VARIABLE) is None


def test_a_test_that_was_isolated_and_never_measured_leaves_no_cache_key() -> None:
    observer = XlaObserver()
    observer.isolate("skipped")
    observer.isolate("measured")
    close(observer.open(PLACES))
    assert c_env(isolation.VARIABLE) is None


def test_metrics_are_as_they_would_be_and_our_function_is_gone() -> None:
    plain = torch_xla._XLAC._clear_xla_metrics
    window = open_window("clear")
    lazy_graph()
    met.clear_all()
    assert met.metric_data("CompileTime") is None, "the user's clearing cleared"
    lazy_graph(4)
    assert close(window).graphs == {"xla": 2}
    assert torch_xla._XLAC._clear_xla_metrics is plain


def test_a_function_that_the_user_put_there_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = torch_xla._XLAC._clear_xla_metrics
    window = open_window()
    monkeypatch.setattr(torch_xla._XLAC, "_clear_xla_metrics", users := lambda: None)
    close(window)
    assert torch_xla._XLAC._clear_xla_metrics is users
    monkeypatch.undo()  # brings the wrapper of the closed window back, as monkeypatch does
    again = open_window("a stray")
    lazy_graph()
    met.clear_all()
    lazy_graph(4)
    assert close(again).graphs == {"xla": 2}, "what the stray counts is not counted again"
    torch_xla._XLAC._clear_xla_metrics = plain


@pytest.mark.parametrize("more", [0, 5], ids=["fewer after", "more after"])
def test_metrics_cleared_behind_our_back_are_an_error(more: int) -> None:
    earlier = open_window(f"something was compiled before {more}")
    lazy_graph()
    close(earlier)
    plain = torch_xla._XLAC._clear_xla_metrics
    window = open_window("behind")
    lazy_graph()
    plain()
    for size in range(more):
        lazy_graph(10 + size)
    assert close(window).errors == (CLEARED,)


def use_everything() -> None:
    """Lazy and compiled graphs, so that every name is called."""
    torch._dynamo.reset()
    lazy_graph()
    torch.compile(lambda x: torch.sin(x).sum(), backend="openxla")(ones(3))


@pytest.mark.parametrize("name", private.NEEDED_FOR)
def test_each_function_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    keep = ones(3) + 1
    monkeypatch.setattr(_recorder.debug, "_taken", False)
    monkeypatch.delattr(torch_xla._XLAC, name)
    observer = XlaObserver()
    observer.isolate("gone")
    window = observer.open(PLACES)
    if name == "_check_tensor_need_materialization":  # asked for when a graph is lowered
        with pytest.raises(AttributeError):
            use_everything()  # torch_xla's bridge needs it too
    seen = close(window)
    monkeypatch.undo()
    words = f"has no _XLAC.{name}", f"_XLAC has no {name}"
    assert any(word in error for error in seen.errors for word in words), seen.errors
    del keep


@pytest.mark.parametrize("sensor", SENSORS, ids=lambda sensor: f"{sensor.module}.{sensor.chain}")
def test_each_watched_name_that_is_gone_is_named(
    monkeypatch: pytest.MonkeyPatch, sensor: Sensor
) -> None:
    monkeypatch.delattr(sys.modules[sensor.module], sensor.chain.split(".")[0])
    seen = close(open_window())
    monkeypatch.undo()
    assert seen.errors == (
        f"the xla layer cannot be observed: "
        f"{sensor.module} has no {sensor.chain}: {sensor.purpose}",
    )


def test_a_fault_of_ours_while_explaining_is_an_error_and_the_count_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*args: Any) -> None:
        raise ValueError("no such place")

    window = open_window("fault")
    lazy_graph()
    monkeypatch.setattr(type(PLACES), "frame", fail)
    seen = close(window)
    assert (seen.graphs, seen.graph_list) == ({"xla": 1}, ())
    assert seen.errors == (
        "the xla layer cannot be observed: ValueError in explain: no such place",
        "the xla layer cannot be observed: ValueError in lines: no such place",
    )


# --- more than one device ---------------------------------------------------------------


@pytest.mark.usefixtures("xla_forks")
def test_resharding_graphs_are_counted_and_have_a_cause_of_their_own() -> None:
    out = python(
        with_windows("""
        import numpy, torch_xla.runtime as xr
        import torch_xla.distributed.spmd as xs
        xr.use_spmd()
        mesh = xs.Mesh(numpy.arange(4), (4,), ("a",))
        for key in "ab":
            window = open_window(key)
            x = torch.ones(8, 8).to("xla")
            xs.mark_sharding(x, mesh, ("a", None))
            y = x + 1
            torch_xla.sync()
            y.cpu()
            y.cpu()
            seen = window.close()
            print(seen.graphs["xla"], sorted(causes(window)), seen.errors)
        """),
        CPU_NUM_DEVICES="4",
    )
    assert out == "3 ['reshard', 'reshard', 'sync'] ()\n" * 2


@pytest.mark.parametrize("cleared", [0, 2], ids=["kept", "cleared by the bridge"])
def test_what_the_persistent_cache_had_is_not_left_out_in_silence(
    monkeypatch: pytest.MonkeyPatch, cleared: int
) -> None:
    """PJRT's CPU client cannot load programs: here the counter is said to grow."""
    hits, plain = {"PersistentCacheHit": 5}, torch_xla._XLAC._xla_counter_value
    monkeypatch.setattr(
        torch_xla._XLAC, "_xla_counter_value", lambda name: hits.get(name) or plain(name)
    )
    window = open_window(f"loaded {cleared}")
    lazy_graph()
    assert window.peek().errors == (), "what was loaded before is not of this window"
    with window.exclude():
        hits["PersistentCacheHit"] = 6
    hits["PersistentCacheHit"] = 2 if cleared else 8
    assert close(window).errors == (LOADED.format("2 graphs"),)


@pytest.mark.usefixtures("xla_forks")
def test_counts_with_a_persistent_cache(tmp_path: Path) -> None:
    source = with_windows("""
        import torch_xla.runtime as xr
        open_window("early").close()
        xr.initialize_cache(CACHE)
        for key in "ab":
            window = open_window(key)
            graph(3)
            print(window.close().graphs["xla"])
    """).replace("CACHE", repr(str(tmp_path)))
    assert python(source) == "1\n1\n"
    assert python(source) == "1\n1\n"
