"""Remedies for calls that Dynamo does not follow, because of its configuration or its limits.

A call that it cannot follow becomes one node of the graph: ``nonstrict_trace`` or a custom op.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_graphbreak import advice
from pytest_graphbreak.model.record import Break, Frame
from pytest_graphbreak.repair import pure
from pytest_graphbreak.repair.patch import Edit, Preamble, SourcePatch
from pytest_graphbreak.repair.remedies.breaks import inside
from pytest_graphbreak.repair.remedies.by_kind import by_kind
from pytest_graphbreak.repair.remedies.numbers import READ
from pytest_graphbreak.repair.remedies.programs import OPERATOR
from pytest_graphbreak.repair.source import called
from pytest_graphbreak.repair.trial import Trial

_CONSTANT_CALLS: Final = (
    "zlib.crc32",
    "zlib.adler32",
    "binascii.crc32",
    "unicodedata.normalize",
    "textwrap.dedent",
)
"""C functions whose result depends only on their arguments: constant for constant arguments."""
_SYSTEM: Final = ("time", "datetime", "os", "sys", "random", "uuid", "math")
"""Modules whose functions neither take tensors nor return values that are computed from them."""
_CONSTANT: Final = """
def _graphbreak_{short}(*args, _call={name}):
    return _call(*args)


{name} = torch._dynamo.assume_constant_result(_graphbreak_{short})
""".strip()
_FOLLOWED: Final = frozenset(
    {
        "builtin",
        "c-call",
        "class",
        "context",
        "deepcopy",
        "generator",
        "import",
        "loop-break",
        "numpy",
        "pointer",
        "python-object",
        "script",
        "sort",
    }
)
"""Families where Dynamo could not follow a call; an opaque node hides that call from it."""
_READ: Final = READ - {"unbacked"}
"""Families where values are read; only code that runs in every call, with the values, can help."""
_RESULTS: Final = {"op": "like its first argument", "scalar_op": "a scalar"}


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose to allow the calls of the line that Dynamo was told not to follow."""
    name, functions = advice.name(item), called(item.where.code)
    if name == "graph-break" or "graph_break" in item.where.code:
        yield SourcePatch(
            "the explicit graph break is gone", (by_kind("drop_graph_break", item.where),)
        )
    if name == "disabled" or "disable" in item.reason:
        for function in functions:
            last = function.rsplit(".", 1)[-1]
            for scope in _scopes(item.where.function, last):
                place = Frame(item.where.file, scope, 0, f"def {last}")
                yield SourcePatch(
                    f"{last} is compiled: no torch.compiler.disable", (by_kind("enable", place),)
                )
    if name == "disallowed":
        for function in functions:
            yield SourcePatch(
                f"{function} is allowed in the graph again",
                (Preamble(f"torch._dynamo.allow_in_graph({function})"),),
            )
    if any(function.rsplit(".", 1)[-1] == "groupby" for function in functions):
        yield SourcePatch(
            "itertools.groupby is given its key by name", (by_kind("group_key", item.where),)
        )
    for function in functions:
        if function in _CONSTANT_CALLS:
            load = Preamble(f"import {function.rpartition('.')[0]}")
            make = _CONSTANT.format(name=function, short=function.replace(".", "_"))
            yield SourcePatch(f"{function} of constants is a constant", (load, Preamble(make)))


def _scopes(around: str, name: str) -> list[str]:
    """Return the qualified names that a function called in ``around`` could have."""
    scopes = [name]
    parts = around.split(".")
    for count in range(len(parts), 0, -1):
        outer = ".".join(parts[:count])
        if outer not in ("<module>", ""):
            scopes += [f"{outer}.<locals>.{name}", f"{outer}.{name}"]
    return list(dict.fromkeys(scopes))


def opaque(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose to turn code that Dynamo cannot follow into one node of the graph."""
    name = advice.name(item)
    if name and name not in _FOLLOWED | _READ:
        return
    if name not in _READ:
        yield from _imported(item, trial)
    traces = name not in _READ and trial.torch >= (2, 7)  # 2.7 has nonstrict_trace
    for frame in inside(item, trial)[:2]:
        yield from _around(frame, trial, traces)


def _around(frame: Frame, trial: Trial, traces: bool) -> Iterator[SourcePatch]:
    """Propose to make the function of a frame one node."""
    short = frame.function.rsplit(".", 1)[-1]
    source = trial.source(frame)
    function = pure.find(source, frame.function) if source else None
    if function is None:
        return
    if traces:
        certain = pure.is_pure(function, pure.imports(source))
        yield SourcePatch(
            f"nonstrict_trace: {short} is one node of Dynamo's graph",
            (by_kind("nonstrict", frame),),
            drops=""
            if certain
            else f"what {short} does or reads besides its arguments happens once, "
            "when it is compiled",
        )
    if pure.parameters(function)[:1] not in (["self"], ["cls"]):
        for kind in _RESULTS:
            yield _custom_op(short, kind, by_kind(kind, frame))


def _imported(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose to make each function of another module that the line calls one node."""
    source = trial.source(item.where)
    known = pure.imports(source) if source else {}
    for function in dict.fromkeys(called(item.where.code)):
        first, _, rest = function.partition(".")
        full = ".".join(part for part in (known.get(first, ""), rest) if part)
        module = full.rpartition(".")[0]
        theirs = known.get(first) and module and module.partition(".")[0] not in ("torch", *_SYSTEM)
        if theirs and module != "numpy.random" and full not in _CONSTANT_CALLS:
            for kind in _RESULTS:
                wrap = Preamble(f"{full} = _graphbreak_{kind}({full})")
                yield _custom_op(full, kind, wrap, Preamble(f"import {module}"))


def _custom_op(name: str, kind: str, edit: Edit, *before: Edit) -> SourcePatch:
    return SourcePatch(
        f"a custom op: {name}, uncompiled inside of the graph, gives {_RESULTS[kind]}",
        (*before, OPERATOR, edit),
        note=f"{name} runs as it is, inside of the graph; its gradients are not known",
    )
