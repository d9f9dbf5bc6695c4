"""What a test leaves in ``jax.config`` changes no count of a later one, and is reported."""

from __future__ import annotations

from typing import Any

import pytest

jax = pytest.importorskip("jax")

from pytest_graphbreak.layers import settings  # noqa: E402
from tests.conftest import Suite  # noqa: E402

TESTS = """
import jax
import numpy as np

jax.config.update("jax_default_matmul_precision", "highest")  # the suite's own: it stays

@jax.jit
def f(x):
    return x * 2 + 1

def test_alone():
    f(np.ones(3))

def test_leaves():
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_disable_jit", True)
    f(np.ones(3))

def test_enters():
    jax.debug_nans(True).__enter__()
    f(np.ones(3))

def test_after():
    assert f(np.ones(3)).dtype == np.float32
    assert not jax.config.jax_debug_nans
    assert jax.config.jax_default_matmul_precision == "highest"
"""


@pytest.fixture(autouse=True)
def _as_before() -> Any:
    before = settings.take()
    yield
    for key in settings.differing(before, settings.take()):
        settings.put_back(before, key)


def test_a_later_test_has_the_counts_that_it_has_alone(suite: Suite) -> None:
    suite.write(TESTS)
    report = suite.report()
    found = {test["nodeid"].partition("::")[2]: test for test in report["tests"]}
    assert {name: test["outcome"] for name, test in found.items()} == dict.fromkeys(found, "passed")
    assert found["test_after"]["graphs"] == found["test_alone"]["graphs"] == {"jax": 1}
    assert found["test_leaves"]["leaks"] == {
        "jax.config.jax_disable_jit": True,
        "jax.config.jax_enable_x64": True,
    }
    assert found["test_enters"]["leaks"] == {"jax.config.jax_debug_nans": True}
    assert "jax.config.jax_enable_x64 = True (it was False)" in found["test_leaves"]["note"]
    assert found["test_after"]["leaks"] == {}


def test_a_setting_of_this_thread_is_distinguished_from_that_of_all() -> None:
    before = settings.take()
    with jax.debug_nans(True):
        (key,) = settings.differing(before, inside := settings.take())
        (setting,) = settings.changes(before, inside, [key])
        assert (setting.name, setting.before, setting.after) == (
            "jax.config.jax_debug_nans",
            False,
            True,
        )
        assert not jax.config._value_holders["jax_debug_nans"].get_global()
    assert settings.differing(before, settings.take()) == []
    assert settings.unusual(before) == {}


def test_where_jax_keeps_its_settings_elsewhere_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from jax._src import config

    from pytest_graphbreak.layers.settings.configs import JaxEntries

    monkeypatch.setattr(config, "config", object())
    with pytest.raises(settings.MissingName, match="_value_holders is not there in this jax"):
        JaxEntries(config)
