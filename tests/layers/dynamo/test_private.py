"""Which private names are needed in which torch. That they are there, ``test_dynamo`` shows."""

from __future__ import annotations

import pytest

from pytest_graphbreak.layers.dynamo import private as names
from pytest_graphbreak.layers.private_names import MissingName

SILENT = {names.UNSUPPORTED_INIT, names.RESTART, names.STEP}


@pytest.mark.parametrize(
    ("version", "more"),
    [
        ("2.9.1", {names.BREAK_29, names.SKIP, *SILENT}),
        ("2.10.0", {names.BREAK, names.SKIP}),
        ("2.11.0", {names.BREAK}),
        ("2.15.0", {names.BREAK}),
        ("2.99.0", {names.BREAK}),
    ],
)
def test_what_a_version_needs(version: str, more: set[names.Name]) -> None:
    always = {name for name in names.NAMES if name.since == (2, 9) and name.until == names.LATEST}
    assert names.COMPILE in always
    assert set(names.required_names(version)) == always | more


def test_every_name_is_in_the_table_once() -> None:
    rows = {value for value in vars(names).values() if isinstance(value, names.Name)}
    tables = (*names.NAMES, *names.LATE, *names.SETTINGS, *names.ISOLATION)
    assert {*tables} == rows
    assert len(tables) == len(rows)


def test_a_module_that_is_gone_is_named() -> None:
    name = names.Name("torch._no_such_module", "a.b", "nothing can be seen")
    with pytest.raises(MissingName, match=r"torch\._no_such_module\.a\.b .* nothing can be seen"):
        names.find(name)


def test_an_inherited_function_is_not_the_one() -> None:
    name = names.Name("collections", "OrderedDict.__class_getitem__", "nothing can be seen")
    with pytest.raises(MissingName):
        names.find(name)
