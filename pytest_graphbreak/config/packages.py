"""Which installed packages own the places of a run, and in which version.

A place in a package is named from the package (``transformers/models/...``), one of the
repository from its root. Nothing is imported: versions are read from the metadata.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from pytest_graphbreak.config.device import version
from pytest_graphbreak.model.record import Record


def owner(file: str) -> str:
    """The package that a place in this file would belong to: ``transformers``, ``six``."""
    return file.partition("/")[0].removesuffix(".py")


def versions(files: Iterable[str], root: Path) -> dict[str, str]:
    """The packages that own some of these files, with their versions, by name.

    ``root`` is the repository: what is there is the user's own, and no package's.
    """
    found: dict[str, str] = {}
    for file in dict.fromkeys(files):
        name = owner(file)
        if not name or name in found or file.startswith("<") or (root / file).is_file():
            continue
        if installed := _version(name):
            found[name] = installed
    return dict(sorted(found.items()))


def files_of(record: Record) -> Iterator[str]:
    """The files of every place that a record names."""
    for items in (record.breaks, record.eager, record.recompile_list, record.graph_list):
        for item in items:
            if item.where.file:
                yield item.where.file


def owning(record: Record, versions: Mapping[str, str]) -> dict[str, str]:
    """Of the known versions of packages those of the ones that own places of a record."""
    names = dict.fromkeys(map(owner, files_of(record)))
    return {name: versions[name] for name in names if name in versions}


@cache
def _version(name: str) -> str | None:
    """By the name of the distribution, or of what it installs where the two differ."""
    return version(name) or next(iter(map(version, _distributions().get(name, ()))), None)


@cache
def _distributions() -> Mapping[str, list[str]]:
    """Distributions by what is imported (``yaml`` is of ``PyYAML``); reads them all, once."""
    return importlib.metadata.packages_distributions()
