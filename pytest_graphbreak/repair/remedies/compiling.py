"""How a program compiles: a setting of torch lets more into a graph, or sizes become inputs of it.

Before::

    f = torch.compile(f, dynamic=False)
    y = f(x)

After, a line where the program compiles::

    torch._dynamo.config.capture_scalar_outputs = True

Or sizes as inputs: all of them, or those that vary, by a line for each argument above the call::

    f = torch.compile(f, dynamic=True)

    torch._dynamo.mark_dynamic(x, 0)
    y = f(x)

A ``SourcePatch`` is a change of one file that is tried by a run. Breaks are answered by settings
(``propose``), recompiles by sizes as inputs (``recompiles``). The changes work on a ``Tree``: a
file parsed by libcst, with the names that its nodes resolve to.

When not: a setting is for the whole process. On a device below Dynamo ``.item()`` as a node splits
the graph; ``print`` as a reordered function is lost where torch inlines the function that calls
it. Where the code needs a size as a number (``range(x.shape[0])``, ``if n % 2:``), it is compiled
for each; then pad to a few sizes, as on a device whose compiler takes fixed sizes only. A run that
shows any of this is refused. A graph of fixed sizes may be faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import libcst as cst

from pytest_graphbreak.model.items import Break
from pytest_graphbreak.repair.patches import Change, SourcePatch
from pytest_graphbreak.repair.remedies.tree import Tree, calls, code, parse, walk
from pytest_graphbreak.repair.sources import lines
from pytest_graphbreak.repair.trial import Trial

_COMPILE: Final = "torch.compile"
"""The name that a call or a decorator resolves to, however it was imported."""


def _with_line(title: str, line: str, note: str = "") -> SourcePatch:
    """Return the patch that puts a line where the program compiles (``_with_setting``)."""
    return SourcePatch(title, lambda source: _with_setting(parse(source), line), note=note)


def _switch(name: str, what: str) -> SourcePatch:
    """Return the patch that turns on a setting of Dynamo."""
    return _with_line(f"{name}: {what}", f"torch._dynamo.config.{name} = True")


def _reordered(name: str) -> SourcePatch:
    """Return the patch by which torch calls a function of output when the graph has run."""
    line = f"torch._dynamo.config.reorderable_logging_functions.add({name})"
    note = f"what {name} writes comes after the graph"
    return _with_line(f"{name} runs after the graph", line, note)


_NUMBERS: Final = _switch(
    "allow_unspec_int_on_nn_module", "numbers on modules are inputs of the graph"
)
SCALARS: Final = _switch("capture_scalar_outputs", ".item() becomes a node of the graph")
_SHAPES: Final = _switch(
    "capture_dynamic_output_shape_ops", "sizes that depend on values stay in the graph"
)
_RNN: Final = _switch("allow_rnn", "LSTM, GRU and RNN go into the graph")
_PATCH_OF_WORDS: Final = (
    (SCALARS, ("data", ".item", "tensor.item", "tolist", "branch")),
    (_SHAPES, ("dynamic shape", "nonzero", "unique", "mask")),
    (_reordered("print"), ("print(",)),
    (_reordered("warnings.warn"), ("warn(",)),
    (_RNN, ("lstm", "gru", "rnn")),
)
"""The words of a break, or of its line, for which a setting may help.

