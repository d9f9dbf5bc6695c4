"""A source file as a tree of libcst: parsed once, searched for places, and written with changes.

Whatever is not replaced stays as it is, to the byte.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Final, TypeVar

import libcst as cst
from libcst import metadata
from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.patch import Change, UnfitError

Node = TypeVar("Node", bound=cst.CSTNode)
Block = cst.If | cst.While | cst.For
Statement = cst.SimpleStatementLine | Block
Writer = Callable[["Place"], Sequence[cst.BaseStatement]]
"""Returns the statements that replace the one at a place. Raises ``UnfitError``."""
BLOCKS: Final = (cst.If, cst.While, cst.For)
_COMPOUND: Final = (cst.BinaryOperation, cst.BooleanOperation, cst.Comparison, cst.UnaryOperation)
_LOOSE: Final = (*_COMPOUND, cst.IfExp, cst.Lambda, cst.Tuple, cst.NamedExpr)


class Tree(Struct, frozen=True, eq=False, dict=True):
    """A parsed file with what libcst knows about it."""

    source: str
    wrapper: metadata.MetadataWrapper

    @property
    def module(self) -> cst.Module:
        return self.wrapper.module

    @cached_property
    def positions(self) -> Mapping[cst.CSTNode, metadata.CodeRange]:
        return self.wrapper.resolve(metadata.PositionProvider)

    @cached_property
    def scopes(self) -> Mapping[cst.CSTNode, metadata.Scope | None]:
        return self.wrapper.resolve(metadata.ScopeProvider)

    @cached_property
    def parents(self) -> Mapping[cst.CSTNode, cst.CSTNode]:
        return self.wrapper.resolve(metadata.ParentNodeProvider)

    @cached_property
    def accesses(self) -> Mapping[cst.CSTNode, metadata.Access]:
        """Every name that is read, by its node."""
        scopes = {scope for scope in self.scopes.values() if scope is not None}
        return {access.node: access for scope in scopes for access in scope.accesses}

    @cached_property
    def functions(self) -> Sequence[tuple[str, cst.FunctionDef]]:
        """All functions, each with its qualified name as Python writes it."""
        nodes = (node for node in walk([self.module]) if isinstance(node, cst.FunctionDef))
        return [(name, node) for node in nodes for name in self.names_of(node)]

    def names_of(self, node: cst.CSTNode) -> set[str]:
        """Return the qualified names that a node may have: ``torch.compile``, ``Model.forward``."""
        scope = self.scopes.get(node)
        return {x.name for x in scope.get_qualified_names_for(node)} if scope else set()

    def start(self, node: cst.CSTNode) -> tuple[int, int]:
        position = self.positions[node].start
        return position.line, position.column

    def end(self, node: cst.CSTNode) -> tuple[int, int]:
        position = self.positions[node].end
        return position.line, position.column

    def replaced(self, changes: Mapping[cst.CSTNode, Sequence[cst.CSTNode]]) -> str:
        """Return the source with nodes replaced, each by some of its kind."""
        changed = self.module.visit(_Replacing(changes))
        assert isinstance(changed, cst.Module)
        return changed.code


@lru_cache(maxsize=16)
def parse(source: str) -> Tree:
    """Parse a file; a large one takes a second. Raises ``UnfitError`` for what is no Python."""
    try:
        module = cst.parse_module(source)
    except (cst.ParserSyntaxError, RecursionError) as error:
        raise UnfitError(f"its file cannot be parsed: {str(error)[:80]}") from None
    return Tree(source, metadata.MetadataWrapper(module, unsafe_skip_copy=True))


class Place(Struct, frozen=True, eq=False):
    """A statement in its function."""

    tree: Tree
    function: cst.FunctionDef
    node: Statement
    where: Frame

    @property
    def following(self) -> Sequence[cst.BaseStatement]:
        """The statements behind it in its block."""
        parent = self.tree.parents[self.node]
        block = parent.body if isinstance(parent, cst.IndentedBlock) else []
        number = next((at for at, line in enumerate(block) if line is self.node), len(block))
        return block[number + 1 :]


def places(source: str, where: Frame) -> list[Place]:
    """Return the statements that hold a line: in a record, lines that read alike are one place."""
    tree, words = parse(source), where.code.split()
    hits = [at for at, line in enumerate(source.split("\n"), 1) if line.split() == words]
    return [
        Place(tree, function, node, where)
        for name, function in tree.functions
        if name == where.function
        for node in walk([function.body], inner=False)
        if isinstance(node, Statement) and any(at in _lines(tree, node) for at in hits)
    ]


def _lines(tree: Tree, node: Statement) -> range:
    """Return the lines of a statement, or of what is before its body."""
    first, last = tree.start(node)[0], tree.end(node)[0]
    if isinstance(node, BLOCKS):
        last = max(first, tree.start(node.body)[0] - 1)
        if isinstance(node.body, cst.IndentedBlock):
            last = max(first, tree.start(node.body.body[0])[0] - 1)
    return range(first, last + 1)


def innermost(places: Sequence[Place], kinds: type | tuple[type, ...]) -> list[Place]:
    """Return the innermost statement of some kinds that is, or is around, each place."""
    nodes: dict[cst.CSTNode, Place] = {}
    for place in places:
        node: cst.CSTNode = place.node
        while not isinstance(node, kinds) and node is not place.function:
            node = place.tree.parents[node]
        if isinstance(node, Statement):
            nodes[node] = replace(place, node=node)
    return list(nodes.values())


def rewriting(write: Writer, kinds: type | tuple[type, ...] = ()) -> Change:
    """Return the change of a file that replaces the statements at a place.

    With ``kinds`` these are the innermost statements of such kinds around it.
    """

    @lru_cache(maxsize=256)
    def change(source: str, where: Frame) -> str | None:
        hits = places(source, where)
        hits = innermost(hits, kinds) if kinds else hits
        changes: dict[cst.CSTNode, list[cst.CSTNode]] = {}
        for place in hits:
            new = changes[place.node] = _fit(place, write(place))
            if new and isinstance(only(new[-1]), cst.Return):  # what is behind it never runs
                changes |= {gone: [] for gone in place.following}
        return hits[0].tree.replaced(changes) if hits else None

    return change


def _fit(place: Place, new: Sequence[cst.BaseStatement]) -> list[cst.CSTNode]:
    """Return statements in the place of one: below its comments, or below an ``else``."""
    node, parent = place.node, place.tree.parents[place.node]
    if isinstance(parent, cst.If) and parent.orelse is node:
        return [cst.Else(cst.IndentedBlock(list(new)))]
    if not new:
        alone = isinstance(parent, cst.IndentedBlock) and len(parent.body) == 1
        return [statements("pass")[0]] if alone else []
    lines = [*node.leading_lines, *getattr(new[0], "leading_lines", ())]
    return [new[0].with_changes(leading_lines=lines), *new[1:]]


class _Replacing(cst.CSTTransformer):
    def __init__(self, changes: Mapping[cst.CSTNode, Sequence[cst.CSTNode]]) -> None:
        super().__init__()
        self._changes = changes

    def on_leave(self, original: cst.CSTNode, updated: cst.CSTNode) -> object:  # type: ignore[override]
        new = self._changes.get(original)
        if new is None:
            return super().on_leave(original, updated)
        return new[0] if len(new) == 1 else cst.FlattenSentinel(new)


def replace_nodes(node: Node, changes: Mapping[cst.CSTNode, cst.CSTNode]) -> Node:
    """Return a node with others inside of it replaced."""
    result = node.visit(_Replacing({old: [new] for old, new in changes.items()}))
    assert isinstance(result, cst.CSTNode)
    return result


def walk(nodes: Sequence[cst.CSTNode], *, inner: bool = True) -> Iterator[cst.CSTNode]:
    """Yield nodes and all inside of them; unless ``inner``, not what is in nested functions."""
    for node in nodes:
        yield node
        if inner or not isinstance(node, cst.FunctionDef | cst.ClassDef | cst.Lambda):
            yield from walk(node.children, inner=inner)


def body(suite: cst.BaseSuite) -> Sequence[cst.BaseStatement]:
    """Return the statements of a block, also of one behind a colon: ``if x: return y``."""
    if isinstance(suite, cst.SimpleStatementSuite):
        return [cst.SimpleStatementLine([statement]) for statement in suite.body]
    assert isinstance(suite, cst.IndentedBlock)
    return suite.body


def only(node: cst.CSTNode) -> cst.BaseSmallStatement | None:
    """Return what a line does if it is one statement: ``x = 1``."""
    single = isinstance(node, cst.SimpleStatementLine) and len(node.body) == 1
    return node.body[0] if single else None  # type: ignore[attr-defined]


def code(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node).strip()


def operand(node: cst.BaseExpression) -> str:
    """Return an expression as text that an operator or a method can follow."""
    text = code(node)
    return f"({text})" if isinstance(node, _LOOSE) and not node.lpar else text


def statements(text: str) -> list[cst.BaseStatement]:
    return list(cst.parse_module(textwrap.dedent(text).strip() + "\n").body)


def function(head: str, lines: Sequence[cst.BaseStatement]) -> cst.FunctionDef:
    """Return ``def HEAD:`` with a body."""
    (definition,) = statements(f"def {head}:\n    pass")
    assert isinstance(definition, cst.FunctionDef)
    return definition.with_changes(body=cst.IndentedBlock(list(lines)))


def calls(node: cst.CSTNode) -> list[cst.Call]:
    return [part for part in walk([node]) if isinstance(part, cst.Call)]


def attribute_of(call: cst.Call) -> str:
    """Return ``item`` of ``x.item()``, or ``""``."""
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
