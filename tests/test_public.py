"""The public names of the package, and what they refuse."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import pytest_graphbreak
from pytest_graphbreak.judging.cap import Limits
from pytest_graphbreak.model.layers import LAYERS

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("name", pytest_graphbreak.__all__)
def test_a_public_name_is_there(name: str) -> None:
    found = getattr(pytest_graphbreak, name)
    assert found.__name__ == name
    assert name in dir(pytest_graphbreak)
    home = importlib.import_module(found.__module__)
    assert getattr(home, name) is found


def test_another_name_is_an_import_error() -> None:
    with pytest.raises(ImportError, match="Nonsense"):
        from pytest_graphbreak import Nonsense  # noqa: F401


def test_the_package_alone_imports_nothing_of_torch_and_pytest() -> None:
    code = "import sys, pytest_graphbreak; print({'torch', 'pytest', 'yaml'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_type_checker_knows_every_limit() -> None:
    others = {"recompiles", "breaks", "executions", "reads", "compiled"}
    assert Limits.__optional_keys__ == {*LAYERS, *others}


@pytest.mark.parametrize(
    ("limits", "wrong"),
    [({"bananas": 3}, "unknown argument 'bananas'"), ({"xla": -1}, "xla=-1 is not a count")],
)
def test_a_wrong_limit_is_refused_where_it_is_written(limits: dict[str, int], wrong: str) -> None:
    """At the call, before any block is entered."""
    with pytest.raises(pytest_graphbreak.CapError, match=wrong):
        pytest_graphbreak.observe(**limits)  # type: ignore[arg-type]
