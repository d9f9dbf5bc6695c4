"""What the jax layer sees, and that JAX is as without it. Counts of many uses: ``test_cases``."""

from __future__ import annotations

import contextlib
import logging
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jax")

import jax
import numpy as np
from jax import numpy as jnp
from jax.experimental import io_callback

from pytest_graphbreak.advice import shorts
from pytest_graphbreak.layers.jax import private
from pytest_graphbreak.layers.jax.device import VARIABLE
from pytest_graphbreak.layers.jax.observer import JaxObserver
from pytest_graphbreak.layers.jax.sensors import SENSORS
from pytest_graphbreak.model.record import Record
from tests.conftest import Suite
from tests.layers.jax import tools
from tests.layers.jax.tools import PLACES, THREE, closed

pytestmark = pytest.mark.jax

with contextlib.suppress(RuntimeError):  # the devices are there already
    jax.config.update("jax_num_cpu_devices", 4)

FOUR = np.ones(4, np.float32)
watched = partial(tools.watched, cold=False)


def wave(x: Any) -> Any:
    return jnp.sin(x) * 2


@pytest.fixture(autouse=True)
def _cold(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(VARIABLE, raising=False)
    jax.clear_caches()
    yield
    assert not SENSORS.attached


def reported(found: Record) -> list[tuple[str, str, str]]:
    assert found.errors == ()
    assert found.is_explained(found.layers[0])
    return [(graph.name, graph.cause, graph.where.code) for graph in found.graph_list]


def test_the_graphs_of_a_window() -> None:
    def run() -> None:
        f = jax.jit(wave)
        f(THREE)
        f(THREE)
        f(FOUR)
        f.lower(np.ones(5)).compile()
        jnp.cos(THREE)

    found = watched(run)
    assert reported(found) == [
        ("wave/0", "jit", "f(THREE)"),
        ("wave/1", "retrace", "f(FOUR)"),
        ("wave/2", "aot", "f.lower(np.ones(5)).compile()"),
        ("cos/0", "eager", "jnp.cos(THREE)"),
    ]
    (again,) = found.recompile_list
    assert (found.recompiles, again.graph) == ({"jax": 1}, "wave/1")
    place = f"wave of tests/layers/jax/test_observer.py:{wave.__code__.co_firstlineno}"
    assert again.reason == f"at x: float32[3] before, float32[4] now ({place})"
    first = found.graph_list[0]
    assert first.reason == place
    assert (first.inputs, first.outputs, first.cached) == (1, 1, "compiled")
    assert first.ops == 3
    assert first.where.function.endswith("test_the_graphs_of_a_window.<locals>.run")
    assert first.stack[-1] == first.where


def scanned_twice() -> None:
    for size in (3, 4):
        jax.lax.scan(lambda c, y: (c + y, c), np.float32(0), np.ones(size, np.float32))


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (lambda: jnp.cos(THREE) + jnp.tan(THREE) - 1, "cos, tan, add, subtract$"),
        (scanned_twice, r".*; scan again, at \S+: float32\[3\] before, float32\[4\] now$"),
        (
            lambda: [jax.lax.broadcast(np.float32(0), (size,)) for size in (3, 4)],
            r".*broadcast_in_dim again, shape: \(3,\) before, \(4,\) now$",
        ),
    ],
    ids=["of one line", "again, of another shape", "again, with another parameter"],
)
def test_operations_outside_of_functions_are_reported_together(
    run: Callable[[], object], reason: str
) -> None:
    (words,) = {graph.reason for graph in watched(run).graph_list if graph.cause == "eager"}
    assert re.match(f"outside of jax.jit: {reason}", words), words


def host_sine(x: Any) -> Any:
    return np.sin(x)


def called_back(x: Any) -> Any:
    kind = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.pure_callback(host_sine, kind, x * 2, vmap_method="sequential")


