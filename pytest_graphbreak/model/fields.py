"""Kinds of keys that records, budgets and reports share: layers, causes, counts, texts, notes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pytest_graphbreak.model.forms import (
    Checked,
    Form,
    MapOf,
    Maybe,
    OneOf,
    Plain,
    ReadMode,
    Step,
    TextUpTo,
    number,
)
from pytest_graphbreak.model.layers import BY_NAME, LAYERS

MOST_SETTINGS: Final = 1000
LONGEST_FACT: Final = 200
"""Characters of a version, a device, a platform; what is over is cut."""

LAYER: Final = OneOf(LAYERS, "layer", "Where graphs are counted.")
CAUSE: Final = OneOf(
    tuple(BY_NAME),
    "cause",
    "Why the graph exists. dynamo: entry, break, callee, bucket, recompile; "
    "xla and tt: the others and recompile.",
)
FACT: Final = TextUpTo(LONGEST_FACT)

Text = Annotated[str, TextUpTo()]
Count = Annotated[int, number(0)]
Times = Annotated[int, number(1)]
LayerName = Annotated[str, LAYER]
Counts = Annotated[Mapping[str, int], MapOf(LAYER, number(0))]
"""Numbers by layer."""
Made = Annotated[Mapping[str, int], MapOf(LAYER, number(0), zero=False)]
"""As ``Counts``; what is zero is left out."""
Functions = Annotated[Mapping[str, int], MapOf(TextUpTo(), number(0))]
"""Numbers of operations by ``file::qualified.name``."""


def _setting(value: Any) -> Any:
    plain = value is None or type(value) in (bool, int, float)
    return value if plain else FACT.reader(ReadMode.WHOLE)(value)


Settings = Annotated[
    Mapping[str, Any],
    MapOf(
        FACT,
        Checked(_setting, {"type": ["boolean", "number", "string", "null"]}),
        MOST_SETTINGS,
        "settings",
    ),
]
"""Flags, numbers and text by the names of settings of torch."""


class Joined(Form):
    """Notes as one text, or null."""

    def reader(self, how: ReadMode) -> Step:
        text = _NOTE.reader(how)

        def read(value: Any) -> tuple[str, ...]:
            return () if value is None else tuple(text(value).split(AND))

        return read

    def writer(self) -> Step:
        return lambda notes: AND.join(notes) or None

    def schema(self, definitions: Plain) -> Plain:
        return _NOTE.schema(definitions)


_NOTE: Final = Maybe(TextUpTo())
AND: Final = "; "
"""Between the notes of a record."""


class AnyCause(Form):
    """One of the causes; what a report of a later version names is taken, too."""

    def reader(self, how: ReadMode) -> Step:
        return TextUpTo().reader(how)

    def schema(self, definitions: Plain) -> Plain:
        return CAUSE.schema(definitions)
