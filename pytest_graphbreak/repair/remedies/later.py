"""A line that only writes is run when the graph has run: print, a warning, a logger, a list.

Before::

    def step(x, y):
        loss = mse_loss(model(x), y)
        losses.append(loss.item())
        return loss

After::

    @torch.compiler.disable
    def _graphbreak_line_13(loss):
        losses.append(loss.item())

    torch._dynamo.config.reorderable_logging_functions.add(_graphbreak_line_13)

    def step(x, y):
        loss = mse_loss(model(x), y)
        _graphbreak_line_13(loss)
        return loss

torch calls no such function for code that it inlines into another function: there the line is noted
with copies of its tensors, and written when the compiled call ends.

When not: where the code reads what it writes (``len(losses)``), or the line needs more than
tensors, numbers and texts: ``self.log(x)``. It comes later than other side effects of the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import libcst as cst
from libcst import matchers as m
from libcst import metadata

from pytest_graphbreak.model.record import Break, Frame
from pytest_graphbreak.repair.patch import Edit, Preamble, Rewrite, SourcePatch, UnfitError
from pytest_graphbreak.repair.rewrite.helpers import around, helper
from pytest_graphbreak.repair.rewrite.names import changing, computes, draws, imports
from pytest_graphbreak.repair.rewrite.tree import (
    Place,
    Tree,
    body,
    code,
    function,
    only,
    places,
    rewriting,
    statements,
    walk,
)
from pytest_graphbreak.repair.trial import Trial

if TYPE_CHECKING:
    import torch

LEVELS: Final = ("debug", "info", "warning", "error", "exception", "critical", "log")
"""Methods of a logger."""
_LOGS: Final = m.Call(func=m.Attribute(attr=m.OneOf(*map(m.Name, LEVELS))))
_WRITES: Final = {"builtins.print", "warnings.warn"}
_NOTES: Final = Preamble(
    "_graphbreak_notes = []\n_graphbreak_open = False\n"
    "_graphbreak_write = torch.compiler.disable(_graphbreak_write)"
)
_REORDERED: Final = "torch._dynamo.config.reorderable_logging_functions.add"


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    source, here = trial.source(item.where), item.where
    output = lines_of(source, here) if source else None
    if output is None:
        return
    name = f"_graphbreak_line_{here.line}"
    passing = (helper(_graphbreak_given),) if output.numbers else ()
    if here.function in trial.roots:
        order = Preamble(f"{_REORDERED}({name})")
        edits: tuple[Edit, ...] = (*passing, Preamble(output.definition(name)), order)
        moves = "written when the graph has run, not in the middle of it"
        yield from _patches("after the graph", edits, AFTER, here, moves)
    parts = (
        helper(_graphbreak_note),
        helper(_graphbreak_write),
        _NOTES,
        *around(_graphbreak_flush),
    )
    moves = "written when the compiled call ends, not in the middle of it"
    edits = (*passing, *parts, Preamble(output.definition(name)))
    yield from _patches("when the compiled call ends", edits, NOTED, here, moves)


def _patches(
    when: str, edits: tuple[Edit, ...], change: Any, where: Frame, moves: str
) -> Iterator[SourcePatch]:
    """Yield the patch for a line, and for what an ``if`` does beside what it writes."""
    from pytest_graphbreak.repair.remedies import cond
    from pytest_graphbreak.repair.remedies import where as chosen

    both = (*edits, Rewrite(change, where, helper=True))
    yield SourcePatch(f"the line is written {when}", both, moves=moves)
    if where.code.startswith("if "):
        for name, rewrite in (("where", chosen.CHANGE), ("cond", cond.CHANGE)):
            title = f"what the branch writes is written {when}, the rest is torch.{name}"
            yield SourcePatch(title, (*both, Rewrite(rewrite, where)), moves=moves)


@dataclass(frozen=True)
class Written:
    """The part of a statement that only writes, and what the function passes to it."""

    line: cst.BaseStatement
    rest: Sequence[cst.BaseStatement]
    given: dict[str, str]
    """The names that it reads, with the text that passes each."""
    numbers: tuple[str, ...]
    """Those that may be numbers of Python."""

    def definition(self, name: str) -> str:
        back = [f"{name} = {name}.item() if {name}_is_number else {name}" for name in self.numbers]
        names = [
            f"{name}, {name}_is_number" if name in self.numbers else name for name in self.given
        ]
        lines = [*statements("\n".join(back)), self.line.with_changes(leading_lines=[])]
        head = f"{name}({', '.join(names)})"
        return f"@torch.compiler.disable\n{code(function(head, lines))}"


@lru_cache(maxsize=64)
def lines_of(source: str, where: Frame) -> Written | None:
    """Return what the statement at a place writes, or None if it does anything else."""
    try:
        hits = places(source, where)
        return written(hits[0]) if hits else None
    except UnfitError:
        return None


def written(place: Place) -> Written:
    """Return the part of a statement that only writes. Raises ``UnfitError``."""
    node = place.node
    line, remainder = node, list[cst.BaseStatement]()
    if isinstance(node, cst.If) and isinstance(node.body, cst.IndentedBlock) and not node.orelse:
        ours = [
            statement
            for statement in node.body.body
            if _writes(statement, place) or _prepares(statement, place)
        ]
        others = [statement for statement in node.body.body if statement not in ours]
        line = node.with_changes(body=cst.IndentedBlock(ours), leading_lines=[])
        remainder = [node.with_changes(body=cst.IndentedBlock(others))] if others else []
        if not any(_writes(statement, place) for statement in ours):
            raise UnfitError("it does more than write")
    elif isinstance(node, cst.If) and isinstance(node.orelse, cst.Else):
        ours = [*body(node.body), *body(node.orelse.body)]
        if not all(_writes(statement, place) for statement in ours):
            raise UnfitError("it does more than write")
        line = node.with_changes(leading_lines=[])
    elif not _writes(node, place):
        raise UnfitError("it does more than write")
    if call := draws([line]):
        raise UnfitError(f"`{call}` draws random numbers, which would have another order then")
    parts = [node.test, *ours] if isinstance(node, cst.If) else [node]
    return Written(line, remainder, *_given(parts, place))


def _writes(node: cst.BaseStatement, place: Place) -> bool:
    """Return whether a line only writes: output, or to an object that no function reads."""
    statement = only(node)
    if isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call):
        names = place.tree.names_of(statement.value.func)
        if names & _WRITES or m.matches(statement.value, _LOGS):
            return True
        target: cst.CSTNode = statement.value.func
    elif isinstance(statement, cst.AugAssign) and isinstance(statement.target, cst.Subscript):
        target = statement.target
    else:
        return False
    return isinstance(target, cst.Attribute | cst.Subscript) and _is_only_written(
        target.value, place.tree
    )


def _is_only_written(node: cst.CSTNode, tree: Tree) -> bool:
    """Return whether a node is a variable of the module that functions use here only."""
    while isinstance(node, cst.Attribute | cst.Subscript):
        node = node.value
    access = tree.accesses.get(node)
    module = tree.scopes[tree.module]
    if (
        access is None
        or not access.referents
        or any(x.scope is not module for x in access.referents)
    ):
        return False
    uses = {use.node for x in access.referents for use in x.references if use.scope is not module}
    return uses == {node} and isinstance(node, cst.Name) and node.value not in imports(tree)


def _prepares(node: cst.BaseStatement, place: Place) -> bool:
    """Return whether a line computes a value for what is written beside it, and no more."""
    statement = only(node)
    if not isinstance(statement, cst.Assign) or not computes(statement.value):
        return False
    names = [
        target.target.value for target in statement.targets if isinstance(target.target, cst.Name)
    ]
    nodes = set(walk([place.node]))
    scope = place.tree.scopes[place.function.body]
    uses = [x.node for name in names if scope for a in scope[name] for x in a.references]
    return len(names) == len(statement.targets) and all(use in nodes for use in uses)


def _given(parts: Sequence[cst.CSTNode], place: Place) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the names that a line reads, each with what is passed, and those that may be numbers.

    What has a method or an attribute is a tensor. It is copied where code of the file may change
    one in place before the graph has run.
    """
    tree, nodes = place.tree, set(walk(parts))
    functions = [function for _, function in tree.functions]
    changes = bool(changing(functions)) or bool(changing(list(tree.module.body)))
    arguments, numbers = dict[str, str](), []
    for node in nodes:
        name = node.value if isinstance(node, cst.Name) and node in tree.accesses else ""
        if not name or _is_fixed(node, tree) or _is_own(tree.accesses[node], nodes):
            continue
        has_attribute = isinstance(tree.parents[node], cst.Attribute)
        copy = f"{name}.clone() if isinstance({name}, torch.Tensor) else {name}"
        arguments[name] = copy if changes and has_attribute else arguments.get(name, name)
        numbers += [] if has_attribute else [name]
    sure = {
        n.value
        for n in nodes
        if isinstance(n, cst.Name) and isinstance(tree.parents[n], cst.Attribute)
    }
    variables = tuple(dict.fromkeys(name for name in numbers if name not in sure))
    copies = ", True" if changes else ""
    arguments |= {name: f"*_graphbreak_given({name}{copies})" for name in variables}
    return dict(sorted(arguments.items())), variables


