"""From a node id to its baseline: which file, which key. And never outside the directory."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_graphbreak.baseline.model import BaselineError
from pytest_graphbreak.model.budget import writable

SUFFIX = ".yaml"
_BARE = ".~"
"""Ends the name of a test file that has no dot, so that ``test_a`` is not ``test_a.py``."""


def split_nodeid(nodeid: str) -> tuple[str, str, str | None]:
    """File, test and case of a node id.

    The file is the text before the first ``::``. The case is the text in
    the first ``[`` and the last ``]`` of the rest, if the rest ends with one;
    both may hold ``/``, ``::``, brackets, quotes and newlines. ``BaselineError``
    if this names no test, or a file that is not inside the root directory.
    """
    file, colons, rest = nodeid.partition("::")
    if not colons or not rest:
        raise BaselineError(f"{nodeid!r} is not the node id of a test (file::test)")
    _refuse_outside(nodeid, file)
    test, bracket, case = rest.partition("[")
    if test and bracket and case.endswith("]"):
        return file, writable(test), writable(case[:-1])
    return file, writable(rest), None


def baseline_path(directory: Path, file: str) -> Path:
    """Where the baseline of a test file lives: its path, mirrored under ``directory``.

    ``test_a.py`` has ``test_a.yaml``; any other name keeps its suffix
    (``test_a.txt.yaml``), and so does a Python file with a dot in its stem
    (``test_a.b.py.yaml``): no two files share a baseline.
    """
    _refuse_outside(file, file)
    parent, _, name = file.rpartition("/")
    stem = name.removesuffix(".py")
    if stem == name or "." in stem or not stem:
        stem = name + _BARE if "." not in name or name.endswith(_BARE) else name
    return Path(directory, parent, stem + SUFFIX)


def mirrored_file(directory: Path, path: Path) -> str:
    """The inverse of ``baseline_path``: the test file that a baseline mirrors."""
    parent, slash, name = path.relative_to(directory).as_posix().rpartition("/")
    stem = name.removesuffix(SUFFIX)
    file = stem.removesuffix(_BARE) if "." in stem else stem + ".py"
    return parent + slash + (file or stem)


def inside(directory: Path, path: Path) -> Path:
    """The real path of a baseline file. ``BaselineError`` if a link leads out of ``directory``."""
    root, real = os.path.realpath(directory), os.path.realpath(path)
    if not real.startswith(root.rstrip(os.sep) + os.sep):
        raise BaselineError(
            f"a symbolic link leads out of the baselines, to {real}",
            path=path,
            step="put the file itself there",
        )
    return Path(real)


def _refuse_outside(nodeid: str, file: str) -> None:
    parts = file.split("/")
    if not file or "\0" in file:
        problem = "names no file"
    elif "\\" in file:
        problem = "has a backslash in its file name"
    elif file.startswith("/") or file[1:2] == ":":
        problem = "is not relative to the root directory"
    elif ".." in parts:
        problem = "is outside of the root directory"
    elif "." in parts or "" in parts:
        problem = "has an empty part or a '.' in its path"
    elif not _is_encodable(file):
        problem = "has a character that no file name has"
    else:
        return
    raise BaselineError(
        f"{nodeid!r} {problem}, and can have no baseline",
        step="run pytest with a rootdir that holds the test (--rootdir, or a pytest.ini there)",
    )


def _is_encodable(file: str) -> bool:
    """Whether the system can name such a file; a lone surrogate of a JSON text is no character."""
    try:
        os.fsencode(file)
    except UnicodeEncodeError:
        return False
    return True
