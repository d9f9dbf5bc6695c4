"""Baseline files: read strictly, resolved by profile, changed entry by entry.

``form`` has the types of what a file may contain, ``model`` the data and the rules of profiles,
``paths`` maps node ids to files, ``tree`` and ``read`` turn text into data and ``render`` turns it
back, ``plan`` computes what an entry becomes, ``store`` reads the files of a directory and replaces
them, ``update`` brings them to what was measured, and ``changes`` describes the result.
"""

from pytest_graphbreak.baseline.changes import Change, Changes, FileChange
from pytest_graphbreak.baseline.model import (
    BaselineError,
    Entry,
    Expected,
    Measured,
    Override,
)
from pytest_graphbreak.baseline.paths import baseline_path, split_nodeid
from pytest_graphbreak.baseline.store import Baselines
from pytest_graphbreak.baseline.update import preview, update
from pytest_graphbreak.model.budget import BaselinePlace, Values

__all__ = [
    "BaselineError",
    "BaselinePlace",
    "Baselines",
    "Change",
    "Changes",
    "Entry",
    "Expected",
    "FileChange",
    "Measured",
    "Override",
    "Values",
    "baseline_path",
    "preview",
    "split_nodeid",
    "update",
]