def _is_own(access: metadata.Access, nodes: set[cst.CSTNode]) -> bool:
    """Return whether the line itself binds what it reads."""
    return any(getattr(referent, "node", None) in nodes for referent in access.referents)


def _is_fixed(node: cst.CSTNode, tree: Tree) -> bool:
    """Return whether a name is the same later: a builtin, an import, what the line writes to."""
    access, module = tree.accesses[node], tree.scopes[tree.module]
    if any(referent.scope is not module for referent in access.referents):
        return not any(hasattr(referent, "node") for referent in access.referents)
    nodes = [getattr(referent, "node", None) for referent in access.referents]
    defined = cst.Import | cst.ImportFrom | cst.FunctionDef | cst.ClassDef
    logs = isinstance(tree.parents[node], cst.Attribute) and m.matches(
        tree.parents[tree.parents[node]], _LOGS
    )
    return all(isinstance(x, defined) for x in nodes) or logs or _is_only_written(node, tree)


def to_later(place: Place) -> Sequence[cst.BaseStatement]:
    output = written(place)
    call = f"_graphbreak_line_{place.where.line}({', '.join(output.given.values())})"
    return [*statements(call), *output.rest]


def to_noted(place: Place) -> Sequence[cst.BaseStatement]:
    output = written(place)
    arguments = ", ".join(output.given.values())
    call = f"_graphbreak_note(_graphbreak_line_{place.where.line}, [{arguments}])"
    return [*statements(call), *output.rest]


