"""The JSON Schemas that ship with the package, held to the code and to examples."""

from __future__ import annotations

import copy
import json
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from pytest_graphbreak.baseline import BaselineError, update
from pytest_graphbreak.baseline.read import document
from pytest_graphbreak.baseline.schemas import HOME, derive
from pytest_graphbreak.baseline.schemas import SCHEMAS as DERIVED
from pytest_graphbreak.model.differences import FAILING, STRICT
from pytest_graphbreak.model.items import Break, Eager, Frame, Graph, Recompile
from pytest_graphbreak.model.json import entry_json
from pytest_graphbreak.model.layers import CAUSES, LAYERS
from pytest_graphbreak.model.merging import merge, record_of
from pytest_graphbreak.model.record import Frames, Record
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.model.versions import COMPILERS
from tests.baseline.generated import make, measurement
from tests.baseline.refused import FULL, REFUSED
from tests.examples import examples
from tests.report.tools import unlike_spots
from tests.reports import Data, a_report, a_test, over
from tests.untrusted import at

pytestmark = pytest.mark.pure

SCHEMAS = {name: derived() for name, derived in DERIVED.items()}
REPORT = Draft202012Validator(SCHEMAS["report"])
BASELINE = Draft202012Validator(SCHEMAS["baseline"])


@pytest.mark.parametrize("data", SCHEMAS.values(), ids=SCHEMAS)
def test_the_schemas_are_schemas(data: dict[str, Any]) -> None:
    assert data["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(data)


# the baseline file


def test_the_example_of_a_baseline() -> None:
    BASELINE.validate(yaml.safe_load(FULL))


@given(st.integers(0, 2**32))
@examples(60)
def test_what_is_written_is_valid(seed: int) -> None:
    rng = random.Random(seed)
    made = make(rng)
    BASELINE.validate(yaml.safe_load(made.text))
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "test_a.yaml").write_bytes(made.text.encode())
        measured = [measurement(rng, test, raw) for test, raw in made.data.items()]
        measured += [measurement(rng, "test_new", {})]
        update(directory, measured)
        update(directory / "new", measured)
        for path in directory.rglob("*.yaml"):
            BASELINE.validate(yaml.safe_load(path.read_text("utf-8")))


BEYOND = (
    *("duplicate", "same place twice", "anchor", "alias"),
    *("tag", "no count", "second YAML", "<<"),
)
"""What the reader refuses and no schema can see: the parser does not tell."""


def has_text_keys(data: Any) -> bool:
    """Whether data could be JSON; a schema says nothing of other keys."""
    if isinstance(data, list):
        return all(has_text_keys(item) for item in data)
    if isinstance(data, dict):
        return all(isinstance(key, str) and has_text_keys(data[key]) for key in data)
    return True


def test_what_the_reader_refuses_is_invalid() -> None:
    seen = 0
    for text, _, message in REFUSED:
        if any(word in message for word in BEYOND):
            continue
        try:
            data = yaml.safe_load(text)
        except yaml.YAMLError:
            continue
        if not has_text_keys(data):
            continue
        seen += 1
        assert not BASELINE.is_valid(data), (text, message)
    assert seen > 40


TEXTS = st.sampled_from(["a", "b c", "2.9", "", " ", "dynamo"])
SCALARS = TEXTS | st.integers(-2, 3) | st.none() | st.booleans() | st.just(1.5)


COUNTS = SCALARS | st.dictionaries(
    st.sampled_from([*LAYERS, "cuda"]), st.integers(0, 3) | SCALARS, max_size=3
)
PLACE = st.fixed_dictionaries(
    {"where": TEXTS},
    optional={"code": TEXTS, "reason": SCALARS, "id": TEXTS, "count": SCALARS, "line": SCALARS},
)
PLACES = st.lists(PLACE, max_size=1) | SCALARS
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "torch": TEXTS | SCALARS,
    "jax": TEXTS | SCALARS,
    "graphs": COUNTS,
    "recompiles": COUNTS,
    "breaks": PLACES,
    "eager": PLACES,
}
OVERRIDES = st.dictionaries(TEXTS, st.fixed_dictionaries({}, optional=VALUES) | SCALARS, max_size=1)
REMARKS = {"note": SCALARS, "ungated": SCALARS}
ENTRY = st.fixed_dictionaries(
    {}, optional={**VALUES, **REMARKS, "profile": TEXTS, "overrides": OVERRIDES, "other": SCALARS}
)
CASES = st.fixed_dictionaries(
    {"cases": st.dictionaries(TEXTS, ENTRY, max_size=2)}, optional={**REMARKS, "graphs": COUNTS}
)
BASELINES = st.fixed_dictionaries(
    {
        "version": st.sampled_from([1, 1, 1, 1, 2, "1"]),
        "profile": st.sampled_from(["cpu", "cpu", "cpu", 3, ""]),
        "tests": st.dictionaries(TEXTS, ENTRY | CASES | SCALARS, max_size=2),
    },
    optional=dict.fromkeys(COMPILERS, st.sampled_from(["2.9", "2.10.1", "x", 2.9])),
)