"Data-dependent branching" is tried with ``SCALARS``, ``x.nonzero()`` with ``_SHAPES``,
``print(x)`` and ``warnings.warn("a")`` with torch's reordering, ``self.lstm(x)`` with ``_RNN``. A
word too many costs a run of the program, no more.
"""


def propose(item: Break, trial: Trial) -> Iterator[SourcePatch]:
    """Propose the settings whose words a break has."""
    text = " ".join((item.reason, item.where.code, item.explanation, *item.hints)).lower()
    yield from (patch for patch, words in _PATCH_OF_WORDS if any(word in text for word in words))


def recompiles(trial: Trial) -> Iterator[SourcePatch]:
    """Propose to make numbers of modules inputs, then all sizes in calls, then those that vary.

    A callable of the program has the sizes that vary in ``trial.varies``: for ``batch['ids']`` with
    [0, 1] it is called as ``f(x, batch=y)``, and ``y['ids']`` is marked above that call.
    """
    yield _NUMBERS
    title = "dynamic=True: sizes and numbers are inputs of the graph"
    yield SourcePatch(title, as_dynamic)
    for called in trial.varies:
        for name, dims in called.dims.items():
            text = str(dims[0] if len(dims) == 1 else dims)
            base, bracket, key = name.partition("[")
            if base in called.parameters:
                place = called.parameters.index(base)
                change = marking(place, base, bracket + key, text)
                title = f"mark_dynamic for the sizes that vary: {name} {text}"
                yield SourcePatch(title, change)


def as_dynamic(source: str) -> str | None:
    """Return a file in which ``dynamic=True`` is an argument of each call of ``torch.compile``."""
    tree = parse(source)
    changes: dict[cst.CSTNode, str]
    changes = {call: code(_with_dynamic(call)) for call in compile_calls(tree)}
    return tree.replaced(changes) if changes else None


def _with_dynamic(call: cst.Call) -> cst.Call:
    """Return a call with ``dynamic=True`` as its last argument, and no other ``dynamic``."""
    arguments = [x for x in call.args if x.keyword is None or x.keyword.value != "dynamic"]
    if arguments:
        arguments[-1] = arguments[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    argument = cst.ensure_type(cst.parse_expression("f(dynamic=True)"), cst.Call).args[0]
    return call.with_changes(args=[*arguments, argument])


def marking(place: int, name: str, key: str, dims: str) -> Change:
    """Return the change that marks sizes of an argument above each call of what is compiled.

    The argument is a variable at its ``place``, or given by its ``name``; ``key`` is what leads
    from there to the tensor: ``['ids']``.
    """

    def change(source: str) -> str | None:
        tree = parse(source)
        lines: dict[cst.CSTNode, str] = {}
        for call in calls_of_compiled(tree):
            keywords = [x.value for x in call.args if x.keyword and x.keyword.value == name]
            values = [*keywords, *(x.value for x in call.args[place : place + 1] if not x.keyword)]
            if values and isinstance(values[0], cst.Name):
                text = f"torch._dynamo.mark_dynamic({values[0].value}{key}, {dims})"
                lines[call] = text
        return insert(tree, lines) if lines else None

    return change


def compile_calls(tree: Tree) -> list[cst.Call]:
    """Return the calls of ``torch.compile``, also as a decorator with options."""
    return [call for call in calls(tree.module) if _COMPILE in tree.names_of(call.func)]


def calls_of_compiled(tree: Tree) -> list[cst.Call]:
    """Return the calls of what the file compiles.

    ``g(x)`` after ``g = torch.compile(f)``, ``f(x)`` of a decorated ``f``, ``torch.compile(f)(x)``.
    """
    compiled = compile_calls(tree)
    names = set[str]()
    for node in walk([tree.module]):
        if isinstance(node, cst.Assign) and node.value in compiled:
            names |= {code(target.target) for target in node.targets}
        elif isinstance(node, cst.FunctionDef) and any(
            _is_compile(x, tree) for x in node.decorators
        ):
            names.add(node.name.value)
    return [
        call for call in calls(tree.module) if call.func in compiled or code(call.func) in names
    ]


def _with_setting(tree: Tree, setting: str) -> str:
    """Return a file with a line above the first statement that compiles.

    A decorator compiles, too: the line is above the outermost function or class around it. In a
    file that compiles nothing it is below the first import of torch. A module that the line needs
    and the file does not import has a line of its own.
    """
    needed = [name for name in ("torch", "warnings") if f"{name}." in setting]
    new = [*(f"import {name}" for name in needed if not _imports(tree, name)), setting]
    kinds = cst.Call | cst.Decorator
    uses = [x for x in walk([tree.module]) if isinstance(x, kinds) and _is_compile(x, tree)]
    if uses:
        return insert(tree, {uses[0]: "\n".join(new)})
    text = lines(tree.source)
    at = _below_imports(tree)
    text[at:at] = [f"{line}\n" for line in new]
    return "".join(text)


def insert(tree: Tree, new: Mapping[cst.CSTNode, str]) -> str:
    """Return a file with lines added above the statements of nodes, indented like these.

    A line that several nodes of one statement have is there once. The last place comes first, so
    that the lines of the others keep their numbers.
    """
    text = lines(tree.source)
    places: dict[tuple[int, int], list[str]] = {}
    for node, added in new.items():
        parts = places.setdefault(_start(node, tree), [])
        parts += [part for part in added.split("\n") if part not in parts]
    for (line, column), parts in sorted(places.items(), reverse=True):
        margin = text[line - 1][:column]
        text[line - 1 : line - 1] = [f"{margin}{part}\n" for part in parts]
    return "".join(text)


def _is_compile(node: cst.Call | cst.Decorator, tree: Tree) -> bool:
    """Return whether it is ``torch.compile(f)``, ``@torch.compile`` or ``@torch.compile(...)``."""
    called = node.decorator if isinstance(node, cst.Decorator) else node
    called = called.func if isinstance(called, cst.Call) else called
    return _COMPILE in tree.names_of(called)


def _start(node: cst.CSTNode, tree: Tree) -> tuple[int, int]:
    """Return where the statement of a node begins, with its decorators.

    A decorator, and what is in one, belongs to the outermost function or class around it.
    """
    statement, in_decorator = node, isinstance(node, cst.Decorator)
    while not isinstance(parent := tree.parents[statement], cst.Module):
        if isinstance(parent, cst.IndentedBlock) and not in_decorator:
            break
        statement = parent
        in_decorator |= isinstance(statement, cst.Decorator)
    decorators = (
        statement.decorators if isinstance(statement, cst.FunctionDef | cst.ClassDef) else ()
    )
    return tree.start(decorators[0] if decorators else statement)


def _imports(tree: Tree, name: str) -> bool:
    """Return whether the file imports a module by its name."""
    imports = (alias for x in walk([tree.module]) if isinstance(x, cst.Import) for alias in x.names)
    return any((x.evaluated_alias or x.evaluated_name.partition(".")[0]) == name for x in imports)


def _below_imports(tree: Tree) -> int:
    """Return the number of lines down to the first import of torch.

    Without one, down to where it may stand: behind the docstring and ``from __future__``.
    """
    last, text_lines = 0, lines(tree.source)
    for at, statement in enumerate(tree.module.body):
        text = text_lines[tree.start(statement)[0] - 1]  # its first line, below its comments
        if text.startswith(("import torch", "from torch")):
            return tree.end(statement)[0]
        if (at == 0 and text.startswith(('"', "'", 'r"'))) or text.startswith("from __future__"):
            last = tree.end(statement)[0]
    return last
