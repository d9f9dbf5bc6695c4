"""A source file as a tree of libcst: parsed once, searched for places, and written with changes.

Remedies use it to make a ``Change``, a function from the text of a file to its new text. Most do so
by ``rewriting``: it finds the statements at the line that broke, each as a ``Place``, and replaces
each by the line that the remedy, a ``Writer``, returns for it.

libcst gives nodes, and the places of these in the file. New text is put there line by line:
whatever is not replaced stays as it is, to the byte.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Final

import libcst as cst
from libcst import metadata
from msgspec import Struct

from pytest_graphbreak.model.items import Frame
from pytest_graphbreak.repair.patches import Change, UnfitError
from pytest_graphbreak.repair.sources import comments, lines

Statement = cst.SimpleStatementLine | cst.If
"""What remedies replace."""
Writer = Callable[["Place"], str]
"""Returns the line that replaces a statement, or "" to remove it. Raises ``UnfitError``."""
_LOOSE: Final = (
    *(cst.BinaryOperation, cst.BooleanOperation, cst.Comparison, cst.UnaryOperation),
    *(cst.IfExp, cst.Lambda, cst.Tuple, cst.NamedExpr),
)
"""Expressions that need parentheses before an operator or a dot: ``(a + b).double()``."""


class Tree(Struct, frozen=True, eq=False, dict=True):  # the dict holds cached properties
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
    def functions(self) -> Sequence[tuple[str, cst.FunctionDef]]:
        """All functions, each with its qualified name as Python writes it: ``main.<locals>.f``."""
        nodes = (node for node in walk([self.module]) if isinstance(node, cst.FunctionDef))
        return [(name, node) for node in nodes for name in self.names_of(node)]

    def names_of(self, node: cst.CSTNode) -> set[str]:
        """Return the qualified names that a node may have: ``torch.compile``, ``Model.forward``.

        An imported name has its module: ``compile`` is ``torch.compile`` after ``from torch import
        compile``. There are several where a name is set twice.
        """
        scope = self.scopes.get(node)
        return {x.name for x in scope.get_qualified_names_for(node)} if scope else set()

    def start(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return the line of the first character, from 1 on, and its column, from 0 on."""
        position = self.positions[node].start
        return position.line, position.column

    def end(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return the line of the last character, and the column behind it."""
        position = self.positions[node].end
        return position.line, position.column

    def replaced(self, changes: Mapping[cst.CSTNode, str]) -> str:
        """Return the source with expressions replaced, of which none is in another."""
        text = lines(self.source)
        # From the last to the first, so that the places of the others stay right.
        for node, new in sorted(
            changes.items(), key=lambda pair: self.start(pair[0]), reverse=True
        ):
            (first, column), (last, end) = self.start(node), self.end(node)
            head, tail = text[first - 1][:column], text[last - 1][end:]
            text[first - 1 : last] = [f"{head}{new}{tail}"]
        return "".join(text)


@lru_cache(maxsize=16)
def parse(source: str) -> Tree:
    """Parse a file; a large one takes a second. Raises ``UnfitError`` for what is no Python."""
    try:
        module = cst.parse_module(source)
    except (cst.ParserSyntaxError, RecursionError) as error:
        raise UnfitError(f"its file cannot be parsed: {str(error)[:80]}") from None
    # Safe, as no node of a parsed file is there twice; a copy would cost as much as the parsing.
    return Tree(source, metadata.MetadataWrapper(module, unsafe_skip_copy=True))


class Place(Struct, frozen=True, eq=False):
    """A statement in its function: what a ``Writer`` is given."""

    tree: Tree
    function: cst.FunctionDef
    node: Statement

    @property
    def returns(self) -> bool:
        """Whether it is a branch that returns: ``if t: return a``.

        What follows in the block is its other side. Where there is an ``else`` with a ``return`` it
        never runs.
        """
        branch = self.node if isinstance(self.node, cst.If) else None
        return branch is not None and isinstance(only(body(branch.body)[0]), cst.Return)

    @property
    def following(self) -> Sequence[cst.BaseStatement]:
        """The statements behind it in its block."""
        parent = self.tree.parents[self.node]
        block = parent.body if isinstance(parent, cst.IndentedBlock) else []
        number = next((at for at, line in enumerate(block) if line is self.node), len(block))
        return block[number + 1 :]


def places(source: str, where: Frame) -> list[Place]:
    """Return the statements of a function that hold a line, whatever its number.

    There may be several: in a record, lines of a function that read alike are one place.
    """
    tree, words = parse(source), where.code.split()
    hits = [at for at, line in enumerate(source.split("\n"), 1) if line.split() == words]
    return [
        Place(tree, function, node)
        for name, function in tree.functions
        if name == where.function
        for node in walk([function.body], inner=False)
        if isinstance(node, Statement) and any(at in _lines(tree, node) for at in hits)
    ]


def _lines(tree: Tree, node: Statement) -> range:
    """Return the lines of a statement, or of the test of a branch."""
    last = node.test if isinstance(node, cst.If) else node
    return range(tree.start(node)[0], tree.end(last)[0] + 1)


def rewriting(write: Writer, where: Frame) -> Change:
    """Return the change that replaces the statements at a line by another line, or removes them.

    Where a branch returns, what follows goes with it: the new line returns in any case.
    """

    def change(source: str) -> str | None:
        new: dict[cst.CSTNode, str] = {}
        for place in places(source, where):
            new[place.node] = write(place)
            if place.returns:
                new |= dict.fromkeys(place.following, "")
        return with_lines(parse(source), new) if new else None

    return change


def with_lines(tree: Tree, new: Mapping[cst.CSTNode, str]) -> str:
    """Return the file with statements or decorators replaced, each by a line, or removed by "".

    The comments in what goes stay, each on a line of its own.
    """
    text = lines(tree.source)
    for node, line in sorted(new.items(), key=lambda pair: tree.start(pair[0]), reverse=True):
        (first, column), (last, _) = tree.start(node), tree.end(node)
        margin, old = text[first - 1][:column], "".join(text[first - 1 : last])
        notes, parent = comments(textwrap.dedent(old)), tree.parents[node]
        if isinstance(parent, cst.If) and parent.orelse is node:  # an `elif`
            line = f"else:\n{margin}    {line}"
        elif not line and isinstance(parent, cst.IndentedBlock):
            line = "" if any(part not in new for part in parent.body) else "pass"  # no empty block
        text[first - 1 : last] = [f"{margin}{part}\n" for part in (*notes, line) if part]
    return "".join(text)


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
    """Return the text of a node, without space around it."""
    return cst.Module([]).code_for_node(node).strip()


def operand(node: cst.BaseExpression) -> str:
    """Return an expression as text that an operator or a method can follow."""
    text = code(node)
    return f"({text})" if isinstance(node, _LOOSE) and not node.lpar else text


def calls(node: cst.CSTNode) -> list[cst.Call]:
    """Return all calls in a node, also in nested functions."""
    return [part for part in walk([node]) if isinstance(part, cst.Call)]


def attribute_of(call: cst.Call) -> str:
    """Return ``item`` of ``x.item()``, or ``""``."""
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