@given(BASELINES)
@examples(500)
def test_the_schema_and_the_reader_agree(data: Any) -> None:
    text = yaml.safe_dump(data, sort_keys=False)
    try:
        document(text, Path("x.yaml"), "x.py")
    except BaselineError:
        accepted = False
    else:
        accepted = True
    assert BASELINE.is_valid(data) is accepted, text


# the report

FRAME = Frame("yolo/head.py", "Head.forward", 88, "if scores.max().item() > self.threshold:")


def full_record(layers: Sequence[str]) -> Record:
    """A record in which nothing is empty."""
    return merge(
        [
            record_of(
                layer,
                graphs=2,
                recompiles=1,
                frames=Frames(3, 2),
                breaks=(Break(layer, "why", FRAME, "GB0124", "since", ("try",), 2, (FRAME,)),),
                eager=(Eager(layer, "skipped"), Eager(layer, "limit", FRAME, 3)),
                recompile_list=(Recompile(layer, "0/1", "guard", FRAME),),
                graph_list=(
                    *(
                        Graph(layer, f"0/{index}", cause)
                        for index, cause in enumerate(CAUSES[layer])
                    ),
                    Graph(
                        layer, "1/0", "recompile", 12, 2, 1, "abc", ("0/0",), "7", FRAME, "r", "m.0"
                    ),
                ),
                errors=("could not see",),
                notes=("a note",),
            )
            for layer in layers
        ]
    )


def as_written(record: Record) -> Data:
    """The keys of a record as a reader of the file has them."""
    test = json.loads(json.dumps(entry_json(TestReport("t", "passed", record=record))))
    return {key: test[key] for key in test if key not in TestReport.__struct_fields__}


KNOWN = {"where": "a.py::f", "code": "x", "count": 1, "reason": None, "id": "GB1"}
FACTS: Data = {
    "settings": {"torch._dynamo.config.capture_scalar_outputs": True},
    "leaks": {"stance": "force_eager", "grad_mode": False},
    "setup": {"graphs": {"dynamo": 1}},
    "baseline": {"graphs": {"dynamo": 1, "xla": 1}, "breaks": [KNOWN]},
    "budget": {"graphs": {"dynamo": 1, "xla": 1}},
}


def full_report(layers: Sequence[str] = ("dynamo", "xla")) -> Data:
    """A test in which every key has something, and one in which none has."""
    test = over(**as_written(full_record(layers)) | FACTS)
    empty = a_test("tests/test_a.py::skipped", 0, **as_written(Record()) | {"outcome": "skipped"})
    names: Data = {name: ["tests/test_a.py::test_c"] for name in ("unmeasured", "stale")}
    report = a_report(test, empty, complete_files=["tests/test_a.py"], **names)
    report["environment"]["packages"] = {"transformers": "5.23.0"}
    return report


def test_a_whole_report() -> None:
    REPORT.validate(full_report(LAYERS))


OPTIONAL = {"reason", "id", "code", "count", "breaks", *LAYERS}
"""What may be missing: layers of counts, and what the ``baseline`` of a test leaves out."""


LATER = {"changes", "phases", "collected_whole", "deselected_tests"}
"""What reports of earlier versions lack."""


FREE = {"packages", "settings", "leaks"}
"""Mappings whose keys are names of packages and settings, any of them."""


def test_every_key_is_always_there() -> None:
    report = full_report()
    for path in unlike_spots(report):
        if not path or not isinstance(path[-1], str):
            continue
        less = copy.deepcopy(report)
        del at(less, path[:-1])[path[-1]]
        optional = path[-1] in OPTIONAL and ("baseline" in path or path[-1] in LAYERS)
        optional |= path[-1] in LATER
        optional |= not FREE.isdisjoint(path[:-1])
        optional &= path[0] != "environment" or "packages" in path  # jax is a version, and a layer
        assert REPORT.is_valid(less) is optional, path


def test_every_value_has_its_type() -> None:
    report = full_report()
    for path in unlike_spots(report):
        if path:
            wrong = copy.deepcopy(report)
            at(wrong, path[:-1])[path[-1]] = [1.5]
            assert not REPORT.is_valid(wrong), path


def test_unknown_keys_are_let_through() -> None:
    report = full_report()
    for path in unlike_spots(report):
        more = copy.deepcopy(report)
        node = at(more, path)
        if isinstance(node, dict) and node and not {*node} <= {*LAYERS} and FREE.isdisjoint(path):
            node["a key of a later version"] = [1]
            assert REPORT.is_valid(more), path


@pytest.mark.parametrize("path", sorted(HOME.glob("*.json")), ids=lambda path: path.stem)
def test_the_files_have_the_lists_of_the_code(path: Path) -> None:
    assert path.read_text("utf-8") == derive(path.stem), (
        "python -m pytest_graphbreak.baseline.schemas"
    )


def test_the_schema_knows_the_words_of_the_code() -> None:
    definitions = SCHEMAS["report"]["$defs"]
    causes = {cause for layer in LAYERS for cause in CAUSES[layer]}
    assert set(definitions["cause"]["enum"]) == causes
    assert tuple(definitions["layer"]["enum"]) == LAYERS
    verdicts = definitions["Test"]["properties"]["verdict"]["enum"]
    assert {*FAILING, *STRICT} <= set(verdicts)
