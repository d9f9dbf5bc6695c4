"""Hooks around set-up, fixtures and tear-down, registered where a test is measured.

Apart from ``plugin``, whose hooks run in every pytest run of the environment: a
wrapper that does nothing still costs each test of the user's something.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from pytest_graphbreak.suite.gate import GATE


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    gate = item.config.stash[GATE]
    if not gate.measures(item):
        return (yield)
    return (yield from gate.setup(item))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(request: pytest.FixtureRequest) -> Generator[None, object, object]:
    return (yield from request.config.stash[GATE].fixture(request.scope))


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    gate = item.config.stash[GATE]
    if not gate.measures(item):
        return (yield)
    return (yield from gate.teardown(item))
