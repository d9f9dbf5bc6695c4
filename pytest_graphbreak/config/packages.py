"""The installed packages that own the files of a record, and their versions.

A file of a package is named from it on every machine: ``transformers/models/...`` is of the package
``transformers``, which may be of a distribution with another name (``yaml`` of ``PyYAML``). The
versions are in reports and baselines, since another version of a package contains other code.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from pytest_graphbreak.model.record import Record


@cache
def version(package: str) -> str | None:
    """Return the installed version of a package, without importing it; once in each process."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def owner(file: str) -> str:
    """Return the package that a place in this file would belong to: ``transformers``, ``six``."""
    return file.partition("/")[0].removesuffix(".py")


def owners(files: Iterable[str], root: Path) -> dict[str, str]:
    """Return the installed packages that own some of these files, with their versions, by name.

    ``root`` is the repository: files in it are the user's own, and belong to no package, even if
    one has the name of their folder. Code without a file is named ``<...>``.
    """
    versions_by_name: dict[str, str] = {}
    for file in dict.fromkeys(files):
        name = owner(file)
        if not name or name in versions_by_name or file.startswith("<") or (root / file).is_file():
            continue
        if installed := _owner_version(name):
            versions_by_name[name] = installed
    return dict(sorted(versions_by_name.items()))


def files_of(record: Record) -> Iterator[str]:
    """Yield the files of every place in a record."""
    for items in (record.breaks, record.eager, record.recompile_list, record.graph_list):
        for item in items:
            if item.where.file:
                yield item.where.file


@cache
def _owner_version(name: str) -> str | None:
    """Return a version by distribution name, or by what it installs if the two differ."""
    return version(name) or next(iter(map(version, _distributions().get(name, ()))), None)


@cache
def _distributions() -> Mapping[str, list[str]]:
    """Return distributions by what is imported (``yaml`` of ``PyYAML``); reads them all, once."""
    return importlib.metadata.packages_distributions()
