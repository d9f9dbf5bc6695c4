"""Names for source places that are the same on every machine.

A place is named by its file, the qualified name of the function around it (``scopes``), and the
text of its line. Observers and logs ask ``Places`` for a ``Frame``, and whether a file is one that
its users wrote. The code that is named is never imported: a file is parsed once, and only when one
of its frames has to be shown.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pytest_graphbreak.model.items import Frame
from pytest_graphbreak.model.scopes import Scope, innermost, scopes_of

LIBRARIES = frozenset(
    {
        "_pytest",
        "functorch",
        "hypothesis",
        "IPython",
        "ipykernel",
        "jax",
        "jaxlib",
        "jaxtyping",
        "pjrt_plugin_tt",
        "pluggy",
        "pytest",
        "pytest_forked",
        "pytest_graphbreak",
        "pytest_rerunfailures",
        "pytest_timeout",
        "torch",
        "torch_xla",
        "torchax",
        "torchgen",
        "triton",
        "tt_torch",
        "typing_extensions",
        "xdist",
    }
)
"""Packages whose frames are machinery and never a line that a reader would edit."""

_SITE = re.compile(r".*/(?:site|dist)-packages/(?=.)")
"""What comes before the name of a package in a path."""
_HASH = re.compile(r"_?(?!\d+$)[0-9a-f]{12,64}")
"""A directory that is named by a hash, which is another on each machine; no number of digits."""
_RESUME = re.compile(r"torch_dynamo_resume_in_(.*)_at_\d+")
"""The rest of a function after a break: ``torch_dynamo_resume_in_forward_at_12``."""
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>")
"""Separate functions until Python 3.11, and part of the surrounding function since then."""


class _Source(NamedTuple):
    """The scopes parsed from the lines of a file; ``lines`` is kept to detect changes."""

    lines: list[str]
    scopes: tuple[Scope, ...]


class Places:
    """Turns files and lines of this machine into stable ``Frame`` values.

    ``root`` is the directory that the files of the repository are named from. For the machine that
    wrote a log, ``logs.sources.Sources`` does it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._roots = _directories([str(root)])
        # What ``file``, ``is_written`` and ``_is_infra`` returned, by file: they are asked for each
        # frame of each stack.
        self._files: dict[str, str] = {}
        self._written: dict[str, bool] = {}
        self._infra_files: dict[str, bool] = {}
        self.infra: tuple[str, ...] = ()
        self._sources: dict[tuple[str, bool], _Source] = {}
        """By file, without and with the lambdas and generator expressions."""

    def file(self, filename: str) -> str:
        """Return the stable name of a file, with ``/`` between directories.

        The name is relative to the first of these: site-packages (also one inside the root), the
        root, the longest entry of ``sys.path`` that contains the file, the parent of the package
        that contains the file. Directories named by a hash are left out. A pseudo-file
        (``<string>``, a doctest, a notebook cell) keeps its name, except for numbers in it that
        change from run to run.
        """
        name = self._files.get(filename)
        if name is None:
            name = self._files[filename] = _pseudo(filename) or self._name(filename)
        return name

    def frame(self, filename: str, line: int, name: str = "", code: str | None = None) -> Frame:
        """Return the place of ``line`` (1-based, 0 for unknown) of ``filename``.

        ``name`` is the code object's name (``forward``); the frame has the qualified name
        (``Head.forward``) if the file has such a function around that line. The name that Dynamo
        gives to the rest of a function after a break is mapped back to that function. Without a
        name, or with that of a comprehension, the function around the line is used, so that all
        versions of Python give the same name. ``code`` replaces the text of the line if the caller
        knows it better than the file.
        """
        name = function_name(name)
        lines = self.lines(filename)
        if name in _COMPREHENSIONS and lines:
            name = ""
        if code is None:
            code = lines[line - 1] if 0 < line <= len(lines) else ""
        scope = self._scope(filename, lines, line, name)
        function = scope.qualname if scope else name or ("<module>" if lines else "")
        return Frame(self.file(filename), function, max(line, 0), code.strip())

    def definition(self, filename: str, line: int, name: str) -> Frame:
        """Return the place of the ``def`` of a function; ``line`` may be any of its lines."""
        scope = self._scope(filename, self.lines(filename), line, name)
        return self.frame(filename, scope.line if scope else line, name)

    def is_user(self, filename: str) -> bool:
        """Return whether a frame of this file can be shown as the user's own or a model's code.

        This is false for torch, pytest, the standard library, this package, generated files, and
        test infrastructure (``pass_over``).
        """
        return self.is_written(filename) and not self._is_infra(filename)

    def is_written(self, filename: str) -> bool:
        """Return the same as ``is_user``, but also true for test infrastructure."""
        written = self._written.get(filename)
        if written is None:
            written = self._written[filename] = _is_user(filename)
        return written

    def is_installed(self, filename: str) -> bool:
        """Return whether a file is one of an installed package, which nobody edits."""
        return _SITE.match(_posix(os.path.abspath(filename))) is not None

    def definition_of(self, file: str, function: str) -> Frame | None:
        """Return the place of the ``def`` of a function, given its qualified name."""
        scope = self._scope_of(file, function)
        return self.frame(file, scope.line, scope.name) if scope else None

    def _scope_of(self, file: str, function: str) -> Scope | None:
        scopes = self._scopes_of(file, self.lines(file))
        return next((scope for scope in scopes if scope.qualname == function), None)

    def lines(self, file: str) -> list[str]:
        """Return the current lines of a file, or nothing if it has no text.

        ``linecache`` also knows the sources of doctests and notebook cells.
        """
        try:
            linecache.checkcache(file)
            return linecache.getlines(file)
        except Exception:  # a custom loader may raise anything
            return []

    def full_path(self, end: str, line: int, code: str, guess: str) -> str:
        """Return ``guess`` or an imported file that ends with ``end`` and has this line, or ""."""
        if os.path.isabs(end):
            return end
        imported = (getattr(module, "__file__", None) for module in [*sys.modules.values()])
        files = (file for file in (guess, *imported) if type(file) is str and file.endswith(end))
        return next((file for file in files if linecache.getline(file, line).strip() == code), "")

    def pass_over(self, infra: Sequence[str]) -> None:
        """Treat files, or directories of files, as test infrastructure: name their callers instead.

        ``infra`` are the paths of ``graph_budget_infra``, absolute or relative to the root.
        """
        self.infra = tuple(str(self.root / path) for path in infra)
        self._infra_files.clear()

    def _is_infra(self, filename: str) -> bool:
        if not self.infra:
            return False
        is_infra = self._infra_files.get(filename)
        if is_infra is None:
            directories = tuple(_directories(self.infra))
            paths = (os.path.abspath(filename), os.path.realpath(filename))
            is_infra = any(f"{_posix(path)}/".startswith(directories) for path in paths)
            self._infra_files[filename] = is_infra
        return is_infra

    def _name(self, filename: str) -> str:
        path = _posix(os.path.abspath(filename))
        real = _posix(os.path.realpath(filename))
        for candidate in (path, real):
            if match := _SITE.match(candidate):
                return _without_hashes(candidate[match.end() :])
        for candidate in (path, real):
            for directory in self._roots:
                if candidate.startswith(directory):
                    return _without_hashes(candidate[len(directory) :])
        entries = [entry for entry in _directories(sys.path) if path.startswith(entry)]
        top = max(entries, key=len, default="") or _package_parent(path)
        return _without_hashes(path[len(top) :])

    def _scope(self, filename: str, lines: list[str], line: int, name: str) -> Scope | None:
        if not lines or name == "<module>":
            return None
        scopes = self._scopes_of(filename, lines, expressions=name.startswith("<"))
        return innermost(scopes, line, name)

    def _scopes_of(
        self, filename: str, lines: list[str], *, expressions: bool = False
    ) -> tuple[Scope, ...]:
        """Return the scopes of a file that has these lines."""
        key = (filename, expressions)
        source = self._sources.get(key)
        if source is None or source.lines is not lines:
            source = self._sources[key] = _Source(lines, scopes_of(lines, expressions=expressions))
        return source.scopes


