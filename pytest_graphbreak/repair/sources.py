"""The source files of a program: as their user has them, and with patches applied.

Only the user's own files are patched: not those of installed packages, which nobody could merge.
Every line that no patch touches stays as it is.

From top to bottom: one file and its encoding (``SourceFile``), one patch (``SourcePatch``), all
files of a program with patches (``ProgramFiles``), and the comment at the head of what is written.
"""

from __future__ import annotations

import difflib
import io
import re
import sysconfig
import tokenize
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.model.items import Break, Frame
from pytest_graphbreak.model.record import Record
from pytest_graphbreak.repair.target import Target


class Site(Struct, frozen=True):
    """The location of a stable file name on this machine: its path and its module."""

    path: Path
    module: str


class SourceError(ValueError):
    """Raised for a file that is not text in the encoding that it declares."""


class SourceFile(Struct, frozen=True):
    """The text of a file, with newlines as line ends whatever the file uses.

    ``encoding`` is the one that its first lines declare (PEP 263), UTF-8 by default.
    """

    text: str
    encoding: str = "utf-8"
    newline: str = "\n"

    def encode(self, text: str) -> bytes:
        """Return another text encoded like this file. Raises ``UnicodeEncodeError``."""
        return text.replace("\n", self.newline).encode(self.encoding)


def read(path: Path) -> SourceFile:
    """Read a file. Raises ``OSError`` and ``SourceError``."""
    try:
        with tokenize.open(path) as file:
            text, ends = file.read(), file.newlines
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise SourceError(f"{path}: its text cannot be read: {error}") from None
    return SourceFile(text, file.encoding, ends if isinstance(ends, str) else "\n")


def lines(text: str) -> list[str]:
    """Return the lines as Python numbers them, with their ends, not split at form feeds."""
    return io.StringIO(text).readlines()


def comments(source: str) -> list[str]:
    """Return the comments of source, as far as it is Python."""
    texts: list[str] = []
    with suppress(tokenize.TokenError, SyntaxError):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            texts += [token.string] * (token.type == tokenize.COMMENT)
    return texts


Change = Callable[[str, Frame], str | None]
"""Returns the source of a file with a place rewritten, or None if it does not apply there.

Raises ``UnfitError`` if the form is known but cannot be rewritten. It is compared by identity, as
functions are, where ``Search`` takes an equal patch out of a list: so it is a function of a module,
or one that is cached.
"""
COMPILES: Final = Frame("", "<module>", 0, "")
"""The file that calls ``torch.compile`` (``ProgramFiles.compiling``), for the whole program.

``ProgramFiles.patched`` looks it up, since a place without a file is in no file yet.
"""


class UnfitError(ValueError):
    """Raised with the reason why a place cannot be rewritten; without text if it does not apply."""


class SourcePatch(Struct, frozen=True):
    """A remedy for a problem: a change at a source line.

    A remedy proposes it, ``Search`` applies it to the files (``ProgramFiles.patched``) and runs it.
    ``note`` is what it costs, or what happens at another time with it.
    """

    title: str
    change: Change
    where: Frame
    note: str = ""


MOST_LINES: Final = 8
"""The most lines of a diff, removed and added, that one patch may have: longer is no patch."""


