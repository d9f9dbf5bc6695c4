"""Which function a graph below Dynamo belongs to that comes without a compile id."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from pytest_graphbreak.layers.dynamo import private
from pytest_graphbreak.layers.dynamo.captures import LATEST, Captures
from pytest_graphbreak.layers.dynamo.notes import Notes

pytestmark = pytest.mark.once


def test_what_is_forgotten_is_forgotten_in_every_thread() -> None:
    """A thread of a pool lives on from one test to the next."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(LATEST.begin).result()
        LATEST.forget()
        function = LATEST.begin()
        assert pool.submit(LATEST.get).result() is function


class Loaded:
    """A function compiled ahead of time that nothing has deserialized."""

    fn = None
    _artifacts = SimpleNamespace(guard_manager=None, original_code=None, backend_id="b")


def test_a_load_does_not_rename_what_was_captured_before() -> None:
    captures = Captures(Notes())
    captures.capture(None)
    captured = LATEST.get()
    captures.hooks[private.AOT_FUNCTION](lambda loaded: None, Loaded())
    loaded = LATEST.get()
    assert (captured.name, loaded.name) == ("capture/0", "capture/1")
