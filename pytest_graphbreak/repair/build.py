"""Writes the patched program: the user's source, with what the patches say.

The copy keeps every line that no patch touches. What has to run first goes in
behind the first import of torch. Functions of other modules are changed in
memory, by giving them a new body; no file of another package is touched.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_graphbreak.record import Frame
from pytest_graphbreak.repair.patch import DECORATORS, Line, Patch, Rewrite

_FOREIGN = re.compile(r"<patched (?P<module>[\w.]+):(?P<function>[\w.]+)>")

_REPLACE = '''
def _graphbreak_replace(module, name, source):
    """Give a function of another module a changed body, in this process only."""
    import functools, importlib, inspect, linecache, textwrap

    owner = importlib.import_module(module)
    function = inspect.unwrap(functools.reduce(getattr, name.split("."), owner))
    function = getattr(function, "__func__", function)
    free = function.__code__.co_freevars
    text = source
    if free:
        text = f"def _around({', '.join(free)}):\\n" + textwrap.indent(source, "    ")
    file = f"<patched {module}:{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    code = compile(text, file, "exec")
    for part in (["_around"] if free else []) + [function.__code__.co_name]:
        code = next(c for c in code.co_consts if getattr(c, "co_name", None) == part)
    function.__code__ = code
'''

_WRAP = '''
def _graphbreak_wrap(module, name, wrapper):
    """Put a wrapper around a function of another module, in this process only."""
    import functools, importlib

    *path, last = name.split(".")
    owner = functools.reduce(getattr, path, importlib.import_module(module))
    setattr(owner, last, wrapper(getattr(owner, last)))
'''


class BuildError(ValueError):
    """A patch can not be written down: the form of the code is not one that is known."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where a stable file name is on this machine: its path, and the module it is."""

    path: Path
    module: str


def has_libcst() -> bool:
    return importlib.util.find_spec("libcst") is not None


def build(
    source: str, own: str, patches: Sequence[Patch], sites: Mapping[str, Site], header: str = ""
) -> str:
    """The source of the patched program.

    ``own`` is the stable name of the user's file, ``sites`` where other files
    are. Raises ``BuildError`` if a rewrite fits nothing.
    """
    head: list[str] = []
    foreign: dict[tuple[str, str], str] = {}
    texts: dict[str, str] = {}
    for edit in (edit for patch in patches for edit in patch.edits):
        if isinstance(edit, Line):
            if edit.source not in head:
                head.append(edit.source)
        elif (origin := _origin(edit.where, own, sites)) is None:
            source = _rewritten(source, edit)
        elif edit.kind in DECORATORS:
            head.append(
                f"_graphbreak_wrap({origin.module!r}, {edit.where.function!r}, "
                f"{DECORATORS[edit.kind]})"
            )
        else:
            text = texts.get(origin.module) or origin.path.read_text(encoding="utf-8")
            texts[origin.module] = text = _rewritten(text, edit)
            foreign[origin.module, edit.where.function] = _function(text, edit.where.function)
    for (module, name), text in foreign.items():
        head.append(f"_graphbreak_replace({module!r}, {name!r}, {_quoted(text)})")
    joined = "\n".join(head)
    for name, helper in (("_graphbreak_replace(", _REPLACE), ("_graphbreak_wrap(", _WRAP)):
        if name in joined:
            joined = f"{helper.strip()}\n\n\n{joined}"
    return _with_head(source, joined, header)


def home(where: Frame) -> tuple[str, str] | None:
    """Module and function of a place in a body that a patch put in, or None."""
    found = _FOREIGN.fullmatch(where.file)
    return (found["module"], found["function"]) if found else None


def _origin(where: Frame, own: str, sites: Mapping[str, Site]) -> Site | None:
    """The other module that a place is in, or None where it is the user's own file."""
    if where.file == own:
        return None
    patched = home(where)
    if patched is not None:
        return next(site for site in sites.values() if site.module == patched[0])
    if where.file not in sites or "<locals>" in where.function:
        raise BuildError(f"{where.file}: {where.function} can not be replaced from outside")
    return sites[where.file]


def _rewritten(source: str, edit: Rewrite) -> str:
    from pytest_graphbreak.repair.rewrite import apply

    changed = apply(source, edit.kind, edit.where)
    if changed is None:
        raise BuildError(f"the line is not of a form that {edit.kind} rewrites")
    return changed


def _function(source: str, name: str) -> str:
    """The ``def`` of a qualified name, without decorators, moved to the left."""
    body: list[ast.stmt] = ast.parse(source).body
    found: ast.stmt | None = None
    for part in name.split("."):
        found = next(
            (one for one in body if getattr(one, "name", None) == part),
            None,
        )
        if found is None:
            raise BuildError(f"{name}: its def was not found")
        body = getattr(found, "body", [])
    assert found is not None
    lines = source.splitlines(True)[found.lineno - 1 : found.end_lineno]
    return textwrap.dedent("".join(lines)).rstrip() + "\n"


def _quoted(text: str) -> str:
    """Source as a readable literal of Python."""
    if "'''" in text or text.endswith("\\"):
        return repr(text)
    literal = "r" if "\\" in text else ""
    return f"{literal}'''\\\n{text}'''" if not literal else f"r'''{text}'''"


def _with_head(source: str, head: str, header: str) -> str:
    """The source with the patches behind its first import of torch."""
    lines = source.splitlines(True)
    after = _line_for_head(source) if head else 0
    if head:
        has = any(line.strip() == "import torch" for line in lines[:after])
        first = "import torch._dynamo\n\n" if has else "import torch\nimport torch._dynamo\n\n"
        lines[after:after] = [first, head, "\n"]
    top = 1 if lines and lines[0].startswith("#!") else 0
    lines[top:top] = [f"# {line}".rstrip() + "\n" for line in header.splitlines()]
    return "".join(lines)


def _line_for_head(source: str) -> int:
    """After which line statements may go in: the first import of torch, else the docstring."""
    body = ast.parse(source).body
    after = 0
    for number, one in enumerate(body):
        doc = number == 0 and isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
        future = isinstance(one, ast.ImportFrom) and one.module == "__future__"
        if doc or future:
            after = one.end_lineno or one.lineno
    for one in body:
        names = [alias.name for alias in one.names] if isinstance(one, ast.Import) else []
        if isinstance(one, ast.ImportFrom) and one.level == 0:
            names = [one.module or ""]
        if any(name.split(".")[0] == "torch" for name in names):
            return max(after, one.end_lineno or one.lineno)
    return after
