"""All that users see of the recorded situations is as it was: ``python -m tests.golden``."""

from __future__ import annotations

import difflib

import pytest

from tests.golden import replay
from tests.golden.situation import DATA, Situation, situations

ALL = situations()


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_outputs_are_as_before(one: Situation) -> None:
    found = replay.outputs(one)
    known = {
        path.name: path.read_text() for path in one.folder.iterdir() if path.name != "before.json"
    }
    differences = [
        line
        for name in sorted({*known, *found})
        for line in difflib.unified_diff(
            known.get(name, "").splitlines(),
            found.get(name, "").splitlines(),
            f"{one.name}/{name}",
            f"{one.name}/{name} now",
            lineterm="",
        )
    ]
    assert not differences, (
        "\n".join(differences[:100])
        + "\nIf this is meant: python -m tests.golden, and read git diff tests/golden/data"
    )


def test_each_folder_is_of_a_situation() -> None:
    assert sorted(path.name for path in DATA.iterdir()) == [one.name for one in ALL]
