"""Maps node ids to baselines: the file and the key, never outside the directory."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_graphbreak.baseline.model import BaselineError
from pytest_graphbreak.model.budget import writable

SUFFIX = ".yaml"
_BARE = ".~"
"""The end of the name for a test file without a dot, so that ``test_a`` differs from ``test_a.py``.
"""


def split_nodeid(nodeid: str) -> tuple[str, str, str | None]:
    """Return file, test and case of a node id.

    The file is the text before the first ``::``. The case is the text between the first ``[`` and
    the last ``]`` of what follows, if that ends with ``]``; both may contain ``/``, ``::``,
    brackets, quotes and newlines. Raises ``BaselineError`` if the id names no test, or a file that
    is not inside the root directory.
    """
    file, colons, name = nodeid.partition("::")
    if not colons or not name:
        raise BaselineError(f"{nodeid!r} is not the node id of a test (file::test)")
    _refuse_outside(nodeid, file)
    test, bracket, case = name.partition("[")
    if test and bracket and case.endswith("]"):
        return file, writable(test), writable(case[:-1])
    return file, writable(name), None


def baseline_path(directory: Path, file: str) -> Path:
    """Return the path of the baseline of a test file: its path, mirrored under ``directory``.

    ``test_a.py`` has ``test_a.yaml``; any other name keeps its suffix (``test_a.txt.yaml``), and so
    does a Python file with a dot in its stem (``test_a.b.py.yaml``), so that no two files share a
    baseline.
    """
    _refuse_outside(file, file)
    parent, _, name = file.rpartition("/")
    stem = name.removesuffix(".py")
    if stem == name or "." in stem or not stem:
        stem = name + _BARE if "." not in name or name.endswith(_BARE) else name
    return Path(directory, parent, stem + SUFFIX)


def mirrored_file(directory: Path, path: Path) -> str:
    """Return the test file that a baseline mirrors, as the inverse of ``baseline_path``."""
    parent, slash, name = path.relative_to(directory).as_posix().rpartition("/")
    stem = name.removesuffix(SUFFIX)
    file = stem.removesuffix(_BARE) if "." in stem else stem + ".py"
    return parent + slash + (file or stem)


def resolve(directory: Path, path: Path) -> Path:
    """Return the real path of a baseline file.

    Raises ``BaselineError`` if a link leads out of ``directory``.
    """
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
    """Return whether the system can represent the name; it cannot represent lone surrogates."""
    try:
        os.fsencode(file)
    except UnicodeEncodeError:
        return False
    return True