@pytest.mark.parametrize(
    ("step", "kind", "code"),
    [
        (lambda x: called_back(x) + 1, "jax.pure_callback", "return jax.pure_callback(host_sine,"),
        (lambda x: called_in_a_loop(x), "jax.experimental.io_callback", "io_callback(print, None"),
        (lambda x: (jax.debug.callback(print), x)[1], "jax.debug.callback", "(lambda x: (jax."),
        (lambda x: (jax.debug.print("{}", x), x)[1], "jax.debug.print", "(lambda x: (jax."),
    ],
)
def test_a_call_of_the_host_is_a_break(step: Any, kind: str, code: str) -> None:
    found = watched(lambda: jax.block_until_ready(jax.jit(step)(THREE)))
    (item,) = found.breaks
    assert (item.layer, item.count) == ("jax", 1)
    assert item.reason == f"{kind}: the compiled program calls Python on the host each time it runs"
    assert item.where.code.startswith(code)
    assert item.stack[-1] == item.where


def called_in_a_loop(x: Any) -> Any:
    def body(carry: Any, y: Any) -> Any:
        io_callback(print, None, y)
        return carry + y, carry

    return jax.lax.scan(body, np.float32(0), x)


def test_what_calls_the_host_by_itself_is_no_break() -> None:
    assert watched(lambda: called_back(THREE)).breaks == ()


def test_what_jax_tries_and_catches_stops_nothing() -> None:
    found = watched(lambda: jax.jit(lambda n: jax.lax.fori_loop(0, n, lambda i, x: x, 1.0))(3))
    assert found.eager == ()


@pytest.mark.parametrize("filtering", ["auto", "off"])
def test_what_stops_tracing_has_its_line(filtering: str) -> None:
    def branch(x: Any) -> Any:
        if x.sum() > 0:
            return x
        return -x

    def run() -> None:
        before = jax.config.jax_traceback_filtering
        jax.config.update("jax_traceback_filtering", filtering)
        try:
            for call in (jax.jit(branch), jax.jit(lambda x: jax.jit(branch)(x))):
                with pytest.raises(jax.errors.TracerBoolConversionError):
                    call(THREE)
        finally:
            jax.config.update("jax_traceback_filtering", before)

    (item,) = watched(run).eager
    assert item.count == 2
    assert item.where.code == "if x.sum() > 0:"
    assert item.reason.startswith("TracerBoolConversionError: the value of a traced array is asked")


def test_what_xla_refuses_is_reported() -> None:
    # A target that nobody registered.
    call = jax.ffi.ffi_call("nobody_registered_this", jax.ShapeDtypeStruct((3,), np.float32))

    def run() -> None:
        with pytest.raises(Exception, match="nobody_registered_this"):
            jax.block_until_ready(jax.jit(lambda x: call(x))(THREE))

    found = watched(run)
    assert found.errors == ()
    assert found.graphs.get("jax", 0) + len(found.eager) == 1


