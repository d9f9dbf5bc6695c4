"""Rewrites a loop that makes indices for each row of a table as indices for all rows at once.

``for t, h, w in grid.tolist():`` reads the numbers, and is unrolled: each number of rows is
compiled. Where the body only works out indices from the numbers, they can be tensors.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from pytest_graphbreak.repair.rewrite.row import Appended, EitherTerm, RowBody, Table
from pytest_graphbreak.repair.rewrite.scope import Surroundings, UnfitError

_AT = ast.Name("_at")


def to_all_rows(node: ast.stmt, place: Surroundings) -> list[str]:
    """Rewrite a loop over the rows of ``table.tolist()`` that appends indices to one list.

    ``return torch.cat(list)`` has to follow it. Sizes are checked in the graph: what does not fit
    raises ``RuntimeError``. Raises ``UnfitError``.
    """
    if not isinstance(node, ast.For) or node.orelse:
        raise UnfitError("it is no loop over rows")
    tables = _tables(node)
    columns = [name for _, names, _ in tables for name in names]
    if len(set(columns)) < len(columns):
        raise UnfitError("two numbers of a row have one name")
    row = RowBody({name: ast.Name(name) for name in columns})
    name, value = row.appended(node.body)
    then = ast.unparse(place.then) if place.then is not None else ""
    if then not in (f"return torch.cat({name})", f"return torch.cat({name}, dim=0)"):
        raise UnfitError("what the rows append is not joined and returned")
    made = place.before.get(name)
    if not isinstance(made, ast.List) or made.elts:
        raise UnfitError(f"{name} is no new list")
    if row.count is None or not _names(row.count) & set(columns):
        raise UnfitError("each row appends the same number of indices")
    moved = ast.Attribute(_written(value), "to")
    device = ast.parse(row.device, mode="eval").body
    end = ast.unparse(ast.Call(moved, [device], []))
    return [*_read(tables), *_placed(row, row.count, columns), f"return {end}"]


def _tables(node: ast.For) -> list[tuple[str, list[str], int]]:
    """Return the tensors that are looped over, with the names of a row and their dimensions."""
    source, target = node.iter, node.target
    pairs = [(source, target)]
    if isinstance(source, ast.Call) and ast.unparse(source.func) == "zip":
        targets = target.elts if isinstance(target, ast.Tuple) else []
        if source.keywords or len(targets) != len(source.args):
            raise UnfitError("the loop is over something else than rows")
        pairs = list(zip(source.args, targets, strict=True))
    found: list[tuple[str, list[str], int]] = []
    for made, given in pairs:
        name, _, method = ast.unparse(made).rpartition(".")
        names = given.elts if isinstance(given, ast.Tuple) else [given]
        plain = [one.id for one in names if isinstance(one, ast.Name)]
        if method != "tolist()" or not name.isidentifier() or len(plain) < len(names):
            raise UnfitError("the loop is over something else than rows")
        found.append((name, plain, 2 if isinstance(given, ast.Tuple) else 1))
    return found


def _written(value: Appended) -> ast.expr:
    """Return the expression of all rows' elements, at ``_at``."""
    if isinstance(value, EitherTerm):
        one, other = map(_written, value.values)
        return ast.IfExp(value.test, one, other)
    if isinstance(value, Table):
        columns = ast.List([one.at((_AT,)) for one in value.columns])
        stack = ast.Attribute(ast.Name("torch"), "stack")
        return ast.Call(stack, [columns], [ast.keyword("dim", ast.Constant(-1))])
    return value.at((_AT,))


def _read(tables: Sequence[tuple[str, list[str], int]]) -> Iterator[str]:
    """Yield the lines that take the columns of the tables."""
    first = tables[0][0]
    for table, names, dims in tables:
        yield f"torch._check({table}.dim() == {dims} and {table}.shape[0] > 0)"
        yield f"torch._check(not {table}.is_floating_point() and not {table}.is_complex())"
        if table != first:
            yield f"torch._check({table}.shape[0] == {first}.shape[0])"
        yield f"{', '.join(names)} = {table}.long(){'.unbind(1)' if dims == 2 else ''}"


def _placed(row: RowBody, count: ast.expr, columns: Sequence[str]) -> list[str]:
    """Return the lines that work out, for each element, its row and its index in it."""
    checks = list(row.terms.checks())
    fixed = [ast.unparse(one) for one in checks if not _names(one) & set(columns)]
    first, *vary = [ast.unparse(one) for one in checks if _names(one) & set(columns)]
    lines = [f"torch._check({one})" for one in fixed]
    lines += [
        "torch._assert_async(",
        "    (",
        f"        ({first})",
        *(f"        & ({one})" for one in vary),
        "    ).all(),",
        '    "the numbers of a row do not fit each other",',
        ")",
        f"_count = {ast.unparse(count)}",
    ]
    return [
        *lines,
        "_row = torch.repeat_interleave(_count)",
        "_at = torch.arange(_row.shape[0], device=_row.device)",
        "_at = _at - (_count.cumsum(0) - _count)[_row]",
        f"{', '.join(columns)} = {', '.join(f'{name}[_row]' for name in columns)}",
        *(f"{name} = {text}" for text, name in row.terms.lines.items()),
    ]


def _names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
