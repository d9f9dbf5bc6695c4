"""The names of places of a program, whichever patched copy of its files ran."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, structs

from pytest_graphbreak.model.record import Break, Frame, Record
from pytest_graphbreak.repair.build import Site, home, text_of
from pytest_graphbreak.repair.source import lines


class Names(Struct):
    """The file of the user, its text, its patched copies, and the other files that have places."""

    path: Path
    source: str
    copies: set[str] = set()
    sites: dict[str, Site] = {}

    def add(self, sites: Mapping[str, Site]) -> None:
        """Add files; those that are known already stay as they were before they were patched."""
        self.sites = {**sites, **self.sites}

    def key(self, item: Break) -> tuple[str, ...]:
        """Return what stays the same of a break when its file is patched."""
        where = self.file_frame(item.where)
        code = _spaced_once(where.code)
        return (item.layer, where.file, where.function, code)

    def file_frame(self, where: Frame) -> Frame:
        """Return a place under the name of its own file, whichever copy of the file ran."""
        patched = home(where)
        if patched is not None:
            file = next(
                (name for name, site in self.sites.items() if site.module == patched[0]),
                where.file,
            )
            return structs.replace(where, file=file, function=patched[1])
        if Path(where.file).name in self.copies:
            return structs.replace(where, file=self.own)
        return where

    def source_frame(self, where: Frame) -> Frame:
        """Return a place as ``file_frame`` does, with its line in the user's unpatched file."""
        frame = self.file_frame(where)
        if frame.file != self.own:
            return frame
        code = _spaced_once(frame.code)
        text = [_spaced_once(line) for line in lines(self.source)]
        if 0 < frame.line <= len(text) and text[frame.line - 1] == code:
            return frame
        return structs.replace(frame, line=text.index(code) + 1) if code in text else frame

    def source_record(self, record: Record) -> Record:
        """Return a record whose recompiles have their places in the user's unpatched files."""
        recompiles = tuple(
            structs.replace(
                recompile,
                where=self.source_frame(recompile.where),
                guard=self.source_frame(recompile.guard),
                origin=self.source_frame(recompile.origin),
            )
            for recompile in record.recompile_list
        )
        return structs.replace(record, recompile_list=recompiles)

    def has(self, frame: Frame) -> bool:
        """Return whether the unpatched file of a place contains its line."""
        site = self.sites.get(frame.file)
        unpatched = self.source if site is None or frame.file == self.own else text_of(site.path)
        return _spaced_once(frame.code) in map(_spaced_once, lines(unpatched))

    @property
    def own(self) -> str:
        """The stable name of the user's file in records."""
        user_path = self.path.resolve()
        for name, site in self.sites.items():
            if site.path.resolve() == user_path:
                return name
        return str(self.path)


def _spaced_once(code: str) -> str:
    """Return a line without its indentation and with one space for several."""
    return " ".join(code.split())
