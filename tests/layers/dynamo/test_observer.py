"""The dynamo observer as a guest in the user's process: what it sees, what it leaves alone."""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import importlib
import logging
import os
import random
import re
import subprocess
import sys
import textwrap
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

torch = pytest.importorskip("torch")
importlib.import_module("torch._dynamo")

from pytest_graphbreak.layers.children.spool import VARIABLE  # noqa: E402
from pytest_graphbreak.layers.dynamo import breaks, graphs, isolation  # noqa: E402
from pytest_graphbreak.layers.dynamo import private as names  # noqa: E402
from pytest_graphbreak.layers.dynamo.breaks import BreakSensors  # noqa: E402
from pytest_graphbreak.layers.dynamo.graphs import GraphSensors  # noqa: E402
from pytest_graphbreak.layers.dynamo.notes import Notes, ThreadState  # noqa: E402
from pytest_graphbreak.layers.dynamo.observer import DynamoObserver  # noqa: E402
from pytest_graphbreak.layers.dynamo.sensors import DynamoSensors  # noqa: E402
from pytest_graphbreak.layers.hooks import Patch  # noqa: E402
from pytest_graphbreak.layers.private_names import MissingName  # noqa: E402
from pytest_graphbreak.model.places import Places  # noqa: E402
from pytest_graphbreak.model.record import Record  # noqa: E402
from tests.layers.dynamo.tools import closed, observer, places, window  # noqa: E402

ROOT = Path(__file__).parents[3]
FILE = "tests/layers/dynamo/test_observer.py"


def compile(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="eager", **options)


@pytest.fixture(autouse=True)
def _cold() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    assert not observer._windows, "a test left a window open"
    torch._dynamo.reset()


def clean(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) + 1


def broken(x: torch.Tensor) -> torch.Tensor:
    y = torch.sin(x)
    torch._dynamo.graph_break()
    return y + 1


X = torch.ones(3)


# What is seen.


def test_a_break_is_reported_in_full() -> None:
    with window() as seen:
        compile(broken)(X)
    (item,) = seen[0].breaks
    assert item.where.file == FILE
    assert item.where.function == "broken"
    assert item.where.code == "torch._dynamo.graph_break()"
    assert "graph_break" in item.reason
    assert item.id == "GB0025"
    assert item.explanation.startswith("User-inserted graph break.")
    assert item.hints == ("Remove the `torch._dynamo.graph_break()` call.",)
    assert [(frame.function, frame.code) for frame in item.stack] == [
        ("test_a_break_is_reported_in_full", "compile(broken)(X)"),
        ("broken", "torch._dynamo.graph_break()"),
    ]
    first, second = seen[0].graph_list
    assert (first.name, first.cause, first.sources) == ("0/0", "entry", ())
    assert first.where.code == "def broken(x: torch.Tensor) -> torch.Tensor:"
    assert (first.ops, first.inputs, first.outputs) == (1, 1, 1)
    assert (second.name, second.cause, second.sources) == ("1/0", "break", ("0/0",))
    assert second.where == item.where
    assert second.reason == item.reason
    assert (seen[0].frames.attempted, seen[0].frames.compiled) == (2, 2)


def test_each_graph_of_a_nested_break_has_its_cause() -> None:
    def leaf(x: torch.Tensor) -> torch.Tensor:
        x = torch.sin(x)
        torch._dynamo.graph_break()
        return x + 1

    def top(x: torch.Tensor) -> torch.Tensor:
        return leaf(x * 2) * 3

    with window() as seen:
        compile(top)(X)
    here = "test_each_graph_of_a_nested_break_has_its_cause.<locals>"
    assert [(g.name, g.cause, g.where.function, g.sources) for g in seen[0].graph_list] == [
        ("0/0", "entry", f"{here}.top", ()),
        ("1/0", "callee", f"{here}.leaf", ("0/0",)),
        ("2/0", "break", f"{here}.leaf", ("1/0",)),
        ("3/0", "break", f"{here}.top", ("0/0",)),
    ]
    (item,) = seen[0].breaks
    assert item.count == 2


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 2

    def forward(self, x: Any, n: Any = 1, options: Any = None) -> Any:
        return x * self.scale * n + (options or {"k": [1]})["k"][0]


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (lambda m: ((torch.ones(7, 3),), {}), "x has shape [7, 3] now"),
        (lambda m: ((X.double(),), {}), "x is of float64 now"),
        (lambda m: ((X, 2.5), {}), "n is 2.5 now"),
        (lambda m: ((X, 3), {}), "n is 3 now"),
        (lambda m: (setattr(m, "scale", 5), ((X,), {}))[1], "self.scale is 5 now"),
        (lambda m: ((X,), {"options": {"k": [9]}}), "options['k'][0] is 9 now"),
    ],
)
def test_a_recompile_says_what_came(second: Any, words: str) -> None:
    model = Scaled()
    compiled = compile(model, dynamic=False)
    given = {"options": {"k": [1]}}
    with window() as seen:
        compiled(X, 1, **given)
        args, kwargs = second(model)
        compiled(args[0], *(args[1:] or (1,)), **{**given, **kwargs})
    (again,) = seen[0].recompile_list
    assert again.reason.endswith(f" ({words})"), again.reason
    assert (again.graph, again.where.function) == ("0/1", "Scaled.forward")
    assert seen[0].graph_list[1].cause == "recompile"