class Compares:
    """A static argument whose comparison computes."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Compares)
        return bool(jnp.equal(np.full(5, self.size), np.full(5, other.size)).all())


def test_what_a_comparison_of_ours_computes_is_no_graph() -> None:
    def run(f: Any) -> None:
        f(THREE, Compares(1))
        f(THREE, Compares(2))

    f = jax.jit(lambda x, n: x * n.size, static_argnums=1)
    found = watched(lambda: run(f))
    assert found.errors == ()
    assert [graph.cause for graph in found.graph_list if graph.cause != "eager"] == [
        "jit",
        "retrace",
    ]


def test_windows_nest_and_tests_are_kept_apart() -> None:
    observer, f = JaxObserver(), jax.jit(wave)
    outer = observer.open(PLACES)
    f(THREE)
    assert reported(watched(lambda: f(FOUR)))[0][1] == "retrace"
    with outer.exclude():
        f(np.ones(7))
    seen = closed(outer)
    assert (seen.graphs, seen.recompiles) == ({"jax": 2}, {"jax": 1})
    observer.isolate("the next test")
    window = observer.open(PLACES)
    f(FOUR)
    (graph,) = closed(window).graph_list
    assert graph.cause == "jit"


def test_a_fixture_of_the_session_is_compiled_again_by_the_test() -> None:
    observer, f = JaxObserver(), jax.jit(wave)
    observer.isolate("a test")
    window = observer.open(PLACES)
    with window.exclude():
        f(THREE)
    f(THREE)
    assert closed(window).graphs == {"jax": 1}


def test_an_executable_that_is_held_runs_on() -> None:
    held = jax.jit(wave).lower(THREE).compile()
    JaxObserver().isolate("a test")
    assert watched(lambda: held(THREE)).graphs == {}


def test_traces_that_chex_counts_begin_anew_with_the_caches() -> None:
    chex = pytest.importorskip("chex")
    f = jax.jit(chex.assert_max_traces(wave, n=1))
    for _ in range(2):
        JaxObserver().isolate("a test")
        assert watched(lambda: f(THREE)).graphs == {"jax": 1}
    with pytest.raises(AssertionError, match="traced > 1 times"):
        f(FOUR)
    chex.clear_trace_counter()


def test_nothing_is_cleared_before_a_backend_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    jax.devices()  # opens one, whichever test came first
    calls: list[str] = []
    monkeypatch.setattr("jax._src.api.clear_caches", lambda: calls.append("cleared"))
    JaxObserver().isolate("a test")
    monkeypatch.setattr("jax._src.xla_bridge.backends_are_initialized", lambda: False)
    JaxObserver().isolate("a test")
    assert calls == ["cleared"]


@pytest.fixture
def persistent_cache(tmp_path: Path) -> Iterator[None]:
    from jax.experimental.compilation_cache import compilation_cache

    values = {
        "jax_compilation_cache_dir": str(tmp_path),
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in values}
    for name, value in values.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


@pytest.mark.usefixtures("persistent_cache")
def test_what_is_loaded_is_not_compiled() -> None:
    def run() -> None:
        jax.jit(wave)(THREE)
        jax.clear_caches()
        jax.jit(wave)(THREE)

    found = watched(run)
    assert (found.graphs, found.errors) == ({"jax": 1}, ())
    assert found.notes == (
        "jax: compiled 1, loaded 1 from JAX's persistent cache: what is loaded is not counted, "
        "so the count depends on what is in that cache",
    )


def test_a_jit_that_is_disabled_is_noted() -> None:
    with jax.disable_jit():
        found = watched(lambda: jax.jit(wave)(THREE))
    assert found.notes == (
        "jax: JAX_DISABLE_JIT is set (or jax.disable_jit), so jax.jit compiles nothing",
    )
    assert not watched(lambda: None).notes


# A gate that cannot see.


@pytest.mark.parametrize("name", private.NAMES, ids=lambda name: name.path)
def test_a_name_that_is_missing_is_an_error(
    monkeypatch: pytest.MonkeyPatch, name: private.JaxName
) -> None:
    monkeypatch.setattr(private, "version", lambda: "99.0")
    gone = name._replace(chain=f"{name.chain}_gone")
    monkeypatch.setattr(private, "NAMES", tuple(gone if n is name else n for n in private.NAMES))
    found = watched(lambda: None)
    error = f"the jax layer cannot be observed: jax 99.0 has no {name.path}_gone: {name.purpose}"
    assert found.errors == (error,)


def test_other_parameters_are_an_error() -> None:
    name = private.COMPILE._replace(parameters=("computation",))
    with pytest.raises(private.MissingName, match="does not begin with the parameters computation"):
        private.find(name)


def test_the_frames_that_are_read_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(private.check_frames()) == []
    monkeypatch.setattr(private, "MISS", private.IMPL)
    assert "no cache_miss with fun, jit_info" in next(iter(private.check_frames()))


def test_a_program_that_passes_the_hook_by_is_an_error() -> None:
    from jax._src import compiler

    past = compiler.compile_or_get_cached

    def run() -> None:
        ours = compiler.compile_or_get_cached
        compiler.compile_or_get_cached = past
        try:
            jax.jit(wave)(THREE)
        finally:
            compiler.compile_or_get_cached = ours

    found = watched(run)
    assert found.graphs == {}
    assert re.search(r"JAX counted a program \(.{0,5}wave\)+ that it did not", found.errors[0])


# JAX is the user's.


def test_jax_is_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    from jax._src import compiler, dispatch, monitoring, traceback_util

    def state() -> list[object]:
        logger = logging.getLogger("jax")
        return [
            compiler.compile_or_get_cached,
            compiler.backend_compile_and_load,
            dispatch.record_event_duration_secs,
            traceback_util._is_under_reraiser,
            dict(jax.config.values),
            list(monitoring._event_duration_secs_listeners),
            list(monitoring._event_listeners),
            list(monitoring._scalar_listeners),
            logger.level,
            list(logger.handlers),
            logger.propagate,
        ]

    before = state()
    window = JaxObserver().open(PLACES)
    assert state()[4:] == before[4:]  # while it is watched, too
    jax.jit(wave)(THREE)
    window.close()
    assert state() == before
    assert caplog.records == []


def test_the_lines_that_jax_notes_are_not_ours() -> None:
    texts: list[str] = []

    def run() -> None:
        lowered = jax.jit(lambda x: wave(x) + 1).lower(THREE)
        texts.append(str(lowered.as_text(debug_info=True)))

    watched(run)
    assert __file__ in texts[0]
    assert "pytest_graphbreak" not in texts[0]


# In a suite.

TESTS = """
import os, subprocess, sys
import jax, jax.numpy as jnp, numpy as np, pytest

