"""The ini keys that the plugin and the commands on reports both read, and a checkout's values.

Commands find the configuration in the way pytest finds its rootdir, without running it, so that
only one place says where baselines are and whether the gate is strict.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from pytest_graphbreak.text.errors import UserError

BASELINES: Final = "baselines"
"""``graph_budget_dir``: the directory of the baselines, below the rootdir."""

NEW: Final = ("fail", "report")
"""``graph_budget_new``: whether a test without a baseline fails, or is only reported."""

RUNS: Final = ("report", "fail", "off")
"""``graph_budget_runs``: the effect of more executions or reads. ``off``: they are not counted."""

OPS: Final = 10.0
"""``graph_budget_ops``: by how many percent captured operations may fall."""


class Rules(Struct, frozen=True, kw_only=True):
    """The rules by which tests are judged, named after the options and ini keys.

    ``ops`` is None if captured operations may fall by any amount.
    """

    gate: bool = False
    update: bool = False
    record: bool = False
    prune: bool = False
    strict: bool = False
    new: str = "fail"
    ops: float | None = OPS
    runs: str = "report"


def percent(text: str) -> float | None:
    """Return the value of ``graph_budget_ops``: percent from 0 to 100, or None for ``off``.

    Raises ``ValueError`` with a message for the user.
    """
    if text.strip().lower() == "off":
        return None
    try:
        number = float(text.strip().removesuffix("%"))
    except ValueError:
        number = math.nan
    if not 0 <= number <= 100:
        raise ValueError(f"graph_budget_ops: {text!r} is not a percentage from 0 to 100, nor off")
    return number


CONFIG_FILES: Final = (
    "pytest.toml",
    ".pytest.toml",
    "pytest.ini",
    ".pytest.ini",
    "pyproject.toml",
    "tox.ini",
    "setup.cfg",
)
"""The files in which pytest looks for its configuration, in order (its docs, "Configuration")."""


class CheckoutError(UserError):
    """A configuration file that cannot be read or used. The message names it."""


class Checkout(Rules, frozen=True):
    """The settings of a checkout, with its ``root`` and the ``directory`` of its baselines.

    Test files are named from ``root``.
    """

    root: Path
    directory: Path


def find_checkout(start: Path, directory: str | None = None) -> Checkout:
    """Return the checkout around ``start``; ``directory`` (below it) overrides the ini file.

    Raises ``CheckoutError`` for a configuration file that is not readable, for a value that is not
    allowed, and for baselines that are in the checkout by name but really elsewhere.
    """
    root, keys = _find_config(start.absolute())
    if directory:
        baselines = start / directory
    else:
        baselines = root / str(keys.get("graph_budget_dir", BASELINES))
    refuse_link_out(root, baselines)
    try:
        ops = percent(str(keys.get("graph_budget_ops", OPS)))
    except ValueError as error:
        raise CheckoutError(f"{root}: {error}") from None
    return Checkout(
        root,
        baselines,
        gate=True,
        strict=_true(keys.get("graph_budget_strict", False)),
        new=_one_of(root, keys, "new", NEW, Rules().new),
        ops=ops,
        runs=_one_of(root, keys, "runs", RUNS, Rules().runs),
    )


def is_missing(root: Path, directory: Path) -> bool:
    """Return whether another directory than the default one was named, and it is not there."""
    return directory != root / BASELINES and not directory.exists()


def _one_of(
    root: Path, keys: Mapping[str, Any], key: str, allowed: tuple[str, ...], default: str
) -> str:
    """Return the value of an ini key, or ``default`` if it is not set."""
    value = str(keys.get(f"graph_budget_{key}", "") or default).strip()
    if value not in allowed:
        words = f"{value!r} is not one of {', '.join(allowed)}"
        raise CheckoutError(f"{root}: graph_budget_{key}: {words}")
    return value


def refuse_link_out(root: Path, directory: Path) -> None:
    """Refuse a link: an untrusted checkout must not choose what is read and written elsewhere.

    Raises ``CheckoutError``.
    """
    path = Path(os.path.abspath(directory))
    real = Path(os.path.realpath(directory))
    if path.is_relative_to(root) and not real.is_relative_to(os.path.realpath(root)):
        raise CheckoutError(
            f"{path}: a symbolic link leads out of the checkout, to {real}; "
            f"if that is intended, name it: --graph-budget-dir {real}"
        )


def _find_config(start: Path) -> tuple[Path, Mapping[str, Any]]:
    """Return pytest's rootdir for a run that is typed in ``start``, and pytest's section.

    It is the nearest directory with a section; without any, the nearest with a ``pyproject.toml``,
    then the nearest with a ``setup.py``, then ``start`` itself (its docs, "Finding the rootdir").
    """
    folders = (start, *start.parents)
    for folder in folders:
        for name in CONFIG_FILES:
            path = folder / name
            if path.is_file():
                keys = _keys(path)
                if keys is not None:
                    return folder, keys
    for name in ("pyproject.toml", "setup.py"):
        for folder in folders:
            if (folder / name).is_file():
                return folder, {}
    return start, {}


def _keys(path: Path) -> Mapping[str, Any] | None:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise CheckoutError(f"{path}: cannot be read: {error}") from None
    return keys_of(path, text)


def keys_of(path: Path, text: str) -> Mapping[str, Any] | None:
    """Return pytest's section in the text of a file, or None if it has none.

    Raises ``CheckoutError`` for a text that is not in the format of ``path``.
    """
    from configparser import Error

    try:
        section = next(iter(_sections(path, text)), None)
    except (ValueError, Error, RecursionError) as error:
        words = str(error).replace("\n", " ")
        raise CheckoutError(f"{path}: cannot be read: {words}") from None
    if section is None and path.name in ("pytest.ini", ".pytest.ini"):
        return {}  # these are used even if they are empty
    return section


def _sections(path: Path, text: str) -> Iterator[Mapping[str, Any]]:
    if path.suffix == ".toml":
        data = _toml(text)
        if path.name != "pyproject.toml":
            yield _table(data, "pytest")
            return
        tool = _table(data, "tool")
        if "pytest" in tool:
            # pytest 9 reads the keys of [tool.pytest] itself, older versions those below
            # ini_options.
            pytest = _table(tool, "pytest")
            if "ini_options" in pytest:
                yield _table(pytest, "ini_options")
            elif pytest:  # pytest passes over an empty [tool.pytest]
                yield pytest
        return
    from configparser import ConfigParser

    parser = ConfigParser(interpolation=None, strict=False, allow_no_value=True)
    parser.read_string(text)
    section = "tool:pytest" if path.name == "setup.cfg" else "pytest"
    if parser.has_section(section):
        yield dict(parser[section])


def _toml(text: str) -> dict[str, Any]:
    # tomli is a dependency of pytest if Python has no tomllib.
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    document: dict[str, Any] = toml.loads(text)
    return document


def _table(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return a table of a TOML file, empty if there is none."""
    table = data.get(key, {})
    if not isinstance(table, dict):
        raise ValueError(f"{key} is no table")
    return table


def _true(value: object) -> bool:
    """Return what pytest takes for true in an ini file, or a true of TOML."""
    return value is True or str(value).strip().lower() in ("1", "yes", "true", "on")