class Branching(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        y = x.sin()
        if y.sum() > 0:
            return y + 1
        return y - 1


@pytest.mark.parametrize("strict", [True, False])
def test_what_stops_an_export_has_its_reason_and_its_place(strict: bool) -> None:
    with window() as seen, pytest.raises(Exception, match=r"ata-dependent|Dynamic control flow"):
        torch.export.export(Branching(), (X,), strict=strict)
    (stopped,) = seen[0].eager
    assert stopped.where.code == "if y.sum() > 0:"
    assert stopped.where.function == "Branching.forward"
    assert stopped.reason.endswith("(it stops torch.export)")
    assert re.search("ata-dependent|Dynamic control flow", stopped.reason)
    assert (seen[0].graphs, seen[0].breaks, seen[0].errors, seen[0].notes) == ({}, (), (), ())


def test_an_error_of_the_users_stops_an_export_too() -> None:
    class Wrong(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            raise KeyError("weights")

    with window() as seen, pytest.raises(KeyError):
        torch.export.export(Wrong(), (X,), strict=False)
    (stopped,) = seen[0].eager
    assert stopped.where.code == 'raise KeyError("weights")'
    assert stopped.reason == "KeyError: 'weights' (it stops torch.export)"


def test_an_export_stops_with_its_own_error_where_it_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(fault: BaseException) -> BaseException:
        raise ZeroDivisionError("a bug of ours")

    monkeypatch.setattr(breaks, "_traced_root", fails)
    with window() as seen, pytest.raises(Exception, match=r"ata-dependent|Dynamic control flow"):
        torch.export.export(Branching(), (X,), strict=True)
    (error,) = seen[0].errors
    assert "a bug of ours" in error
    assert seen[0].eager == ()


@pytest.mark.parametrize("strict", [True, False])
def test_what_was_exported_counts_when_it_is_compiled(strict: bool) -> None:
    program = torch.export.export(torch.nn.Linear(3, 2), (X,), strict=strict)
    torch._dynamo.reset()
    with window() as seen:
        compile(program.module())(X)
    assert seen[0].graphs == {"dynamo": 1}
    assert [graph.cause for graph in seen[0].graph_list] == ["entry"]
    assert seen[0].eager == ()


def test_what_a_library_compiles_is_placed_at_the_call() -> None:
    with window() as seen:
        compile(torch.nn.Linear(3, 2))(X)
    (graph,) = seen[0].graph_list
    assert graph.cause == "entry"
    assert graph.where.file == FILE
    assert graph.where.code == "compile(torch.nn.Linear(3, 2))(X)"


def test_a_decorated_forward_is_placed_where_it_is_written() -> None:
    def decorated(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
            return function(self, *args, **kwargs)

        return wrapper

    class Model(torch.nn.Module):
        @decorated
        @decorated
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sin(x)

    with window() as seen:
        compile(Model())(X)
    (graph,) = seen[0].graph_list
    assert graph.where.function.endswith("Model.forward")
    assert graph.where.code == "def forward(self, x: torch.Tensor) -> torch.Tensor:"


def test_no_object_of_the_user_is_asked_anything() -> None:
    class Touchy:
        def __init__(self) -> None:
            self.x = X

        def __bool__(self) -> bool:
            raise AssertionError("asked for its truth")

        __len__ = __iter__ = __eq__ = __hash__ = __bool__  # type: ignore[assignment]

        def call(self) -> torch.Tensor:
            return torch.sin(self.x)

    class Model(torch.nn.Module):
        __bool__ = __len__ = __eq__ = Touchy.__bool__  # type: ignore[assignment]
        __hash__ = torch.nn.Module.__hash__

        def forward(self, x: Any) -> Any:
            return x + 1

    def starred(*args: Any) -> torch.Tensor:
        return args[0].call()

    with window() as seen:
        compile(Touchy().call)()
        compile(starred)(Touchy())
        compile(lambda args: args * 2)(X)
        compile(Model().forward)(X)
    assert (seen[0].graphs, seen[0].errors) == ({"dynamo": 4}, ())
    assert seen[0].graph_list[-1].owner == "Model"


def test_an_error_under_fullgraph_is_the_tests_own() -> None:
    with window() as seen, pytest.raises(torch._dynamo.exc.Unsupported):
        compile(broken, fullgraph=True)(X)
    assert (seen[0].graphs, seen[0].breaks, seen[0].eager) == ({}, (), ())
    assert (seen[0].frames.attempted, seen[0].frames.compiled) == (1, 0)
    (note,) = seen[0].notes
    assert note.startswith(
        f"fullgraph=True: Unsupported was raised to the test for broken ({FILE}:"
    )


def test_a_function_left_to_eager_is_named_with_its_break() -> None:
    def loop(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = torch.sin(x)
            print("", end="")
        return x

    with window() as seen:
        compile(loop)(X)
    (left,) = seen[0].eager
    (item,) = seen[0].breaks
    assert left.where.code == "def loop(x: torch.Tensor) -> torch.Tensor:"
    assert left.reason == item.reason
    assert item.where.code == 'print("", end="")'
    assert (seen[0].graphs, seen[0].frames.compiled) == ({}, 0)


def test_names_stay_unique_when_the_test_resets_dynamo() -> None:
    with window() as seen:
        compile(broken)(X)
        torch._dynamo.reset()
        compile(broken)(X)
    assert [graph.name for graph in seen[0].graph_list] == ["0/0", "1/0", "0/0#2", "1/0#2"]
    assert seen[0].graph_list[3].sources == ("0/0#2",)
    assert seen[0].errors == ()


def test_compiled_autograd_keeps_its_ids() -> None:
    x = X.clone().requires_grad_()
    with window() as seen, torch._dynamo.compiled_autograd._enable(compile):
        compile(clean)(x).sum().backward()
    forward, backward = seen[0].graph_list
    assert forward.where.function == "clean"
    assert backward.where.code == "compile(clean)(x).sum().backward()"
    assert backward.name.startswith("!0/")


def test_a_specialization_is_a_graph_for_the_backend() -> None:
    calls = 0

    def backend(gm: Any, inputs: Any) -> Any:
        nonlocal calls
        calls += 1
        return gm.forward

    x = torch.ones(8)
    torch._dynamo.mark_dynamic(x, 0, specialize_on=[lambda size: size == 8])
    with window() as seen:
        compiled = torch.compile(lambda x: x * x.shape[0], backend=backend)
        compiled(x)
        compiled(torch.ones(12))
    assert (seen[0].graphs, calls) == ({"dynamo": 2}, 2)
    assert [(graph.name, graph.cause) for graph in seen[0].graph_list] == [
        ("0/0", "entry"),
        ("0/0+1", "recompile"),
    ]
    assert (seen[0].recompiles, seen[0].errors) == ({}, ())


# Windows.


def test_windows_nest_and_close_in_any_order() -> None:
    outer = observer.open(places)
    compile(clean)(X)
    inner = observer.open(places)
    compile(broken)(X)
    first = closed(outer)
    compile(lambda x: x * 5)(X)
    second = closed(inner)
    assert first.graphs == second.graphs == {"dynamo": 3}
    assert [len(first.breaks), len(second.breaks)] == [1, 1]
    assert outer.close() is first
    assert outer.peek() is first


def test_peek_sees_what_was_so_far_and_reads_it_once() -> None:
    opened = observer.open(places)
    assert opened.peek().graphs == {}  # type: ignore[union-attr]
    compile(clean)(X)
    one = opened.peek()
    assert opened.peek() == one
    compile(broken)(X)
    assert opened.peek().graphs == {"dynamo": 3}  # type: ignore[union-attr]
    assert closed(opened).graphs == {"dynamo": 3}
    assert one.graphs == {"dynamo": 1}


def test_windows_of_many_threads_see_the_same_graphs() -> None:
    """Opening and closing while another thread compiles never reports a graph missed."""
    seen: list[Record | None] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            opened = observer.open(places)
            opened.peek()
            seen.append(opened.close())

    thread = threading.Thread(target=look)
    with window() as whole:
        thread.start()
        for n in range(8):
            torch._dynamo.reset()
            compile(lambda x, n=n: x * n)(X)
        stop.set()
        thread.join()
    assert whole[0].graphs == {"dynamo": 8}
    assert {error for item in seen if item for error in item.errors} == set()


def test_a_thread_that_goes_on_compiling_is_waited_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(isolation, "PATIENCE", 0.3)
    waited: list[float] = []

    def no_other_compiles(patience: float) -> contextlib.AbstractContextManager[None]:
        waited.append(patience)
        return real(patience)

    real = isolation.no_other_compiles
    monkeypatch.setattr(isolation, "no_other_compiles", no_other_compiles)
    held, release = threading.Event(), threading.Event()

    def compiles() -> None:
        with torch._dynamo.convert_frame.compile_lock:
            held.set()
            release.wait()

    thread = threading.Thread(target=compiles)
    thread.start()
    held.wait()
    reported = []
    for _ in range(3):
        observer.isolate("later")
        with window() as seen:
            pass
        reported.append((seen[0].errors, len(seen[0].notes)))
    release.set()
    thread.join()
    assert waited == [0.3, 0, 0]
    assert reported == [((), 1)] * 3
    observer.isolate("after it")
    with window() as seen:
        compile(lambda x: x + 3)(X)
    assert (seen[0].errors, seen[0].notes) == ((), ())


@pytest.mark.parametrize("compiles", [True, False])
def test_a_reset_that_fails_is_an_error_where_something_is_compiled(
    monkeypatch: pytest.MonkeyPatch, compiles: bool
) -> None:
    def fails() -> None:
        raise RuntimeError("no reset")

    monkeypatch.setattr(torch._dynamo, "reset", fails)
    observer.isolate("tests/test_a.py::test_b")
    monkeypatch.undo()
    with window() as seen:
        if compiles:
            compile(lambda x: x + 1)(X)
    with window() as after:
        compile(lambda x: x + 2)(X)
    reported, nothing = seen[0].errors, seen[0].notes
    if not compiles:
        reported, nothing = nothing, reported
    assert "no reset" in reported[0]
    assert "tests/test_a.py::test_b" in reported[0]
    assert (nothing, after[0].errors, after[0].notes) == ((), (), ())


@pytest.mark.parametrize("there", [True, False])
def test_what_a_fixture_compiled_and_cannot_be_forgotten_is_an_error(
    there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``there``: whether Dynamo was imported when the fixture began."""
    from pytest_graphbreak.layers.dynamo import observer as module

    def fails(*given: Any) -> None:
        raise RuntimeError("no reset")

    observer.isolate("test")
    opened = observer.open(places)
    monkeypatch.setattr(module.isolation, "forget" if there else "reset", fails)
    if not there:
        monkeypatch.setattr(module, "DYNAMO", "dynamo_of_a_test")
    with opened.exclude():
        monkeypatch.setitem(sys.modules, "dynamo_of_a_test", torch._dynamo)
    monkeypatch.undo()
    seen = closed(opened)
    assert seen.errors == ("dynamo: what a fixture compiled could not be forgotten: no reset",)


# A gate that cannot see must not pass.

REQUIRED = (*names.required_names(torch.__version__), *names.LATE)


@pytest.mark.parametrize("name", REQUIRED, ids=lambda name: name.path)
def test_a_private_name_that_is_gone_is_an_error(
    name: names.Name, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each name is away while the observer looks for it: as in a torch that calls it otherwise."""
    owner, attribute = names.find(name)
    if name is names.CONFIG:  # this module makes its attributes itself
        monkeypatch.setattr(names, "find", _without(name))
    else:
        monkeypatch.delattr(owner, attribute)
    opened = observer.open(places)
    monkeypatch.undo()
    compile(broken)(X)
    inner = observer.open(places)
    seen, later = closed(opened), closed(inner)
    for item in (seen, later):
        named = [error for error in item.errors if name.path in error]
        assert named, item.errors
        assert torch.__version__ in named[0]
        assert name.without in named[0]
    assert seen.graphs == {"dynamo": 2}


def _without(name: names.Name) -> Callable[[names.Name], tuple[Any, str]]:
    real = names.find

    def find(wanted: names.Name) -> tuple[Any, str]:
        if wanted is name:
            raise MissingName(names.missing_name(wanted))
        return real(wanted)

    return find


def test_a_changed_signature_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    real = torch._dynamo.convert_frame._compile

    def other(program: Any, *args: Any, **kwargs: Any) -> Any:
        return real(program, *args, **kwargs)

    monkeypatch.setattr(torch._dynamo.convert_frame, "_compile", other)
    with window() as seen:
        assert compile(clean)(X).equal(clean(X))
    assert any("torch._dynamo.convert_frame._compile" in error for error in seen[0].errors)
    assert any("'code'" in error for error in seen[0].errors)


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        (DynamoSensors, "_start"),
        (Notes, "look_up"),
        (GraphSensors, "_note_graph"),
        (BreakSensors, "add_break"),
        (BreakSensors, "_mark"),
        (ThreadState, "current"),
        (graphs, "shape_of"),
    ],
)
def test_a_sensor_that_fails_is_an_error_and_never_the_users(
    kind: Any, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Any, *args: Any) -> Any:
        raise ZeroDivisionError("a bug of ours")

    monkeypatch.setattr(kind, method, fails)
    with window() as seen:
        assert compile(broken)(X).equal(broken(X))
    assert any("failed" in error and "a bug of ours" in error for error in seen[0].errors)


def test_graphs_that_pass_by_are_counted_and_are_an_error() -> None:
    """Another tool takes our wrapper off and puts back what it knew from before."""
    kind = torch._dynamo.output_graph.OutputGraph
    before = kind.call_user_compiler
    with window() as seen:
        compile(clean)(X)
        kind.call_user_compiler = before
        compile(broken)(X)
    assert kind.call_user_compiler is before
    assert seen[0].graphs == {"dynamo": 3}
    assert any("counted 2 graphs" in error for error in seen[0].errors), seen[0].errors


def test_a_graph_that_dynamo_does_not_count_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with window() as seen:
        opened = observer._sensors
        monkeypatch.setattr(opened._ledger, "_read", lambda: (None, 0))
        compile(clean)(X)
    assert any("does not have" in error for error in seen[0].errors)


COUNTERS = torch._dynamo.utils.counters


@contextlib.contextmanager
def cleared(counter: Any) -> Iterator[None]:
    counter.clear()
    yield


@pytest.mark.parametrize(
    "clears",
    [
        lambda: cleared(COUNTERS),
        lambda: cleared(COUNTERS["stats"]),
        lambda: mock.patch.dict(COUNTERS["stats"], clear=True),  # and puts it back
        lambda: mock.patch.dict(COUNTERS, clear=True),
        lambda: mock.patch.dict(COUNTERS["stats"]),  # puts back what was counted, not zero
    ],
    ids=["all", "stats", "stats put back", "all put back", "one graph less"],
)
def test_a_test_may_clear_the_counters(
    clears: Callable[[], contextlib.AbstractContextManager[None]],
) -> None:
    compile(lambda x: x * 11)(X)  # the counters are not zero when the window opens
    with window() as seen:
        compile(clean)(X)
        compile(broken)(X)
        with clears():
            compile(lambda x: x * 7)(X)
        compile(lambda x: x * 9)(X)
    assert seen[0].errors == ()
    assert seen[0].graphs == {"dynamo": 5}


def test_a_backend_may_clear_the_counters() -> None:
    def backend(gm: Any, inputs: Any) -> Any:
        torch._dynamo.utils.counters.clear()
        return gm.forward

    with window() as seen:
        torch.compile(broken, backend=backend)(X)
    assert (seen[0].graphs, seen[0].errors) == ({"dynamo": 2}, ())


def test_a_disabled_dynamo_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    with window() as seen:
        compile(clean)(X)
    assert "TORCHDYNAMO_DISABLE" in seen[0].errors[0]
    monkeypatch.delenv("TORCHDYNAMO_DISABLE")
    for setting, words in (
        ("disable", "torch._dynamo.config.disable"),
        ("caching_precompile", "TORCH_CACHING_PRECOMPILE=0"),  # nothing that is loaded is attempted
    ):
        with torch._dynamo.config.patch(setting, True), window() as seen:
            pass
        assert words in seen[0].errors[0]


def test_a_dynamo_that_came_unseen_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch._dynamo")
    opened = observer.open(places)
    monkeypatch.undo()
    compile(clean)(X)
    seen = closed(opened)
    assert "could not be watched" in seen.errors[0]


def test_what_can_not_be_read_is_an_error_with_its_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*args: Any) -> Any:
        raise ZeroDivisionError("a bug of ours")

    monkeypatch.setattr(Places, "frame", fails)
    with window() as seen:
        compile(broken)(X)
    assert seen[0].graphs == {"dynamo": 2}
    assert "a bug of ours" in seen[0].errors[0]


# The user's torch is sacred.


def _state() -> dict[str, Any]:
    """Everything of the process that observing could touch."""
    loggers: dict[str, Any] = dict(logging.root.manager.loggerDict)
    loggers["root"] = logging.root
    utils = torch._dynamo.utils
    patched = {}
    for name in REQUIRED:
        owner, attribute = names.find(name)
        patched[name.path] = vars(owner).get(attribute, getattr(owner, attribute))
    patched["SkipFrame"] = dict(vars(torch._dynamo.exc.SkipFrame))
    return {
        "loggers": {
            key: {
                k: list(v) if isinstance(v, list) else v
                for k, v in vars(logger).items()
                if k != "_cache"
            }
            for key, logger in loggers.items()
            if isinstance(logger, logging.Logger)
        },
        "disabled": logging.root.manager.disable,
        "TORCH": {k: v for k, v in os.environ.items() if k.startswith("TORCH")},
        "log_state": copy.deepcopy(vars(torch._logging._internal.log_state)),
        "config": torch._dynamo.config.get_config_copy(),
        "counters": {key: dict(value) for key, value in utils.counters.items()},
        "metrics": len(utils.get_compilation_metrics()),
        "warnings": list(warnings.filters),
        "rng": torch.get_rng_state().tolist(),
        "random": random.getstate(),
        "meta_path": list(sys.meta_path),
        "loader": "exec_module" in vars(SourceFileLoader),
        "stance": copy.copy(vars(torch._dynamo.eval_frame._stance)),
        "patched": patched,
    }


def test_an_empty_window_leaves_everything_as_it_was() -> None:
    torch._dynamo.utils.counters.clear()
    before = _state()
    with window():
        pass
    assert _state() == before


def test_compiling_leaves_the_same_state_with_a_window_and_without() -> None:
    def run() -> dict[str, Any]:
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        torch._dynamo.utils.clear_compilation_metrics()
        torch.manual_seed(0)
        compile(broken)(X)
        with contextlib.suppress(Exception):
            compile(broken, fullgraph=True)(X)
        return _state()

    run()  # warms what is made once a process
    bare = run()
    with window() as seen:
        watched = run()
    for state in (bare, watched):
        state.pop("patched")
        # While a window is open it waits for compilers that are installed and not imported.
        state.pop("loader")
    assert seen[0].graphs == {"dynamo": 2}
    assert watched == bare


@pytest.mark.once
@pytest.mark.usefixtures("forks")
def test_torchs_own_logs_are_the_same() -> None:
    """What TORCH_LOGS prints, with the repeated breaks that Dynamo itself cuts short."""

    def logged(watched: bool) -> str:
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(LOGGED), *(["watch"] * watched)],
            cwd=ROOT,
            env={**os.environ, "TORCH_LOGS": "graph_breaks,recompiles"},
            capture_output=True,
            text=True,
            check=True,
        )
        return re.sub(r"(?m)^V\d{4} [\d:.]+ \d+ ", "", done.stderr)

    watched = logged(True)
    assert "graph_breaks" in watched
    assert "Recompiling function" in watched
    assert watched == logged(False)


