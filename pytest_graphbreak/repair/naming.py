"""The names of places of a program, whichever patched copy of its files ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import structs

from pytest_graphbreak.model.record import Break, Frame, Record
from pytest_graphbreak.repair.build import Site, home, text_of
from pytest_graphbreak.repair.source import lines


@dataclass(slots=True)
class Names:
    """The file of the user, its text, its patched copies, and the other files that have places."""

    path: Path
    source: str
    copies: set[str] = field(default_factory=set)
    sites: dict[str, Site] = field(default_factory=dict)

    def add(self, sites: Mapping[str, Site]) -> None:
        """Add files; those that are known already stay as they were before they were patched."""
        self.sites = {**sites, **self.sites}

    def key(self, item: Break) -> tuple[str, ...]:
        """Return what stays the same of a break when its file is patched."""
        where = self.named(item.where)
        code = _spaced_once(where.code)
        return (item.layer, where.file, where.function, code)

    def named(self, where: Frame) -> Frame:
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

    def placed(self, where: Frame) -> Frame:
        """Return a place as ``named`` does, with its line in the user's unpatched file."""
        named = self.named(where)
        if named.file != self.own:
            return named
        code = _spaced_once(named.code)
        known = [_spaced_once(line) for line in lines(self.source)]
        if 0 < named.line <= len(known) and known[named.line - 1] == code:
            return named
        return structs.replace(named, line=known.index(code) + 1) if code in known else named

    def guarded(self, record: Record) -> Record:
        """Return a record whose failed guards have their lines in the user's unpatched files."""
        found = record.recompile_list
        placed = tuple(structs.replace(one, guard=self.placed(one.guard)) for one in found)
        return structs.replace(record, recompile_list=placed)

    def has(self, named: Frame) -> bool:
        """Return whether the unpatched file of a place contains its line."""
        site = self.sites.get(named.file)
        unpatched = self.source if site is None or named.file == self.own else text_of(site.path)
        return _spaced_once(named.code) in map(_spaced_once, lines(unpatched))

    @property
    def own(self) -> str:
        """The stable name of the user's file in records."""
        wanted = self.path.resolve()
        for name, site in self.sites.items():
            if site.path.resolve() == wanted:
                return name
        return str(self.path)


def _spaced_once(code: str) -> str:
    """Return a line without its indentation and with one space for several."""
    return " ".join(code.split())
