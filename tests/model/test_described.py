"""What a type says of JSON: reading, bounds, writing and the schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import pytest

from pytest_graphbreak.model.described import Described, JsonKey, read, schema
from pytest_graphbreak.model.forms import BadValue, ReadMode, TextUpTo, number
from pytest_graphbreak.model.report import TestReport


@dataclass(frozen=True, slots=True)
class Leaf(Described):
    DEFINITION: ClassVar = "leaf"

    name: Annotated[str, TextUpTo(8)]
    count: Annotated[int, number(1)] = 1


@dataclass(frozen=True, slots=True)
class Tree(Described):
    ABOUT: ClassVar = {"size": "How large it is."}
    ORDER: ClassVar = ("size", "all")

    leaves: Annotated[tuple[Leaf, ...], JsonKey("Its leaves.", name="all")] = ()
    high: Annotated[int, number(0), JsonKey(within="size")] = 0
    root: Leaf | None = None
    words: Annotated[tuple[Annotated[str, TextUpTo()], ...], JsonKey(detail=True)] = ()

    @property
    def total(self) -> Annotated[int, number(0), JsonKey("All of them.")]:
        return sum(leaf.count for leaf in self.leaves)


TREE = Tree((Leaf("a", 2), Leaf("b")), 3, Leaf("r"), ("w",))
JSON = {
    "size": {"high": 3},
    "all": [{"name": "a", "count": 2}, {"name": "b", "count": 1}],
    "root": {"name": "r", "count": 1},
    "words": ["w"],
    "total": 3,
}


def test_what_is_written_is_read_again() -> None:
    assert TREE.to_dict() == JSON
    assert list(TREE.to_dict()) == list(JSON)
    assert Tree.from_dict(JSON) == read(Tree, JSON) == TREE
    assert read(Tree, {"later": [1]}) == Tree()


def test_details_are_left_out_where_only_counts_are_read() -> None:
    assert read(Tree, JSON | {"words": 1}, ReadMode.COUNTS).words == ()


@pytest.mark.parametrize(
    ("data", "place", "words"),
    [
        ([], "", "a list where a mapping is expected"),
        ({"all": [{"name": "a"}, {}]}, "all[1].name", "this key is missing"),
        ({"all": [{"name": "a", "count": 0}]}, "all[0].count", "0 is not a count"),
        ({"size": {"high": -1}}, "size.high", "-1 is not a count"),
        ({"size": 1}, "size", "a number where a mapping is expected"),
        ({"root": {"name": None}}, "root.name", "null where text is expected"),
    ],
)
def test_what_is_wrong_has_its_place(data: object, place: str, words: str) -> None:
    with pytest.raises(BadValue) as caught:
        read(Tree, data)
    assert (caught.value.place, caught.value.message) == (place, words)


def test_text_of_strangers_is_cut_and_our_own_is_not() -> None:
    long = {"name": "x" * 20}
    assert read(Leaf, long).name == "xxxxx..."
    assert Leaf.from_dict(long).name == "x" * 20


def test_the_schema_says_the_same() -> None:
    found = schema(Tree)
    assert found["required"] == ["size", "all", "root", "words", "total"]
    assert found["properties"]["all"]["items"] == {"$ref": "#/$defs/leaf"}
    assert found["properties"]["root"] == {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/leaf"}]}
    assert found["$defs"]["leaf"]["required"] == ["name", "count"]


def test_a_test_of_a_report_before_0_2() -> None:
    test = read(TestReport, {"nodeid": "t.py::t", "outcome": "passed", "layers": ["dynamo"]})
    assert (test.record.settings, test.leaks, test.verdict) == ({}, {}, "none")