LOGGED = """
    import sys
    from pathlib import Path
    from pytest_graphbreak.layers.dynamo.observer import DynamoObserver
    from pytest_graphbreak.model.places import Places
    import torch

    torch._logging._internal._init_logs()  # of TORCH_LOGS, as when it is imported

    def g(x):
        print("", end="")
        return x * 2

    def f(x):
        return g(torch.sin(x)) + 1

    window = DynamoObserver().open(Places(Path.cwd())) if len(sys.argv) > 1 else None
    compiled = torch.compile(f, backend="eager")
    compiled(torch.ones(3))
    compiled(torch.ones(3).double())
    if window is not None:
        assert window.close().graphs == {"dynamo": 6}
"""


def test_a_tool_that_wraps_after_us_stays() -> None:
    kind = torch._dynamo.output_graph.OutputGraph
    real = kind.call_user_compiler
    calls = []
    opened = observer.open(places)
    ours = kind.call_user_compiler

    def theirs(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        return ours(*args, **kwargs)

    kind.call_user_compiler = theirs
    try:
        compile(clean)(X)
        first = closed(opened)
        assert kind.call_user_compiler is theirs
        compile(broken)(X)  # ours is still below theirs, and only passes on
        with window() as seen:
            compile(lambda x: x * 3)(X)
        assert kind.call_user_compiler is theirs
    finally:
        kind.call_user_compiler = real
    assert (first.graphs, first.errors) == ({"dynamo": 1}, ())
    assert (seen[0].graphs, seen[0].errors) == ({"dynamo": 1}, ())
    assert len(calls) == 4


def test_a_patch_of_an_inherited_method_goes_without_a_trace() -> None:
    class Base:
        def f(self) -> str:
            return "base"

    class Child(Base):
        pass

    patch = Patch(Child, "f", lambda original, *args: original(*args) + "!")
    assert Child().f() == "base!"
    patch.remove()
    assert "f" not in vars(Child)
    assert Child().f() == "base"


@pytest.mark.parametrize("fullgraph", [False, True])
def test_nothing_of_the_users_is_kept_alive(fullgraph: bool) -> None:
    """Also not by the exceptions that were followed: they hold the frames of the test."""
    with window():
        model = torch.nn.Linear(3, 3)
        alive = weakref.ref(model)
        with contextlib.suppress(Exception):
            compile(_breaks_after(model), fullgraph=fullgraph)(X)
        torch._dynamo.reset()
        del model
        gc.collect()
        assert alive() is None


def _breaks_after(model: torch.nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: broken(model(x))


# torch comes later, or not at all.


def _python(script: str, **env: str) -> str:
    # A session in which some test has blocks follows all processes: this one is not to be.
    bare = {name: value for name, value in os.environ.items() if name != VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=ROOT,
        env={**bare, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.once
def test_torch_may_come_inside_the_window() -> None:
    out = _python(
        """
        import sys
        from pathlib import Path
        from pytest_graphbreak.layers.dynamo.observer import DynamoObserver
        from pytest_graphbreak.model.places import Places

        observer, places = DynamoObserver(), Places(Path.cwd())
        before = list(sys.meta_path)
        observer.isolate("nothing to reset")
        window = observer.open(places)
        assert window.peek() is None
        assert window.close() is None
        assert "torch" not in sys.modules
        assert sys.meta_path == before

        outer, window = observer.open(places), observer.open(places)
        other = DynamoObserver()
        second = other.open(places)
        import torch
        late = "torch._dynamo" not in sys.modules
        seen = window.close()
        assert (seen.graphs, seen.errors) == ({}, ())
        assert late == ("torch._dynamo" not in sys.modules)

        def f(x):
            print("", end="")
            return x + 1

        window = observer.open(places)
        torch.compile(f, backend="eager")(torch.ones(3))
        for opened in (window, second, outer):
            seen = opened.close()
            assert (seen.graphs, len(seen.breaks), seen.errors) == ({"dynamo": 1}, 1, ()), seen
        import torch._dynamo
        loader = torch._dynamo.__spec__.loader
        assert torch._dynamo.__loader__ is loader
        assert "exec_module" not in {**vars(loader), **vars(type(loader))}
        print("late" if late else "early")
        """
    )
    assert out in ("late\n", "early\n")


@pytest.mark.once
def test_a_dynamo_that_comes_disabled_is_an_error() -> None:
    out = _python(
        """
        from pathlib import Path
        from pytest_graphbreak.layers.dynamo.observer import DynamoObserver
        from pytest_graphbreak.model.places import Places

        window = DynamoObserver().open(Places(Path.cwd()))
        import torch
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
        print(window.close().errors)
        """,
        TORCH_COMPILE_DISABLE="1",
    )
    assert "torch._dynamo.config.disable" in out
    assert "TORCH_COMPILE_DISABLE" in out


def test_sensors_that_cannot_be_put_in_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(sensors: DynamoSensors) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(DynamoSensors, "attach", refuse)
    seen = closed(DynamoObserver().open(places))
    assert "dynamo: it could not be watched: no room" in seen.errors