X = np.ones(3, np.float32)
f = jax.jit(lambda x: x * 2)

def test_a():
    f(X)

def test_b():
    f(X)
    f(np.ones(4, np.float32))

@pytest.mark.max_graphs(jax=1)
def test_marked():
    f(X)
    f(np.ones(5, np.float32))

def test_block(graph_budget):
    f(X)
    with graph_budget(max_graphs=0) as seen:
        f(X)
    assert seen.graphs == 0

def test_spawned():
    code = "import jax; jax.jit(lambda x: x + 1)(1.0)"
    subprocess.run([sys.executable, "-c", code], check=True)
"""


def test_a_suite(suite: Suite) -> None:
    had_torch = "torch" in sys.modules
    suite.write(TESTS)
    report = suite.report("--graph-budget-record")
    assert report["environment"]["jax"] == jax.__version__
    assert "graphs: {jax: 1}" in suite.baseline()
    tests = suite.reported()
    assert {name: test["verdict"] for name, test in tests.items()} == {
        **dict.fromkeys(("test_a", "test_b", "test_block", "test_spawned"), "new"),
        "test_marked": "over",
    }
    assert {name: test["graphs"].get("jax") for name, test in tests.items()} == {
        "test_a": 1,
        "test_b": 2,
        "test_marked": 2,
        "test_block": 1,
        "test_spawned": 1,
    }
    assert "2 jax graphs, the marker allows 1 (+1)" in tests["test_marked"]["message"]
    assert tests["test_spawned"]["graph_list"][0]["process"] == "python -c"
    assert ("torch" in sys.modules) == had_torch


needs_forked = pytest.mark.skipif(
    not find_spec("pytest_forked") or pytest.version_tuple >= (9, 2),
    reason="pytest-forked is not installed, or does not work with this pytest",
)


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("--forked", marks=needs_forked),
        pytest.param("-n2", marks=pytest.mark.nightly),  # of xdist tests/processes tell on a push
    ],
)
def test_processes_change_no_count(suite: Suite, how: str) -> None:
    """In a process of its own: a fork of one that runs JAX's threads may lock up."""
    suite.write(TESTS)
    options = ("--graph-budget-report=graphs.json", how, "-k", "not marked")
    suite.pytester.runpytest_subprocess("-p", "no:cacheprovider", *options).assert_outcomes(
        passed=4
    )
    counts = {name: test["graphs"].get("jax") for name, test in suite.reported().items()}
    assert counts == {"test_a": 1, "test_b": 2, "test_block": 1, "test_spawned": 1}


