"""Ids of tests from a template: ``tests/test_models.py::test_model[{name}]``."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from pytest_graphbreak.baseline import split_nodeid
from pytest_graphbreak.text.errors import UserError

_FIELD: Final = re.compile(r"\{([^{}]{0,40})\}")


class TemplateError(UserError):
    """A template that is no id of a test, or lacks ``{name}``. The message says what to write."""


def check(template: str, fields: Collection[str], also: str = "") -> None:
    """Raise ``TemplateError`` for an unknown field or none named ``name``.

    ``also`` says what other fields stand for. Raises ``BaselineError`` for what is no id of a test.
    """
    named = _FIELD.findall(template)
    unknown = [field for field in named if field not in fields]
    if unknown or "name" not in named:
        fault = f"{{{unknown[0]}}} is not known" if unknown else "has no {name}"
        raise TemplateError(
            f"--test {template}: {fault}; write the id of a test, with {{name}} for the model{also}"
        )
    split_nodeid(template)


def fill(template: str, values: Mapping[str, str]) -> str:
    """Return the id of the test. Raises ``BaselineError`` where it is none."""
    nodeid = _FIELD.sub(lambda found: values[found[1]], template)
    split_nodeid(nodeid)
    return nodeid
