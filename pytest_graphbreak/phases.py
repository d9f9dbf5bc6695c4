"""Hooks around setup and teardown, registered where every test is measured.

Apart from ``plugin``, whose hooks run in every pytest run of the environment: a
wrapper that does nothing still costs each test of the user's something.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from pytest_graphbreak.gate import GATE


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from item.config.stash[GATE].phase(item, "setup"))


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    return (yield from item.config.stash[GATE].phase(item, "teardown"))