@cache
def places(root: Path) -> Places:
    """Return the ``Places`` of a root directory, shared so that a process parses each file once."""
    return Places(root)


def function_name(name: str) -> str:
    """Return the user's function: ``torch_dynamo_resume_in_f_at_12`` is the rest of ``f``.

    Source: ``TORCH_DYNAMO_RESUME_IN_PREFIX`` of torch/_dynamo/resume_execution.py.
    """
    while match := _RESUME.fullmatch(name):
        name = match[1]
    return name


def is_resume(name: str) -> bool:
    """Return whether Dynamo made this code object for the rest of a function after a break."""
    return _RESUME.fullmatch(name) is not None


def _pseudo(filename: str) -> str:
    """Return the name of a pseudo-file, or an empty string for a file."""
    if match := re.fullmatch(r"<ipython-input-(\d+)-[0-9a-f]+>", filename):
        return f"<ipython-input-{match[1]}>"
    if re.search(r"[/\\]ipykernel_\d+[/\\]\d+\.py$", filename):
        return "<notebook>"
    if filename.startswith("<"):
        # torch.fx numbers its generated modules across the process: <eval_with_key>.12
        name = re.sub(r"^(<eval_with_key>)\.\d+", r"\1", filename)
        return re.sub(r"0x[0-9a-fA-F]+", "0x...", name)
    if not filename:
        return "<unknown>"
    return "" if _can_be_path(filename) else filename