AFTER: Final = rewriting(to_later)
NOTED: Final = rewriting(to_noted)


_graphbreak_notes: list[Any] = []
_graphbreak_open = False


def _graphbreak_given(value: Any, copies: bool = False) -> Any:
    """Return a value for a function that is called later, and whether it was a number."""
    if isinstance(value, torch.Tensor):
        return value.clone() if copies else value, False
    if type(value) is float:
        return torch.tensor(value, dtype=torch.float64), True
    if type(value) is int:
        return torch.tensor(value, dtype=torch.int64), True
    return value, False


def _graphbreak_note(write: Any, arguments: Any) -> None:
    """Note a function and what it is given; call it now if no compiled call will end."""
    simple = (torch.Tensor, str, int, float, type(None))
    copyable = all(isinstance(value, simple) for value in arguments)
    if _graphbreak_open and torch.compiler.is_compiling() and copyable:
        _graphbreak_notes.append(
            (
                write.__name__,
                [
                    value.clone() if isinstance(value, torch.Tensor) else value
                    for value in arguments
                ],
            )
        )
    else:
        _graphbreak_notes.append((write.__name__, arguments))
        _graphbreak_write()


def _graphbreak_write() -> None:
    """Write what is noted, in its order."""
    notes = _graphbreak_notes[:]
    _graphbreak_notes.clear()
    for write, arguments in notes:
        globals()[write](*arguments)


def _graphbreak_flush(model: Any, inner: Any) -> Any:
    """Write what is noted in a call when it ends."""

    def call(*args: Any, **kwargs: Any) -> Any:
        global _graphbreak_open
        before, _graphbreak_open = _graphbreak_open, True
        try:
            return inner(*args, **kwargs)
        finally:
            _graphbreak_open = before
            _graphbreak_write()

    return call
