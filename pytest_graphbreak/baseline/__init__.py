"""Baseline files: read strictly, resolved by profile, changed entry by entry.

``form`` has the types of what a file may contain, ``model`` the data, ``rules`` what is done with
each key of an entry, and what a profile is judged by. ``tree`` and ``read`` turn text into data,
``render`` turns it back and ``editor`` puts it in place. ``plan`` computes what an entry becomes,
``files`` reads and replaces single files, ``store`` maps node ids to files and looks up the entries
of a directory, ``update`` brings them to what was measured, and ``changes`` describes the result.
``schemas`` derives the JSON Schemas of baseline files and of the report.

Other rooms import the names below; what only one of them needs, they take from its module.
"""

from pytest_graphbreak.baseline.changes import Change, Changes, FileChange
from pytest_graphbreak.baseline.model import (
    BaselineError,
    Entry,
    Expected,
    Measured,
    Override,
)
from pytest_graphbreak.baseline.store import Baselines, baseline_path, refuse_file, split_nodeid
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
    "refuse_file",
    "split_nodeid",
    "update",
]
