"""Which part of the tests a run took."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pytest_graphbreak.model.report import Shard
from pytest_graphbreak.suite.collection import shard

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({}, None),
        ({"splits": 3, "group": 2}, Shard(group=2, of=3)),
        ({"splits": None, "group": None}, None),
        ({"num_shards": 4, "shard_id": 0}, Shard(group=1, of=4)),  # pytest-shard counts from 0
        ({"num_shards": 4, "shard_id": 3}, Shard(group=4, of=4)),
        ({"num_shards": 4}, None),
    ],
)
def test_the_shard_of_a_run(options: dict[str, object], part: Shard | None) -> None:
    config = SimpleNamespace(getoption=lambda name, default: options.get(name, default))
    assert shard(config) == part  # type: ignore[arg-type]
