"""Windows over JAX from cleared caches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pytest_graphbreak.layers.jax.observer import JaxObserver
from pytest_graphbreak.layers.protocol import Window
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Record

PLACES = Places(Path(__file__).parents[3])


THREE = np.ones(3, np.float32)


def closed(window: Window) -> Record:
    record = window.close()
    assert record is not None
    return record


def watched(run: Callable[[], Any], *, cold: bool = True) -> Record:
    """What a window sees, from cleared caches if it is to be cold."""
    observer = JaxObserver()
    if cold:
        observer.isolate("test")
    window = observer.open(PLACES)
    try:
        run()
    finally:
        record = closed(window)
    return record


def isolated(run: Callable[[], Any]) -> int:
    """How many programs a window counts from cleared caches."""
    record = watched(run)
    assert not record.errors
    return record.graphs.get("jax", 0)


def returned(run: Callable[[], Any]) -> Any:
    """What one program returns in a window from cleared caches."""
    values: list[Any] = []
    assert isolated(lambda: values.append(run())) == 1
    return values[0]
