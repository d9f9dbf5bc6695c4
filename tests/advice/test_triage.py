"""Triage, on exceptions that torch really raises; of devices not at hand, on their words."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_graphbreak import advice
from pytest_graphbreak.advice.triage import RUN, Triage, kinds, triage

torch = pytest.importorskip("torch")
pytest.importorskip("torch._dynamo")

pytestmark = pytest.mark.once

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
Raiser = Callable[[], None]
RAISERS: list[tuple[Raiser, str, str | None]] = []
X = torch.arange(4.0) + 1


@pytest.fixture(autouse=True)
def _cold() -> None:
    torch._dynamo.reset()


def raises(
    kind: str, topic: str | None = None, since: tuple[int, int] = (2, 6)
) -> Callable[[Raiser], Raiser]:
    """What this raises is of a kind, and leads to a page."""

    def add(function: Raiser) -> Raiser:
        if since <= VERSION:
            RAISERS.append((function, kind, topic))
        return function

    return add


@raises("graph-break", "branch")
def branch_under_fullgraph() -> None:
    def f(x: Any) -> Any:
        if x.sum() > 0:
            return x + 1
        return x

    torch.compile(f, backend="eager", fullgraph=True)(X)


@raises("graph-break", "print")
def print_under_fullgraph() -> None:
    def f(x: Any) -> Any:
        x = x + 1
        print("hello")
        return x

    torch.compile(f, backend="eager", fullgraph=True)(X)


@raises("graph-break", "cond", since=(2, 9))
def cond_that_mutates() -> None:
    def f(x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda x: x.add_(1), lambda x: x - 1, (x,))

    torch.compile(f, backend="eager")(X)


@raises("graph-break", "branch")
def export_that_breaks() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            if x.sum() > 0:
                return x + 1
            return x

    torch.export.export(Model(), (X,), strict=True)


@raises("shapes", "export")
def a_dimension_that_is_fixed() -> None:
    x = torch.ones(4, 2)
    torch._dynamo.mark_dynamic(x, 0)
    torch.compile(lambda x: x + torch.ones(4, 1), backend="eager")(x)


@raises("shapes", "branch")
def a_branch_on_an_item() -> None:
    def f(x: Any) -> Any:
        if x.sum().long().item() > 3:
            return x + 1
        return x

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        torch.compile(f, backend="eager", fullgraph=True)(X)


@raises("recompile-limit", "limit")
def the_limit_under_fullgraph() -> None:
    f = torch.compile(lambda x, n: x + len(n), backend="eager", fullgraph=True)
    for n in range(12):
        f(X, "a" * n)


@raises("recompile-limit", "limit", since=(2, 7))
def the_limit_as_an_error() -> None:
    with torch._dynamo.config.patch(fail_on_recompile_limit_hit=True):
        f = torch.compile(lambda x, n: x + len(n), backend="eager")
        for n in range(12):
            f(X, "a" * n)


@raises("recompile-limit", "recompile")
def a_recompile_under_a_stance() -> None:
    f = torch.compile(lambda x, n: x + len(n), backend="eager")
    f(X, "a")
    with torch.compiler.set_stance("fail_on_recompile"):
        f(X, "aa")


@raises("recompile-limit", "recompile")
def a_recompile_as_an_error() -> None:
    with torch._dynamo.config.patch(error_on_recompile=True):
        f = torch.compile(lambda x, n: x + len(n), backend="eager")
        f(X, "a")
        f(X, "aa")


@raises("backend", "backend")
def a_backend_that_fails() -> None:
    def backend(gm: Any, inputs: Any) -> Any:
        raise RuntimeError("no such op on this device")

    torch.compile(lambda x: x + 1, backend=backend)(X)


@raises("backend", "backend")
def an_op_that_inductor_cannot_lower() -> None:
    from torch._inductor.lowering import register_lowering

    @torch.library.custom_op("triage::op", mutates_args=())
    def op(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    op.register_fake(torch.empty_like)

    @register_lowering(torch.ops.triage.op.default)
    def lowering(x: Any) -> Any:
        raise NotImplementedError("not here")

    torch.compile(lambda x: torch.ops.triage.op(x) + 1)(X)


@raises("setup", "backend")
def a_backend_that_is_not_there() -> None:
    torch.compile(lambda x: x + 1, backend="nonesuch")(X)


@raises("setup")
def a_compiler_that_is_not_there() -> None:
    import torch._inductor.config as config

    with config.patch({"cpp.cxx": ("/nowhere/g++",)}):
        torch.compile(lambda x: x.sin() + 1.2345)(torch.ones(7))


@raises("op", "fake")
def shapes_that_do_not_fit() -> None:
    torch.compile(lambda x: (x + 1) @ torch.ones(7), backend="eager")(X)


@raises("internal")
def recursion_without_end() -> None:
    def f(x: Any, n: int) -> Any:
        return x if n == 0 else f(x, n - 1) + 1

    torch.compile(f, backend="eager", fullgraph=True)(X, 2000)


@raises("accuracy")
def values_that_differ() -> None:
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    torch.testing.assert_close(compiled(X), X)


@pytest.mark.parametrize(
    ("function", "kind", "topic"), RAISERS, ids=[row[0].__name__ for row in RAISERS]
)
def test_what_torch_raises_is_distinguished(
    function: Callable[[], Any], kind: str, topic: str | None
) -> None:
    found = of(function)
    assert found.kind.name == kind
    if found.broke is None:
        assert found.topic == topic
    else:
        assert found.topic == (advice.name(found.broke) or found.broke.id or topic)


def test_a_break_under_fullgraph_is_reported_as_a_break() -> None:
    found = of(print_under_fullgraph)
    broke = found.broke
    assert "print" in broke.reason + broke.explanation
    assert broke.where.file == "test_triage.py"
    assert broke.where.function == "f"
    assert broke.where.code == 'print("hello")'
    assert broke.id == (None if VERSION < (2, 8) else "GB0059")


@pytest.mark.parametrize("compiled", [True, False])
def test_a_failure_of_the_test_itself_is_none(compiled: bool) -> None:
    def f(x: Any) -> Any:
        if compiled:
            torch._dynamo.graph_break()
        raise ValueError("mine")

    function = torch.compile(f, backend="eager") if compiled else f
    assert of(lambda: function(X)) is None
    assert triage("AssertionError", "assert 1 == 2", "tests/test_a.py:3: AssertionError") is None
    assert triage("KeyError", "'x'", 'File "/home/me/model.py", line 3, in f') is None


GENERATED = (
    '  File "/tmp/x/5v/c5vkmfjqxoirdspvbfvgi6jd7vmhy3nnz5mcuvoe7pljf7qnfzkd.py", line 83, in call\n'
)
TRITON = '  File "/site-packages/torch/_inductor/runtime/triton_heuristics.py", line 1280, in run\n'
IS_NAN = '  File "/tmp/a.py", line 9, in call\n    assert not buf0.isnan().any().item()\n'

# Of devices that were not at hand, from public issues: kind, exception, message, and the traceback
# where that tells the kind.
WORDS = [
    ("triton", "triton.runtime.errors.OutOfResources",
     "out of resource: shared memory, Required: 81920, Hardware limit: 65536."),
    ("triton", "BackendCompilerFailed",
     "backend='inductor' raised:\nOutOfResources: out of resource: shared memory, Required: 1"),
    ("triton", "InductorError",
     "SubprocException: An exception occurred in a subprocess:\n\n"
     "triton.compiler.errors.CompilationError: at 11:25:\ndef triton_(in_ptr0):"),
    ("triton", "CompilationError", "at 11:25:\ndef triton_(in_ptr0):"),
    ("triton", "RuntimeError", "Triton Error [CUDA]: invalid argument"),
    ("setup", "InductorError",
     "RuntimeError: Cannot find a working triton installation. Either the package is not"),
    ("memory", "torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 2.00 GiB."),
    ("memory", "RuntimeError", "Bad StatusOr access: RESOURCE_EXHAUSTED: Out of memory"),
    ("runtime", "torch.AcceleratorError", "CUDA error: device-side assert triggered"),
    ("runtime", "RuntimeError", "CUDA error: an illegal memory access was encountered"),
    ("device-compiler", "RuntimeError", "Bad StatusOr access: INTERNAL: Error code: 13"),
    ("device-compiler", "ValueError", "Error code: 13"),
    ("device-compiler", "BackendCompilerFailed",
     "backend='tt' raised:\nRuntimeError: Bad StatusOr access: INTERNAL: Error code: 13\n\nSet"),
    ("accuracy", "torch._dynamo.debug_utils.AccuracyError", "Bad accuracy detected"),
    ("accuracy", "AssertionError",
     "Evaluation result 0 failed: PCC comparison failed. Calculated: pcc=0.7. Required: pcc=0.99."),
    ("runtime", "RuntimeError", "unhandled", GENERATED),
    ("triton", "RuntimeError", "unhandled", GENERATED + TRITON),
    ("accuracy", "AssertionError", "unhandled", IS_NAN),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "failure"), [(kind, failure) for kind, *failure in WORDS])
def test_words_of_other_devices(kind: str, failure: list[str]) -> None:
    found = triage(*failure)
    assert found.kind.name == kind


@pytest.mark.parametrize(
    ("kind", "topic", "message"),
    [
        ("graph-break", "access", "Unexpected execution happens inside the compiled function"),
        (
            "recompile-limit",
            "device-recompile",
            "Maximum number of different graphs allowed per function exceeded: 1",
        ),
    ],
)
def test_the_guards_of_torch_xla_are_distinguished(kind: str, topic: str, message: str) -> None:
    found = triage("RuntimeError", message)
    assert (found.kind.name, found.topic) == (kind, topic)


@pytest.mark.parametrize("kind", kinds().values(), ids=lambda kind: kind.name)
def test_every_kind_says_what_to_gather(kind: Any) -> None:
    assert kind.steps
    for step in kind.steps:
        line = step.line("pytest tests/test_a.py::test_b")
        assert RUN not in line
        assert len(line) <= 150


@cache
def sources_of_torch() -> str:
    folder = Path(torch.__file__).parent
    return "".join(
        file.read_text(errors="ignore")
        for part in ("_dynamo", "_inductor", "_functorch", "_logging")
        for file in sorted((folder / part).rglob("*.py"))
    )


@pytest.mark.parametrize("kind", kinds().values(), ids=lambda kind: kind.name)
def test_torch_knows_the_variables_and_logs_that_are_named(kind: Any) -> None:
    from torch._logging._internal import log_registry

    for step in kind.steps:
        for word in step.command.split():
            name, found, value = word.partition("=")
            if name == "TORCH_LOGS":
                for log in value.split(","):
                    assert log_registry.is_artifact(log) or log_registry.is_log(log.lstrip("+"))
            elif found and name.startswith(("TORCHDYNAMO_", "TORCHINDUCTOR_", "TORCH_COMPILE_")):
                assert (
                    name in sources_of_torch()
                    or name.removeprefix("TORCHDYNAMO_").lower() in sources_of_torch()
                )


@pytest.mark.parametrize("kind", kinds().values(), ids=lambda kind: kind.name)
def test_the_files_that_are_to_be_read_are_there(kind: Any) -> None:
    packages = Path(torch.__file__).parents[1]
    named = [file for file in kind.files if file.startswith("torch/")]
    assert [file for file in named if not (packages / file).exists()] == []


def test_the_switches_of_triton_are_there() -> None:
    import torch._inductor.config as config

    said = "\n".join(step.command for step in kinds()["triton"].steps)
    for name in ("debug_sync_graph", "debug_sync_kernel"):
        assert name in said
        assert hasattr(config.triton, name)


def test_the_file_of_torch_that_raised_it_is_read_first() -> None:
    found = of(print_under_fullgraph)
    assert found.raised.startswith("torch/_dynamo/")
    assert not found.raised.endswith("exc.py")
    assert f"read: {found.raised}, " in "\n".join(found.lines("pytest"))
    trace = (
        '  File "/x/site-packages/torch/_dynamo/guards.py", line 3, in f\n    x\nKeyError: 1\n\n'
    )
    user = (
        'from user code:\n   File "a.py", line 1, in g\n    y\n  File "b.py", line 2, in h\n    z'
    )
    found = triage("torch._dynamo.exc.InternalTorchDynamoError", "KeyError: 1", trace + user)
    assert found.raised == "torch/_dynamo/guards.py"


@given(st.text(), st.text(), st.text())
def test_any_failure_is_classified_or_none(error: str, message: str, traceback_text: str) -> None:
    found = triage(error, message, traceback_text)
    assert found is None or (found.kind in kinds().values() and found.lines("pytest"))


@given(st.sampled_from(["Unsupported", "UserError"]), st.text(), st.text())
def test_any_break_is_reported(error: str, before: str, after: str) -> None:
    found = triage(error, f"{before}\n  Explanation: {after}\n\nfrom user code:\n   {before}")
    assert found is None or found.lines("pytest")


def of(function: Callable[[], Any]) -> Triage | None:
    try:
        function()
    except BaseException as error:
        kind, trace = type(error), "".join(traceback.format_exception(error))
        return triage(f"{kind.__module__}.{kind.__qualname__}", str(error), trace)
    return pytest.fail("it raised nothing")