class ProgramFiles(Struct):
    """The files that a program was seen in, by their stable names in records."""

    target: Target
    sites: dict[str, Site] = {}

    def add(self, sites: Mapping[str, Site]) -> None:
        """Add the files of a further run; a name that is known keeps its path."""
        self.sites = {**sites, **self.sites}

    @property
    def own(self) -> str:
        """The name of the file that was named by the user."""
        path = self.target.path.resolve()
        return next((x for x, site in self.sites.items() if site.path.resolve() == path), "")

    @property
    def compiling(self) -> str:
        """The name of the file in which the program calls ``torch.compile``, else of its own."""
        mine = [name for name in (self.own, *self.sites) if self._is_users(name)]
        return next((name for name in mine if "torch.compile" in self.text(name)), self.own)

    def path(self, name: str) -> Path:
        return self.sites[name].path if name in self.sites else self.target.path

    def text(self, name: str) -> str:
        """Return the text of a file. Raises ``UnfitError``."""
        try:
            return read(self.path(name)).text
        except (OSError, SourceError) as error:
            raise UnfitError(str(error)) from None

    def _is_users(self, name: str) -> bool:
        """Return whether a file is of the checkout, or beside the program."""
        if name in ("", self.own):
            return True
        if name not in self.sites:
            return False
        path = self.sites[name].path.resolve()
        installed = any(path.is_relative_to(Path(folder).resolve()) for folder in _INSTALLED)
        beside = (Path.cwd(), self.target.path.resolve().parent)
        return not installed and any(path.is_relative_to(folder) for folder in beside)

    def patched(self, patches: Sequence[SourcePatch]) -> dict[str, str]:
        """Return the texts of the files that patches change, by name. Raises ``UnfitError``."""
        texts: dict[str, str] = {}
        for patch in patches:
            name = patch.where.file or self.compiling
            if not self._is_users(name):
                raise UnfitError(f"{name} is no file of this checkout")
            text = texts.get(name) or self.text(name)  # as the patches before have left it
            changed = patch.change(text, patch.where)
            if changed is None:
                raise UnfitError  # without a reason: nobody needs to be told
            if gone := Counter(comments(text)) - Counter(comments(changed)):
                raise UnfitError(f"a comment would go: {next(iter(gone))}")
            if (count := _changed_lines(text, changed)) > MOST_LINES:
                raise UnfitError(f"it would change {count} lines, and may change {MOST_LINES}")
            texts[name] = changed
        return texts

    def encoded(self, texts: Mapping[str, str]) -> dict[Path, bytes]:
        """Return texts as their files have them, by path. Raises ``UnicodeEncodeError``."""
        paths = {name: self.path(name) for name in texts}
        return {path: read(path).encode(texts[name]) for name, path in paths.items()}

    def key(self, item: Break) -> tuple[str, ...]:
        """Return what stays the same of a break when its file is patched."""
        return (item.layer, item.where.file, item.where.function, _spaced_once(item.where.code))

    def frame(self, where: Frame) -> Frame:
        """Return a place with its line in the user's unpatched file."""
        if where.file not in self.sites or not self._is_users(where.file):
            return where
        code, text = _spaced_once(where.code), [*map(_spaced_once, lines(self.text(where.file)))]
        if text[where.line - 1 : where.line] == [code] or code not in text:
            return where
        nearest = min(
            (at for at, line in enumerate(text, 1) if line == code),
            key=lambda at: abs(at - where.line),
        )
        return replace(where, line=nearest)

    def item(self, item: Break) -> Break:
        """Return a break with its places in the unpatched files."""
        return replace(item, where=self.frame(item.where), stack=tuple(map(self.frame, item.stack)))

    def record(self, record: Record) -> Record:
        """Return a record whose recompiles have their places in the unpatched files."""
        again = (
            replace(
                item,
                where=self.frame(item.where),
                guard=self.frame(item.guard),
                origin=self.frame(item.origin),
            )
            for item in record.recompile_list
        )
        return replace(record, recompile_list=tuple(again))

    def has(self, where: Frame) -> bool:
        """Return whether the unpatched file of a place has its line."""
        if where.file not in self.sites:
            return True
        text = map(_spaced_once, lines(self.text(where.file)))
        return not where.code or _spaced_once(where.code) in text


# A virtual environment may be in the checkout: what is installed there is nobody's to patch.
_INSTALLED: Final = {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")}


def _changed_lines(before: str, after: str) -> int:
    """Return how many lines a diff removes and adds."""
    changes = list(difflib.unified_diff(lines(before), lines(after), n=0))[2:]  # without its header
    return sum(line[0] in "+-" for line in changes)


def _spaced_once(code: str) -> str:
    """Return a line without its indentation and with one space for several."""
    return " ".join(code.split())


_FIRST: Final = re.compile(r"#!|[ \t\f]*#.*?coding[:=]")
"""Lines that only count if they are among the first two: ``#!`` and the encoding (PEP 263)."""


def headed(text: str, header: str) -> str:
    """Return a file with a comment at its head, in ASCII, which is valid in any encoding."""
    rows = lines(text)
    top = max((n for n, line in enumerate(rows[:2], 1) if _FIRST.match(line)), default=0)
    rows[top:top] = [f"# {header.encode('ascii', 'backslashreplace').decode()}\n"]
    return "".join(rows)
