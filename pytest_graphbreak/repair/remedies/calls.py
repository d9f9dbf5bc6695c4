"""Calls that Dynamo was told not to follow, or cannot follow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_graphbreak import advice
from pytest_graphbreak.model.record import Break, Frame
from pytest_graphbreak.repair import syntax
from pytest_graphbreak.repair.patch import Preamble, Rewrite, SourcePatch
from pytest_graphbreak.repair.trial import Trial

PURE: Final = (
    "zlib.crc32",
    "zlib.adler32",
    "binascii.crc32",
    "unicodedata.normalize",
    "textwrap.dedent",
)
"""C functions whose result is that of their arguments alone: a constant for constants."""
_CONSTANT: Final = """
def _graphbreak_{short}(*args, _call={name}):
    return _call(*args)


{name} = torch._dynamo.assume_constant_result(_graphbreak_{short})
""".strip()


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    family = advice.family(item)
    name = family.name if family else ""
    called = syntax.called(item.where.code)
    if name == "graph-break" or "graph_break" in item.where.code:
        yield SourcePatch(
            "the explicit graph break is gone", (Rewrite("drop_graph_break", item.where),)
        )
    if name == "disabled" or "disable" in item.reason:
        for function in called:
            last = function.rsplit(".", 1)[-1]
            for scope in _scopes(item.where.function, last):
                place = Frame(item.where.file, scope, 0, f"def {last}")
                yield SourcePatch(
                    f"{last} is compiled: no torch.compiler.disable", (Rewrite("enable", place),)
                )
    if name == "disallowed":
        for function in called:
            yield SourcePatch(
                f"{function} is allowed in the graph again",
                (Preamble(f"torch._dynamo.allow_in_graph({function})"),),
            )
    if any(function.rsplit(".", 1)[-1] == "groupby" for function in called):
        yield SourcePatch(
            "itertools.groupby is given its key by name", (Rewrite("group_key", item.where),)
        )
    for function in called:
        if function in PURE:
            module = function.rpartition(".")[0]
            yield SourcePatch(
                f"{function} of constants is a constant",
                (
                    Preamble(f"import {module}"),
                    Preamble(_CONSTANT.format(name=function, short=function.replace(".", "_"))),
                ),
            )


def _scopes(around: str, name: str) -> list[str]:
    """Qualified names that a function could have which is called in ``around``."""
    scopes = [name]
    parts = around.split(".")
    for count in range(len(parts), 0, -1):
        outer = ".".join(parts[:count])
        if outer in ("<module>", ""):
            continue
        scopes += [f"{outer}.<locals>.{name}", f"{outer}.{name}"]
    return list(dict.fromkeys(scopes))
