"""Windows over JAX from cleared caches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pytest_graphbreak.layers.jax.observer import JaxObserver
from pytest_graphbreak.model.places import Places
from pytest_graphbreak.model.record import Record

PLACES = Places(Path(__file__).parents[3])


THREE = np.ones(3, np.float32)


def watched(run: Callable[[], Any]) -> Record:
    """What a window sees from cleared caches."""
    observer = JaxObserver()
    observer.isolate("test")
    window = observer.open(PLACES)
    run()
    record = window.close()
    assert record is not None
    return record


def isolated(run: Callable[[], Any]) -> int:
    """How many programs a window counts from cleared caches."""
    record = watched(run)
    assert not record.errors
    return record.graphs.get("jax", 0)
