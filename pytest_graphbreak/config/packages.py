"""Finds the installed packages that own the places of a run, and their versions.

A place in a package is named from the package (``transformers/models/...``), a place in the
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
    """Return the package that a place in this file would belong to: ``transformers``, ``six``."""
    return file.partition("/")[0].removesuffix(".py")


def versions(files: Iterable[str], root: Path) -> dict[str, str]:
    """Return the packages that own some of these files, with their versions, by name.

    ``root`` is the repository: files in it are the user's own, and belong to no package.
    """
    versions_by_name: dict[str, str] = {}
    for file in dict.fromkeys(files):
        name = owner(file)
        if not name or name in versions_by_name or file.startswith("<") or (root / file).is_file():
            continue
        if installed := _version(name):
            versions_by_name[name] = installed
    return dict(sorted(versions_by_name.items()))


def files_of(record: Record) -> Iterator[str]:
    """Yield the files of every place in a record."""
    for items in (record.breaks, record.eager, record.recompile_list, record.graph_list):
        for item in items:
            if item.where.file:
                yield item.where.file


def owner_versions(record: Record, versions: Mapping[str, str]) -> dict[str, str]:
    """Return the versions of the packages that own places of a record."""
    names = dict.fromkeys(map(owner, files_of(record))) if versions else ()
    return {name: versions[name] for name in names if name in versions}


@cache
def _version(name: str) -> str | None:
    """Return a version by distribution name, or by what it installs if the two differ."""
    return version(name) or next(iter(map(version, _distributions().get(name, ()))), None)


@cache
def _distributions() -> Mapping[str, list[str]]:
    """Return distributions by what is imported (``yaml`` of ``PyYAML``); reads them all, once."""
    return importlib.metadata.packages_distributions()