def test_caches_that_cannot_be_cleared_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a test, and after a fixture of wider scope."""

    def refuse(observer: JaxObserver) -> None:
        raise RuntimeError("not now")

    monkeypatch.setattr(JaxObserver, "forget", refuse)
    observer = JaxObserver()
    observer.isolate("tests/test_a.py")
    window = observer.open(PLACES)
    with window.exclude():
        jax.jit(wave)(THREE)
    assert closed(window).errors == (
        "jax: what a fixture compiled could not be forgotten: RuntimeError: not now",
        "jax: its caches could not be cleared before tests/test_a.py, so its counts depend on "
        "what ran before it: RuntimeError: not now",
    )


def test_hooks_that_cannot_be_put_in_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise RuntimeError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(SENSORS, "acquire", refuse)
        patch.setattr(SENSORS, "release", lambda: None)
        window = JaxObserver().open(PLACES)
        seen = closed(window)
        assert window.peek() is seen
    assert "the jax layer cannot be observed: RuntimeError: no room" in seen.errors
    assert any("was imported in a way that could not be watched" in one for one in seen.errors)


def test_what_cannot_be_read_is_counted_and_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> Record:
        raise ValueError("no such frame")

    monkeypatch.setattr("pytest_graphbreak.layers.jax.observer.explain", refuse)
    seen = watched(lambda: jax.jit(wave)(THREE))
    assert (seen.graphs, seen.errors) == (
        {"jax": 1},
        ("jax: what was seen could not be read: ValueError: no such frame",),
    )


# reasons


def reasons(*calls: Callable[[], object]) -> list[str]:
    """Why each program but the first was compiled, without the function that it is of."""
    record = watched(lambda: [call() for call in calls])
    return [graph.reason.partition(" (")[0] for graph in record.graph_list[1:]]


def test_what_is_compiled_ahead_is_said_to_be() -> None:
    step = jax.jit(wave)
    record = watched(lambda: step.lower(THREE).compile())
    (graph,) = record.graph_list
    assert (graph.cause, graph.reason) == ("aot", "wave, compiled ahead of its calls")
    assert shorts(graph) == ()


@partial(jax.tree_util.register_dataclass, data_fields=["weight"], meta_fields=["by"])
@dataclass
class Scale:
    weight: Any
    by: Any

    def __call__(self, x: Any) -> Any:
        return self.weight * x


def test_a_static_part_of_an_argument_is_said_by_its_values() -> None:
    step = jax.jit(lambda scale, x: scale(x))
    parts = (1, 2, (1, ["fast"]), (1, ["slow"]), {"by": Scale}, {"by": wave}, object(), object())
    calls = [partial(step, Scale(THREE, by), THREE) for by in parts]
    inside = "something static in the arguments: "
    other = "arguments put together differently: the"
    assert reasons(*calls) == [
        f"{inside}1 before, 2 now",
        f"{other} arrays are the same, the rest not",
        f"{inside}'fast' before, 'slow' now",
        f"{other} arrays are the same, the rest not",
        f"{inside}Scale before, wave now",
        f"{inside}dict object before, object object now",
        f"{other} same arrays, in which something static is another",
    ]


def test_arrays_that_a_library_wraps_have_none_of_its_names() -> None:
    eqx, nnx = pytest.importorskip("equinox"), pytest.importorskip("flax.nnx")
    step = eqx.filter_jit(lambda tree, flag: tree["w"] * (2 if flag else 3))
    assert reasons(
        lambda: step({"w": THREE}, True),
        lambda: step({"w": FOUR}, True),
        lambda: step({"w": FOUR}, False),
    ) == [
        "at an argument: float32[3] before, float32[4] now",
        "something static in the arguments: True before, False now",
    ]

    class Net(nnx.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.weight, self.by = nnx.Param(THREE), 2

        def __call__(self, x: Any) -> Any:
            return self.weight * x * self.by

    net = Net()
    run = nnx.jit(lambda net, x: net(x))

    def other(name: str, value: Any) -> Callable[[], object]:
        def call() -> object:
            setattr(net, name, value)
            return run(net, THREE)

        return call

    assert reasons(lambda: run(net, THREE), other("by", 3), other("bias", nnx.Param(THREE))) == [
        "something static in the arguments: 2 before, 3 now",
        "arguments put together differently: 2 arrays before, 3 now",
    ]