def _can_be_path(filename: str) -> bool:
    try:
        return b"\0" not in os.fsencode(filename)
    except UnicodeEncodeError:
        return False


def _posix(path: str) -> str:
    return path.replace(os.sep, "/") if os.sep != "/" else path


def _directories(paths: Iterable[str]) -> list[str]:
    """Return absolute directories, with and without links resolved, each ending in ``/``."""
    directories = []
    for path in paths:
        for absolute in (os.path.abspath(path), os.path.realpath(path)):
            directory = _posix(absolute).rstrip("/") + "/"
            if directory not in directories:
                directories.append(directory)
    return directories


def _package_parent(path: str) -> str:
    """Return the parent directory of the outermost package around a file, ending in ``/``."""
    directory = os.path.dirname(path)
    while os.path.isfile(os.path.join(directory, "__init__.py")):
        above = os.path.dirname(directory)
        if above == directory:
            break
        directory = above
    return _posix(directory).rstrip("/") + "/"


def _without_hashes(name: str) -> str:
    *directories, file = name.split("/")
    return "/".join([part for part in directories if not _HASH.fullmatch(part)] + [file])


def _is_user(filename: str) -> bool:
    if not filename or filename.startswith(("<frozen ", "<eval_with_key>", "<attrs generated ")):
        return False
    if _pseudo(filename):
        return True
    path = _posix(os.path.abspath(filename))
    if match := _SITE.match(path):
        return path[match.end() :].split("/")[0].removesuffix(".py") not in LIBRARIES
    return not path.startswith(tuple(_machinery()))


def _machinery() -> Iterator[str]:
    """Yield the directories of libraries that are imported from outside site-packages."""
    yield from _directories(
        [
            sysconfig.get_path("stdlib"),
            sysconfig.get_path("platstdlib"),
            sysconfig.get_path("scripts"),
            os.path.dirname(os.path.dirname(__file__)),
        ]
    )
    for name in LIBRARIES:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file and os.path.basename(file) == "__init__.py":
            yield from _directories([os.path.dirname(file)])
