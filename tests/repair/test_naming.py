"""Places of patched copies have the names of the user's own file."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_graphbreak.model.record import Frame, Recompile, Record
from pytest_graphbreak.repair.naming import Names

pytestmark = pytest.mark.pure


def test_each_place_of_a_recompile_is_in_the_users_file() -> None:
    names = Names(Path("a.py"), "import torch\nlosses.append(loss)\n", copies={"a_trial4_1f.py"})
    place = Frame("a_trial4_1f.py", "step", 9, "losses.append(loss)")
    recompile = Recompile("dynamo", "0/1", "not losses", place, guard=place, origin=place)
    (named,) = names.source_record(Record(("dynamo",), recompile_list=(recompile,))).recompile_list
    in_file = Frame("a.py", "step", 2, "losses.append(loss)")
    assert (named.where, named.guard, named.origin) == (in_file, in_file, in_file)
