"""Writes the patched program: the user's source with the patches applied.

The copy keeps every line that no patch touches. Code that has to run first is inserted after the
first import of torch, and it runs only if the file is the program: a module that imports the file
gets its own definitions and no patch. Functions of other modules are changed in memory, by giving
them a new body; no file of another package is touched.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from pytest_graphbreak.model.record import Frame
from pytest_graphbreak.repair.patch import Edit, Preamble, Rewrite, SourcePatch, UnfitError
from pytest_graphbreak.repair.source import SourceError, find, imports, lines, read

_PATCHED = re.compile(r"<patched (?P<module>[\w.]+):(?P<function>[\w.]+)>")

_EDIT: Final = '''
def _graphbreak_edit(module, name, digest, diff):
    """Apply a diff to a function of another module, in this process only.

    Raises ``RuntimeError`` if the function is not the one that the diff was made for.
    """
    import ast, functools, hashlib, importlib, inspect, io, linecache, re, textwrap

    function = functools.reduce(getattr, name.split("."), importlib.import_module(module))
    if not callable(function):  # a property, or a functools.cached_property
        function = getattr(function, "fget", None) or function.func
    function = inspect.unwrap(function)
    function = getattr(function, "__func__", function)
    source = textwrap.dedent(inspect.getsource(function))
    node = ast.parse(source).body[0]
    old = io.StringIO(source).readlines()[node.lineno - 1 : node.end_lineno]
    if hashlib.sha256("".join(old).rstrip().encode()).hexdigest()[:12] != digest:
        raise RuntimeError(f"{module}: {name} has changed since this patch was written for it")
    new, done = [], 0
    for hunk in re.split("^@@ -", diff, flags=re.M)[1:]:
        head, *body = io.StringIO(hunk).readlines()
        start = int(head.partition(",")[0]) - 1
        new += old[done:start] + [line[1:] or line for line in body if line[0] != "-"]
        done = start + sum(line[0] != "+" for line in body)
    text = "".join(new + old[done:])
    free = function.__code__.co_freevars
    if free:
        text = f"def _around({', '.join(free)}):\\n" + textwrap.indent(text, "    ")
    file = f"<patched {module}:{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    code = compile(text, file, "exec")
    for part in (["_around"] if free else []) + [function.__code__.co_name]:
        code = next(c for c in code.co_consts if getattr(c, "co_name", None) == part)
    function.__code__ = code
'''


class BuildError(ValueError):
    """Raised with the reason why a patch cannot be written; without text if it does not apply."""


class Site(Struct, frozen=True):
    """The location of a stable file name on this machine: its path and its module."""

    path: Path
    module: str


def build(
    source: str,
    user_file: str,
    patches: Sequence[SourcePatch],
    sites: Mapping[str, Site],
    header: str = "",
    test: str = "",
) -> str:
    """Return the source of the patched program, which patches nothing if it is only imported.

    ``own`` is the stable name of the user's file, ``sites`` the locations of other files, and
    ``test`` the part after ``::`` in the node id of the test that is run. Raises ``BuildError`` if
    a rewrite fits nothing.
    """
    head: list[str] = []
    patched: dict[tuple[str, str], Path] = {}
    texts: dict[Path, str] = {}
    for edit in (edit for patch in patches for edit in patch.edits):
        if isinstance(edit, Preamble):
            if edit.source not in head:
                head.append(edit.source)
        elif (site := origin(edit.where, user_file, sites)) is None:
            source = rewrite(source, edit)
        elif edit.helper:
            raise BuildError(f"it would call a function of the script, and is in {site.path.name}")
        elif edit.decorator and "<locals>" not in edit.where.function:
            head.append(_decorating_statements(site, edit.where.function, edit.decorator))
        else:
            texts[site.path] = rewrite(texts.get(site.path) or text_of(site.path), edit)
            patched[site.module, _outer(edit.where)] = site.path
    if patched:
        head.insert(0, _EDIT.strip() + "\n\n")
    for (module, name), path in patched.items():
        head.append(_edit_call(len(head), module, name, text_of(path), texts[path]))
    return _with_head(source, "\n".join(head), header, test)


def _outer(where: Frame) -> str:
    """Return the outermost function of a place, whose text holds that of the local ones."""
    return where.function.partition(".<locals>")[0]


def _decorating_statements(site: Site, name: str, decorator: str) -> str:
    """Return the statements that put a decorator on a function of another module.

    A static or class method stays one, as a plain function it would be given ``self``. Raises
    ``BuildError`` for a property, which is no function.
    """
    package, _, last = site.module.rpartition(".")
    load = f"from {package} import {last} as _{last}" if package else f"import {last} as _{last}"
    node = find(text_of(site.path), name) if "." in name else None
    decorators = {ast.unparse(x) for x in node.decorator_list} if node is not None else set()
    if any("property" in existing for existing in decorators):
        raise BuildError(f"{name} is a property of another module")
    full = f"_{last}.{name}"
    expression = f"{decorator}({full})"
    for kind, function in (("staticmethod", ""), ("classmethod", ".__func__")):
        if kind in decorators:
            expression = f"{kind}({decorator}({full}{function}))"
    return f"{load}\n{full} = {expression}"


def _edit_call(number: int, module: str, name: str, before: str, after: str) -> str:
    """Return the diff, and the call that changes a function of another module as it says.

    Raises ``BuildError`` if the new lines call torch, and the module does not import it.
    """
    old, new = _function(before, name), _function(after, name)
    if "torch." in new and "torch." not in old and "torch" not in imports(before):
        raise BuildError(f"{module} does not import torch, which the new lines of {name} call")
    digest = hashlib.sha256(old.rstrip().encode()).hexdigest()[:12]
    diff_lines = list(difflib.unified_diff(lines(old), lines(new), n=1))[2:]
    diff = "".join(line if line.strip() else "\n" for line in diff_lines)
    quoted = f"r'''\n{diff}'''" if "'''" not in diff else repr(diff)
    variable = f"_graphbreak_diff_{number}"
    call = f"_graphbreak_edit({module!r}, {name!r}, {digest!r}, {variable})"
    return f"{variable} = {quoted}\n{call}"


def home(where: Frame) -> tuple[str, str] | None:
    """Return the module and function of a place in a body that a patch put in, or None."""
    match = _PATCHED.fullmatch(where.file)
    return (match["module"], match["function"]) if match else None


def origin(where: Frame, user_file: str, sites: Mapping[str, Site]) -> Site | None:
    """Return the other module that a place is in, or None for the user's own file.

    Raises ``BuildError`` for a function that cannot be changed from another file.
    """
    if where.file == user_file:
        return None
    patched = home(where)
    if patched is not None:
        return next(site for site in sites.values() if site.module == patched[0])
    if where.file not in sites:
        raise BuildError(f"{where.file}: {where.function} cannot be replaced from outside")
    return sites[where.file]


def rewrite(source: str, edit: Rewrite) -> str:
    """Return the source with one edit applied. Raises ``BuildError`` if it fits nothing."""
    try:
        changed = edit.change(source, edit.where)
    except UnfitError as error:
        raise BuildError(str(error)) from None
    if changed is None:
        raise BuildError
    return changed


def text_of(path: Path) -> str:
    """Return the text of a file. Raises ``BuildError``."""
    try:
        return read(path).text
    except (OSError, SourceError) as error:
        raise BuildError(str(error)) from None


def _function(source: str, name: str) -> str:
    """Return the ``def`` of a qualified name, dedented and without decorators."""
    definition = find(source, name)
    if definition is None:
        raise BuildError(f"{name}: its def was not found")
    text = lines(source)[definition.lineno - 1 : definition.end_lineno]
    return textwrap.dedent("".join(text)).rstrip() + "\n"


def _with_head(source: str, head: str, header: str, test: str) -> str:
    """Return the source with the patches after its first import of torch."""
    text = lines(source)
    if text and not text[-1].endswith("\n"):
        text[-1] += "\n"
    first, after = _places(source) if head else (0, 0)
    if head:
        has = any(line.strip() == "import torch" for line in text[:after])
        imports = "import torch._dynamo\n\n" if has else "import torch\nimport torch._dynamo\n\n"
        text[after:after] = [imports, _guard(head, test), "\n"]
        if test:
            text[first:first] = [_AS_TEST.format(tail=f"::{test}")]
    top = max((n for n, line in enumerate(text[:2], 1) if _FIRST.match(line)), default=0)
    words = header.encode("ascii", "backslashreplace").decode()  # valid in any encoding
    text[top:top] = [f"# {line}".rstrip() + "\n" for line in words.splitlines()]
    return "".join(text)


_FIRST: Final = re.compile(r"#!|[ \t\f]*#.*?coding[:=]")
"""Lines that only count if they are among the first two: ``#!`` and the encoding (PEP 263)."""

