"""Patches of a program, and its files: as their user has them, and with patches applied.

A remedy proposes a ``SourcePatch``. ``Search`` lets ``ProgramFiles`` apply those that it tries. A
run of the patched program gives a ``Record`` whose lines are those of the patched copy;
``ProgramFiles.locate`` finds them in the files of the user. A ``trial.Site`` is the path of a file,
and the module it was imported as.

Only the user's own files are patched: not those of installed packages, which nobody could merge.
Every line that no patch touches stays as it is.
"""

from __future__ import annotations

import difflib
import sysconfig
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.model.items import Break, Frame
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair.sources import SourceError, comments, lines, read
from pytest_graphbreak.repair.target import Target
from pytest_graphbreak.repair.trial import Site

Change = Callable[[str], str | None]
"""Returns the source of a file with a place rewritten, or None if the place is not in it.

Raises ``UnfitError`` if the form is known but cannot be rewritten.
"""


class UnfitError(ValueError):
    """Raised with the reason why a place cannot be rewritten."""


class SourcePatch(Struct, frozen=True):
    """A remedy for a problem: a change of one file."""

    title: str
    change: Change
    file: str = ""
    """Its name in records; "" for the file that calls ``torch.compile``."""
    note: str = ""
    """What it costs, or what happens at another time with it."""


_INSTALLED: Final = {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}
"""A virtual environment may be in the checkout: what is installed there is nobody's to patch."""
MOST_LINES: Final = 8
"""The most lines of a diff, removed and added, that one patch may have: longer is no patch."""


class ProgramFiles(Struct):
    """The files that a program was seen in, by their stable names in records.

    ``add`` is called after each run that is kept, since it may have reached further files.
    """

    target: Target
    sites: dict[str, Site] = {}

    def add(self, sites: Mapping[str, Site]) -> None:
        """Add the files of a further run; a name that is known keeps its path."""
        self.sites = {**sites, **self.sites}

    def path(self, name: str) -> Path:
        """Return the path of a file; of the file that the user has named, if it was never seen."""
        return self.sites[name].path if name in self.sites else self.target.path

    def apply(self, patches: Sequence[SourcePatch]) -> dict[str, str] | None:
        """Return the texts of the files that patches change, by name; None if one fits no place.

        Raises ``UnfitError`` for a patch that may not be applied.
        """
        texts: dict[str, str] = {}
        for patch in patches:
            name = patch.file or self._compiling()
            if not self._is_users(name):
                raise UnfitError(f"{name} is no file of this checkout")
            text = texts.get(name) or self._read(name)  # as the patches before have left it
            changed = patch.change(text)
            if changed is None:
                return None
            if gone := Counter(comments(text)) - Counter(comments(changed)):
                raise UnfitError(f"a comment would go: {next(iter(gone))}")
            if (count := _changed_lines(text, changed)) > MOST_LINES:
                raise UnfitError(f"it would change {count} lines, and may change {MOST_LINES}")
            texts[name] = changed
        return texts

    def encode(self, texts: Mapping[str, str]) -> dict[Path, bytes]:
        """Return texts as their files have them, by path. Raises ``UnicodeEncodeError``."""
        paths = {name: self.path(name) for name in texts}
        return {path: read(path).encode(texts[name]) for name, path in paths.items()}

    def locate(self, where: Frame) -> Frame:
        """Return a place of a patched run with its line in the user's file.

        A patch moves the lines below it. Of several lines that read alike the nearest is taken; a
        line that only the patch has, or that is in no file of the user, stays as it is.
        """
        if where.file not in self.sites or not self._is_users(where.file):
            return where
        code, text = _spaced_once(where.code), self._lines(where.file)
        if text[where.line - 1 : where.line] == [code] or code not in text:
            return where
        nearest = min(
            (at for at, line in enumerate(text, 1) if line == code),
            key=lambda at: abs(at - where.line),
        )
        return replace(where, line=nearest)

    def locate_break(self, item: Break) -> Break:
        """Return a break with its places in the user's files."""
        stack = tuple(map(self.locate, item.stack))
        return replace(item, where=self.locate(item.where), stack=stack)

    def locate_recompiles(self, record: Record) -> Record:
        """Return a record whose recompiles have their places in the user's files."""
        again = (
            replace(
                item,
                where=self.locate(item.where),
                guard=self.locate(item.guard),
                origin=self.locate(item.origin),
            )
            for item in record.recompile_list
        )
        return replace(record, recompile_list=tuple(again))

    def has_line(self, where: Frame) -> bool:
        """Return whether the line of a place is in the user's file, so that no patch wrote it."""
        if where.file not in self.sites or not where.code:
            return True
        return _spaced_once(where.code) in self._lines(where.file)

    def _read(self, name: str) -> str:
        """Return the text of a file. Raises ``UnfitError``."""
        try:
            return read(self.path(name)).text
        except (OSError, SourceError) as error:
            raise UnfitError(str(error)) from None

    def _lines(self, name: str) -> list[str]:
        """Return the lines of a file as records have them, without indentation."""
        return [_spaced_once(line) for line in lines(self._read(name))]

    def _named(self) -> str:
        """Return the name of the file that the user has named, "" if it was not seen."""
        path = self.target.path.resolve()
        return next((x for x, site in self.sites.items() if site.path.resolve() == path), "")

    def _compiling(self) -> str:
        """Return the name of the file that calls ``torch.compile``, else of the named one."""
        named = self._named()
        users = [name for name in (named, *self.sites) if self._is_users(name)]
        return next((name for name in users if "torch.compile" in self._read(name)), named)

    def _is_users(self, name: str) -> bool:
        """Return whether a file is of the checkout, or beside the program."""
        if name in ("", self._named()):
            return True
        if name not in self.sites:
            return False
        path = self.sites[name].path.resolve()
        installed = any(path.is_relative_to(Path(folder).resolve()) for folder in _INSTALLED)
        beside = (Path.cwd(), self.target.path.resolve().parent)
        return not installed and any(path.is_relative_to(folder) for folder in beside)


def _changed_lines(before: str, after: str) -> int:
    """Return how many lines a diff removes and adds."""
    changes = list(difflib.unified_diff(lines(before), lines(after), n=0))[2:]  # without its header
    return sum(line[0] in "+-" for line in changes)


def _spaced_once(code: str) -> str:
    """Return a line without its indentation and with one space for several."""
    return " ".join(code.split())


def break_key(item: Break) -> tuple[str, ...]:
    """Return what stays the same of a break when its file is patched."""
    return (item.layer, item.where.file, item.where.function, _spaced_once(item.where.code))
