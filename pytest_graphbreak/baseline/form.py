"""The contents of a baseline file as types, for reading, checking, writing and the schema.

``File`` has the keys of a file, and so on down: ``Test`` is an ``Entry`` or ``Cases`` of entries,
an entry has ``Override`` of other profiles, and both have places (``PlaceKeys``) and causes
(``CauseKeys``). ``read`` makes its readers of these types, ``schemas`` the JSON Schema. The keys of
an entry that were measured, in the order in which they are written, are the fields of
``model.budget.Values``, which says what each of them is.

What follows from other values is not written: ``shorten`` leaves it out, ``complete`` adds it.

    a record                                 in the file
    ops {dynamo: 9}, executions {dynamo: 1}  ops: {dynamo: 9}       one graph runs once
    ops {dynamo: 9}, executions unknown      ops: {dynamo: 9}, executions: {dynamo: 0}
    lines {"a.py::f sync: g()": 3}           lines: {a.py: {"f sync: g()": 3}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, Struct, defstruct

from pytest_graphbreak.model.budget import KEYS, PLACES_LAYER, RULES
from pytest_graphbreak.model.layers import BREAKING, BY_NAME, LAYERS
from pytest_graphbreak.model.versions import COMPILERS

VERSION: Final = 1
MOST: Final = 10**18 - 1
"""The largest count: 18 digits, as many as ``read`` takes."""
MOST_ENTRIES: Final = 8
"""The most functions that an entry names: of several, those with the most operations."""

Words = Annotated[str, Meta(pattern=r"\S")]
"""A text that is not blank."""
Name = Annotated[str, Meta(min_length=1)]
Version = Annotated[str, Meta(pattern=r"^[0-9]+\.[0-9]+([.+a-z][0-9A-Za-z.+]*)?$")]
"""A version, such as ``2.9``. ``read._text`` knows that only this and ``Words`` have a pattern."""
Layer = Annotated[str, Meta(extra_json_schema={"enum": list(LAYERS)})]
Breaking = Annotated[str, Meta(extra_json_schema={"enum": list(BREAKING)})]
AnyCause = Annotated[
    str, Meta(extra_json_schema={"enum": list(BY_NAME)}, extra={"checked": "with its layer"})
]
"""A cause of any layer. ``read`` checks it with its layer, and not by the list of this type."""
# ``extra`` of a type is for ``read`` alone, ``extra_json_schema`` is for the schema, too. ``holds``
# and ``item`` are words of messages: "graphs must be a mapping of layers to counts, ...", and
# "the case 'gpu' must be ...".
Count = Annotated[int, Meta(ge=0, le=MOST)]
Times = Annotated[int, Meta(ge=1, le=MOST)]
Counts = Annotated[
    dict[Layer, Count], Meta(extra={"holds": "layers to counts, such as {dynamo: 1}"})
]
Where = Annotated[str, Meta(description="file::qualified.name")]
Code = Annotated[str, Meta(description="The source line.")]


# ``read`` refuses unknown keys in files, where a typing error would be a limit that is not kept.


class PlaceKeys(Struct, kw_only=True, forbid_unknown_fields=True):
    """A place that breaks, or leaves the compiler."""

    layer: Annotated[Breaking, Meta(description="The layer that was left; dynamo if left out.")] = (
        PLACES_LAYER
    )
    reason: Annotated[
        Words,
        Meta(
            description="Why, in torch's words; compared with the same minor version of torch only."
        ),
    ] = ""
    id: Annotated[Words, Meta(description="The GB id; compared as the reason is.")] = ""
    where: Where
    code: Code = ""
    count: Annotated[Times, Meta(description="How often this place broke; 1 if left out.")] = 1


class CauseKeys(Struct, kw_only=True, forbid_unknown_fields=True):
    """Graphs of one cause and place."""

    layer: Layer
    cause: Annotated[AnyCause, Meta(description="Why the graphs exist.")]
    where: Where = ""
    code: Code = ""
    count: Annotated[Times, Meta(description="How many graphs; 1 if left out.")] = 1
    guard: Annotated[
        str, Meta(description="What varied where code was compiled again, without its values.")
    ] = ""
    called: Annotated[str, Meta(description="The line that called it then.")] = ""


def _with_description(kind: Any, description: str, **errors: str) -> Any:
    """Return a type with its description for the schema.

    ``errors`` are words for error messages about a mapping: what it ``holds``, and what precedes
    the key of an ``item``.
    """
    return Annotated[kind, Meta(description=description, extra=errors or None)]


_TYPES: Final[Mapping[str, Any]] = {
    "graphs": Counts,
    "counts": Counts,
    "runs": Counts,
    "ops": Counts,
    "entries": Annotated[list[Where], Meta(max_length=MOST_ENTRIES)],
    "lines": Annotated[
        dict[str, Annotated[dict[str, Count], Meta(extra={"holds": "lines to counts"})]],
        Meta(extra={"holds": "files to lines, such as {a.py: {'f sync: torch_xla.sync()': 3}}"}),
    ],
    "causes": list[CauseKeys],
    "places": list[PlaceKeys],
}
"""The type of a key in a file, by its rule."""

VALUES: Final = {
    name: _with_description(_TYPES[RULES[name]], str(meta.description))
    for name, meta in KEYS.items()
}
"""The keys of the values that were measured of a test."""

REMARKS: Final = {
    "note": _with_description(Words, "The user's own words; kept by every update."),
    "ungated": _with_description(Words, "Why the test is not judged."),
}
_VERSIONS = {
    name: _with_description(Version, f"The minor version of {name} that measured this, in quotes.")
    for name in COMPILERS
}


def _form(name: str, keys: dict[str, Any], required: tuple[str, ...] = ()) -> type[Struct]:
    """Return a Struct with these keys, all optional but those that are ``required``.

    A class cannot take its fields from a table, as ``VALUES`` and ``_VERSIONS`` are.
    """
    fields = [(key, kind) if key in required else (key, kind, UNSET) for key, kind in keys.items()]
    return defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)


Override: Final = _form("Override", {**_VERSIONS, **VALUES})
Entry: Final = _form(
    "Entry",
    {
        **REMARKS,
        "profile": _with_description(
            Words, "Where the plain values were measured, if not as the file says."
        ),
        **_VERSIONS,
        **VALUES,
        "overrides": _with_description(
            dict[Name, Override],  # type: ignore[valid-type]
            "The values of other profiles that differ, by the name of the profile.",
            holds="profiles to values",
            item="the override ",
        ),
    },
)
Cases: Final = _form(
    "Cases",
    {
        **REMARKS,
        "cases": _with_description(
            Annotated[dict[str, Entry], Meta(min_length=1)],  # type: ignore[valid-type]
            "Entries by parameter id.",
            holds="parameter ids to entries",
            item="the case ",
        ),
    },
)
Test = Annotated[
    Any,
    Meta(
        description="An entry; of a parametrized test its cases.",
        extra_json_schema={
            "if": {"type": "object", "required": ["cases"]},
            "then": {"$ref": "#/$defs/Cases"},
            "else": {"$ref": "#/$defs/Entry"},
        },
    ),
]
File: Final = _form(
    "File",
    {
        "version": Annotated[int, Meta(extra_json_schema={"const": VERSION})],
        "profile": _with_description(Words, "Where the plain values were measured."),
        **_VERSIONS,
        "packages": _with_description(
            dict[str, Words],
            "The packages that own places of these tests, and what versions were measured.",
            holds="names to versions",
        ),
        "tests": _with_description(
            dict[Name, Test],
            "Entries by the name of the test, as pytest has it after the first '::'.",
            holds="test names to entries",
            item="",
        ),
    },
    required=("version", "profile", "tests"),
)


def keys(form: type[Struct]) -> tuple[str, ...]:
    """Return the keys of a form, in the order in which they are written."""
    return form.__struct_fields__


def _usual_executions(layer: str, values: Mapping[str, Mapping[str, int]]) -> int:
    """Return how often the graphs of a layer run if each runs once, or 0 if that is unknown."""
    graphs = values["graphs"].get(layer, 0)
    return graphs if values["ops"].get(layer) else 0


def complete(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a file with what follows from them.

    A written 0 of ``executions`` says that they are not known: without it, each graph of a layer
    with ``ops`` has one.
    """
    values = {"graphs": {}, "ops": {}, "executions": {}, **written}
    counts = {layer: _usual_executions(layer, values) for layer in values["ops"]}
    counts |= values["executions"]
    values["executions"] = {layer: count for layer, count in counts.items() if count}
    if "lines" in written:  # a file has them by the names of their files
        values["lines"] = {
            f"{file}::{line}": count
            for file, lines in written["lines"].items()
            for line, count in lines.items()
        }
    return values


def shorten(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values without what follows from the others, as the inverse of ``complete``."""
    counts = {**dict.fromkeys(values["ops"], 0), **values["executions"]}
    unusual = {
        layer: count for layer, count in counts.items() if count != _usual_executions(layer, values)
    }
    by_file: dict[str, dict[str, int]] = {}
    for name, count in values["lines"].items():
        file, _, line = name.partition("::")
        by_file.setdefault(file, {})[line] = count
    return {**values, "executions": unusual, "lines": by_file}