_AS_TEST: Final = """
import os
import sys

if __name__ == "__main__":
    import pytest

    sys.path.append(os.getcwd())
    _graphbreak_options = ["-p", "no:cacheprovider", "-o", "addopts=", "-o", "graph_budget=false"]
    sys.exit(pytest.main([*_graphbreak_options, __file__ + {tail!a}, *sys.argv[1:]]))

# Only where this file is the program that runs. Else pytest finds no test here, and
# nothing is patched.
_graphbreak_program = getattr(sys.modules["__main__"], "__file__", None) or ""
_graphbreak_on = os.path.realpath(_graphbreak_program) == os.path.realpath(__file__)
__test__ = _graphbreak_on

"""


def _guard(head: str, test: str) -> str:
    """Return the patches, with all but their definitions guarded to run only in the program."""
    source = lines(head)
    definitions: list[str] = []
    acts: list[str] = []
    for node in ast.parse(head).body:
        start = min(x.lineno for x in (node, *getattr(node, "decorator_list", ())))
        text = "".join(source[start - 1 : node.end_lineno]).rstrip("\n") + "\n"
        if isinstance(node, ast.FunctionDef):
            definitions += ["\n\n" if definitions else "", text, "\n\n"]
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            definitions.append(text)
        else:
            acts.append(textwrap.indent(text, "    "))
    joined = re.sub(r"\n{4,}", "\n\n\n", "".join(definitions))
    if not acts:
        return joined
    condition = "_graphbreak_on" if test else '__name__ in ("__main__", "__mp_main__")'
    return f"{joined}if {condition}:\n{''.join(acts)}"


