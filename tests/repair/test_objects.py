"""What a program holds, and how it gets it back."""

from __future__ import annotations

import pytest

from pytest_graphbreak.repair.objects import Reached

pytestmark = pytest.mark.once


class Holder:
    """An object of the program's, whose attributes are put back."""


def test_an_attribute_gets_its_name_back() -> None:
    held, value = Holder(), [1]
    vars(held)["before"] = value
    put_back = Reached({"held": held}).keep()
    vars(held).clear()
    vars(held)["after"] = value
    put_back()
    assert vars(held) == {"before": [1]}
