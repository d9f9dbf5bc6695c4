"""Which family a reason belongs to, and the one line that a failure shows of it."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_graphbreak import advice
from pytest_graphbreak.advice import family, shorts
from pytest_graphbreak.advice.explanation import by_name
from pytest_graphbreak.advice.reasons import SHORT_LIMIT, families
from pytest_graphbreak.model.items import Break, Eager, Frame, Graph, Recompile

pytestmark = pytest.mark.pure

ALL = (
    *(*families().breaks, *families().recompiles, *families().device),
    *(*families().below, *families().topics),
)

# Reasons as torch words them; the versions where they differ are named.
REASONS = [
    ("branch", "Data-dependent branching", "", "if x.sum() > 0:"),
    ("branch", "Data-dependent jump", "", "if x.sum() > 0:"),  # 2.6
    ("branch", "Dynamic control flow is not supported at the moment", "", ""),  # 2.6, fullgraph
    (
        "branch",
        "Encountered graph break when attempting to trace CALL: a function call, e.g. f(x, y)",
        "",
        "if not math.isfinite(value):",
    ),
    (
        "branch",
        "NotImplementedError/UnsupportedFakeTensorException when running FX node",
        "",
        "elif np.isnan(value):",
    ),
    ("loop", "Data-dependent branching", "", "while x.sum() < 100:"),
    ("loop", "Failed to trace builtin operator", "operator `range` with ['Tensor']", ""),
    ("assert", "Data-dependent branching", "", "assert (x > 0).all(), f'{x}'"),
    ("item", "Unsupported Tensor.item() call with capture_scalar_outputs=False", "", ""),
    ("branch", "Unsupported Tensor.item() call", "", "if scores.max().item() > 0.9:"),
    ("branch", "Unsupported Tensor.item() call", "", "y = x if x.max().item() > 0 else -x"),
    ("item", "Unsupported Tensor.item() call", "", "y = x.max().item() if last else 0"),
    ("loop", "Unsupported Tensor.item() call", "", "while x.max().item() < 9:"),
    ("assert", "Unsupported Tensor.item() call", "", "assert x.max().item() < 9"),
    ("branch", "Could not guard on data-dependent expression zuf0 > 0.5", "", "if y > 0.5:"),
    ("branch", "Could not guard on data-dependent expression u0 > 5", "", "if x.max().item() > 5:"),
    ("distributed", "Call to `torch._dynamo.disable()`", "FSDP (torch/distributed/fsdp)", ""),
    ("disabled", "Call to `torch._dynamo.disable()`", "It was called inside", ""),
    ("item", "Tensor.item", "", ""),  # 2.6
    ("item", "Data dependent operator", "`aten._local_scalar_dense.default` has", "y = x[:n]"),
    ("tolist", "Data dependent operator", "`aten._local_scalar_dense.default`", "n.tolist()"),
    ("tolist", "Input tensor for tolist must be an integer tensor", "", ""),  # 2.6
    ("compare", "Data dependent operator", "`aten.equal.default` has", "if torch.equal(a, b):"),
    ("mask", "Dynamic shape operator", "`aten.nonzero.default`'s output shape", "y = x[x > 0]"),
    ("nonzero", "Dynamic shape operator", "`aten.nonzero.default`'s", "i = x.nonzero()"),
    ("nonzero", "Dynamic shape operator", "`aten._unique2.default`'s", "y = x"),
    ("nonzero", "dynamic shape operator: aten._unique2.default", "", ""),  # 2.6
    ("print", "Failed to trace builtin operator", "builtin operator `print` with", ""),
    ("print", "builtin: print", "", ""),  # 2.6
    ("builtin", "Failed to trace builtin operator", "builtin operator `open` with", ""),
    ("logging", "logging.Logger method not supported for non-export cases", "", ""),
    ("logging", "Logger not supported for non-export cases", "", ""),  # 2.6 to 2.9
    ("warnings", "Attempted to call function marked as skipped", "`_warnings.warn`", ""),
    ("c-call", "Attempted to call function marked as skipped", "`zlib.crc32.` This", ""),
    ("random", "Attempted to call function marked as skipped", "`Random.random.` This", ""),
    ("clock", "Attempted to call function marked as skipped", "builtin `time.time.` This", ""),
    ("clock", "Attempted to call function marked as skipped", "`time.monotonic_ns.`", ""),
    ("clock", "Graph break due to unsupported builtin time.perf_counter. This", "", ""),  # 2.6
    ("c-call", "Attempted to call function marked as skipped", "`time.sleep.` This", ""),
    (
        "disallowed",
        "Attempted to call function marked as skipped",
        "`torch._VariableFunctionsClass.sinh.`",
        "",
    ),
    ("disabled", "Skip calling `torch.compiler.disable()`d function", "", ""),
    ("disabled", "call torch._dynamo.disable() wrapped function", "", ""),  # 2.6
    ("graph-break", "Call to `torch._dynamo.graph_break()`", "", ""),
    ("graph-break", "Call to `torch._dynamo.graph_break()`", "", "torch._dynamo.graph_break()"),
    ("autograd", "Call to `torch._dynamo.graph_break()`", "", "optimizer.step()"),
    ("autograd", "Attempted to inline function marked as skipped", "", "opt.zero_grad()"),
    ("c-call", "Attempted to inline function marked as skipped", "", "y = helper(x)"),
    ("graph-break", "skip function graph_break in file decorators.py", "", ""),  # 2.6
    ("context", "Unsupported context manager", "", "with lock:"),
    ("cond", "torch.cond: differing branch outputs", "", ""),
    (
        "cond",
        "Encountered input mutation during higher order op tracing",
        "",
        "torch.cond(p, a, b)",
    ),
    ("map", "Encountered input mutation during higher order op tracing", "", "scan(f, xs)"),
    ("map", "torch.map: improper inputs", "", ""),
    (
        "autograd",
        "Attempted to inline function marked as skipped",
        "function `GradScaler.scale`",
        "",
    ),
    ("attribute", "STORE_ATTR-caused graph break", "", ""),  # 2.6
    ("limit", "recompile_limit was reached (8)", "", ""),
    ("limit", "Dynamo recompile limit exceeded", "", ""),
    ("loop-break", "graph break in loop", "", ""),
    ("backend", "BackendCompilerFailed: the backend tt raised RuntimeError", "", ""),
]

GUARDS = [
    ("size", "tensor 'x' size mismatch at index 0. expected 4, actual 5"),
    ("size", "tensor 'x' rank mismatch. expected 1, actual 2"),
    ("size", "tensor 'x' size mismatch at index 0. expected 4, actual 1"),
    ("zero-one", "2 <= x.size()[0]"),
    ("shape-branch", "2 <= x.size()[0] <= 5"),
    ("shape-branch", "L['x'].size()[0] <= 5"),
    ("stride", "tensor 'x' stride mismatch at index 0. expected 3, actual 1"),
    ("dtype", "tensor 'x' dtype mismatch. expected Float, actual Half"),
    ("requires-grad-varies", "tensor 'x' requires_grad mismatch. expected requires_grad=0"),
    ("grad-mode", "GLOBAL_STATE changed: grad_mode"),
    (
        "grad-mode",
        "tensor 'x' dispatch key set mismatch. expected (CPU), actual (CPU, AutocastCPU)",
    ),
    ("device-varies", "tensor 'x' dispatch key set mismatch. expected (CPU), actual (Meta)"),
    ("value", "n == 3"),
    ("value", "L['n'] == 'a'"),
    ("inference", "tensor 'x' dispatch key set mismatch (x is an inference tensor now)"),
    (
        "inference",
        "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU, ADInplaceOrView, "
        "AutogradCPU), actual DispatchKeySet(CPU, ADInplaceOrView)",
    ),
    (
        "inference",
        "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU, BackendSelect), "
        "actual DispatchKeySet(CPU, BackendSelect, ADInplaceOrView, AutogradCPU)",
    ),
    (
        "device-varies",
        "tensor 'x' dispatch key set mismatch. expected DispatchKeySet(CPU, AutogradCPU), "
        "actual DispatchKeySet(XLA, AutogradXLA)",
    ),
    ("enum", "mode is Mode.SLOW now (___check_obj_id(mode, ...))"),
    ("instance", "self.n == 0 (another Block: self.n is 1 now)"),
    ("instance", "___check_type_id(self.act, ...) (another Block now)"),
    ("value", "self.step == 1  # x * len(self.step) (HINT: torch.compile considers)"),
    ("type", "n is None"),
    ("type", "expected type of 'x' to be a tensor type, ' but found Parameter"),
    ("length", "len(xs) == 2"),
    ("alias", 'Duplicate tensors found: ["x", "y"]'),
    ("alias", "x is y"),
    ("object", "___check_obj_id(f.__code__, ...), type=code"),
    ("backend-object", "BACKEND_MATCH failure: torch.compile detected different backends"),
    ("training", "model.dropout.training == True"),
    ("stack", "___stack1 == 0.61"),
]

CAUSES = [
    ("split", "split", "aten::histc runs on the CPU"),
    ("split-cpu", "split", "CPU tensor of shape [2] from `self.index`"),
    ("scalar", "split", "CPU tensor of shape [] from `torch.tensor(3.0)`"),
    ("access", "access", "a value was read"),
    ("sync", "sync", "explicit sync"),
    ("pending", "pending", ""),
    ("reshard", "reshard", ""),
    ("device-recompile", "recompile", "x went from shape [4] to [5]"),
    ("backward", "backward", ""),
    ("other", "other", ""),
]


@pytest.mark.parametrize(("name", "reason", "explanation", "code"), REASONS)
def test_a_break_belongs_to_its_family(name: str, reason: str, explanation: str, code: str) -> None:
    item = Break("dynamo", reason, Frame("a.py", "f", 1, code), explanation=explanation)
    found = family(item)
    assert found.name == name
    assert {*shorts(item)} <= {line.short for line in found.lines}


@pytest.mark.parametrize(("name", "guard"), GUARDS)
def test_a_recompile_belongs_to_its_family(name: str, guard: str) -> None:
    assert advice.name(Recompile("dynamo", "0/1", guard)) == name


@pytest.mark.parametrize(("name", "cause", "reason"), CAUSES)
@pytest.mark.parametrize("layer", ["xla", "tt"])
def test_a_device_graph_belongs_to_its_family(
    layer: str, name: str, cause: str, reason: str
) -> None:
    assert advice.name(Graph(layer, "1", cause, reason=reason)) == name


def test_a_line_is_shown_in_the_forms_only_that_it_is_held_for() -> None:
    item = Break("dynamo", "Unsupported Tensor.item() call", Frame("a.py", "f", 1, "n = x.item()"))
    assert "capture_scalar_outputs" in shorts(item, {"dynamo": 1})[0]
    assert shorts(replace(item, through="library"))
    for through in ("generator", "method", "callback", "operator", "unknown"):
        assert not shorts(replace(item, through=through))
    assert not shorts(item, {"dynamo": 1, "xla": 1})
    assert not shorts(Eager("dynamo", item.reason, item.where))
    assert not shorts(Break("dynamo", "No reason that anybody knows", hints=("Use `f`.",)))


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_a_line_of_advice_is_short_and_plain(one: object) -> None:
    line = one.short  # type: ignore[attr-defined]
    assert 10 < len(line) <= 100, len(line)
    assert line.isascii()
    assert "\n" not in line
    assert not line.endswith(".")


def test_names_are_unique_and_can_be_typed() -> None:
    names = [one.name for one in ALL]
    names.remove("limit")  # one family, of breaks and of recompiles
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in names)


def test_no_sign_is_without_parts() -> None:
    """It would be found in everything."""
    signs = [sign for family in by_name().values() for sign in family.signs]
    assert len(signs) > 100
    assert all(sign.reason or sign.detail or sign.code for sign in signs)


@example("", "", ["."], "")
@given(st.text(), st.text(), st.lists(st.text()), st.text())
def test_any_text_has_one_line_of_advice_or_none(
    reason: str, explanation: str, hints: list[str], code: str
) -> None:
    where = Frame("a.py", "f", 1, code)
    items = (
        Break("dynamo", reason, where, explanation=explanation, hints=tuple(hints)),
        Eager("dynamo", reason, where),
        Recompile("dynamo", "0/1", reason, where),
        Graph("xla", "1", "split", reason=reason),
    )
    for item in items:
        for line in shorts(item):
            assert 0 < len(line) <= SHORT_LIMIT
            assert len(line.splitlines()) == 1