def _places(source: str) -> tuple[int, int]:
    """Return the lines after which statements may be inserted: at the top, and after torch.

    The first is that after the docstring and ``__future__`` imports, the second that after the
    first import of torch.
    """
    body = ast.parse(source).body
    first = 0
    for number, node in enumerate(body):
        doc = number == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if doc or future:
            first = node.end_lineno or node.lineno
    for node in body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        if any(name.split(".")[0] == "torch" for name in names):
            return first, max(first, node.end_lineno or node.lineno)
    return first, first


class Diff(Struct, frozen=True):
    """A diff for ``patch -p1`` in the directory of the packages, and the patches that it lacks.

    ``left_out`` has the titles of these patches: they change settings of the program, or need a
    helper in it, so no file of a library can hold all of them.
    """

    text: str
    left_out: tuple[str, ...]


def difference(
    source: str,
    user_file: str,
    patches: Sequence[SourcePatch],
    sites: Mapping[str, Site],
) -> Diff:
    """Return the diff of all files that the patches rewrite, including the user's own.

    ``own`` is the stable name of the user's file. Raises ``BuildError`` for a patch that does not
    fit, which does not happen for a patch that was tried.
    """
    was: dict[str, str] = {}
    now: dict[str, str] = {}
    for edit in (edit for patch in patches for edit in patch.edits):
        if not isinstance(edit, Rewrite) or _is_ours(edit):
            continue
        site = origin(edit.where, user_file, sites)
        name = user_file if site is None else edit.where.file
        if name not in was:
            was[name] = now[name] = source if site is None else text_of(site.path)
        now[name] = rewrite(now[name], edit)
    left_out = tuple(patch.title for patch in patches if any(map(_is_ours, patch.edits)))
    return Diff("".join(_unified_diff(name, was[name], now[name]) for name in was), left_out)


def _unified_diff(name: str, before: str, after: str) -> str:
    diff_lines = difflib.unified_diff(lines(before), lines(after), f"a/{name}", f"b/{name}")
    end = "\n\\ No newline at end of file\n"
    return "".join(line if line.endswith("\n") else line + end for line in diff_lines)


def _is_ours(edit: Edit) -> bool:
    """Return whether no file of a library can hold an edit, but only the patched program."""
    return isinstance(edit, Preamble) or edit.helper or edit.decorator.startswith("_")
