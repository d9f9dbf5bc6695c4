"""The survey's page is what its data says, and its runs lose one model at most."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.survey import data, kinds, repaired, table
from benchmarks.survey.run import append, done

if TYPE_CHECKING:
    import pytest


def _result(name: str, **values: Any) -> dict[str, Any]:
    return {"model": name, "part": "base", "status": "ran", **values}


def test_the_page_is_what_the_data_says() -> None:
    listed = json.loads(data.LISTED.read_text("utf-8"))
    parts = (data.read(path) for path in (data.RESULTS, data.REPAIRS, data.DRAWN))
    unsought = data.read(data.RECORDED)
    assert table.PAGE.read_text("utf-8") == table.page(*parts, listed, unsought), (
        "renew it: python -m benchmarks.survey.table"
    )


def test_the_data_has_a_line_for_each_class_sorted() -> None:
    results = data.read(data.RESULTS)
    assert data.written(data.merged(results)) == data.RESULTS.read_text("utf-8")


def test_of_two_results_the_one_that_ran_stays() -> None:
    lost = {**_result("A"), "status": "stopped"}
    ran, later = _result("A", graphs=1), _result("A", graphs=2)
    assert data.merged([ran, lost]) == [ran]
    assert data.merged([lost, ran]) == [ran]
    assert data.merged([ran, later]) == [later]


def test_what_a_killed_run_left_is_read_without_its_last_line(tmp_path: Path) -> None:
    path = tmp_path / "survey.jsonl"
    append(path, _result("A"))
    with path.open("a") as file:
        file.write('{"model":"B","sta')
    assert [line["model"] for line in done(path)] == ["A"]
    append(path, _result("C"))
    assert [line["model"] for line in done(path)] == ["A", "C"]


def test_places_are_counted_by_class() -> None:
    item = {
        "file": "transformers/models/a/modeling_a.py",
        "function": "A.forward",
        "code": "x.item()",
        "line": 3,
        "reason": "Unsupported Tensor.item() call with capture_scalar_outputs=False",
        "id": "GB0124",
        "count": 2,
    }
    results = [_result("A", breaks=[item], graphs=2), _result("B", breaks=[item], graphs=3)]
    drawn = table.page(results, [], [], {"base": 3, "head": 0})
    assert "| not run yet | 1 |" in drawn
    assert "| **break at one place or more** | **2 (100.0%)** |" in drawn
    assert "| 2 | `a/modeling_a.py` `A.forward` `x.item()` | GB0124 Unsupported" in drawn
    assert "keep it a tensor" in drawn


def test_what_fix_did_is_summed_by_family_and_not_believed_where_outputs_differ() -> None:
    item = {
        "file": "transformers/vision_utils.py",
        "function": "get_vision_cu_seqlens",
        "code": "seqlens = torch.repeat_interleave(a, b)",
        "line": 3,
        "reason": "Dynamic shape operator",
        "id": "GB0036",
        "count": 1,
    }
    results = [_result(name, breaks=[item], graphs=3) for name in "ABC"]
    fixed = {"status": "ran", "graphs": [3, 1], "breaks": [1, 0]}
    repairs = [
        {"model": "A", **fixed, "unseen": {"equal": 4, "raise": 1, "differs": []}},
        {"model": "B", **fixed, "unseen": {"equal": 3, "raise": 0, "differs": ["values differ"]}},
    ]
    drawn = table.page(results, repairs, [], {"base": 3, "head": 0})
    assert "**1 of 2 are left without a break**" in drawn
    assert "| sizes of images in a tensor (`grid_thw`) | 3 | 2 | 1 | 2 | 0 | 6 | 2 |" in drawn
    assert "Not tried: C." in drawn


def test_repairs_are_counted_by_the_kind_that_promises_least(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fixed = {"status": "ran", "graphs": [3, 1], "breaks": [1, 0]}
    kept = {
        "A": ["the numbers are constants of the graph, which checks them", "loggers are silent"],
        "B": ["capture_scalar_outputs: .item() becomes a node of the graph"],
        "C": ["the masked assignment became torch.where", "capture_scalar_outputs: more"],
        "D": ["loggers are silent in compiled code"],
    }
    repairs = [{"model": name, **fixed, "kept": these} for name, these in kept.items()]
    seen = {"equal": 9, "raise": 1, "differs": ["batch: values differ"], "kinds": {"batch": 11}}
    drawn = [
        {
            "model": "B",
            **fixed,
            "unseen": {**seen, "again": {"batch": 4}, "graphs": 6},
            "unpatched": {**seen, "again": {}},
        },
        {"model": "A", **fixed, "breaks": [1, 1], "unseen": {}},
        {"model": "A", **fixed, "assume": True, "unseen": {**seen, "differs": []}},
    ]
    monkeypatch.setattr(repaired, "_DRAW", (3, 27))
    text = table.page([_result("A")], repairs, drawn, {"base": 4, "head": 0})
    for line in (
        "| constants of a deployment (`fix --assume`) | 1 | 1 | 0 |",
        "| lines of the program | 1 | 0 | 0 |",
        "| switches of Dynamo (`capture_scalar_outputs`, `allow_rnn`) | 1 | 1 | 1 |",
    ):
        assert line in text
    assert "| B |  | 1 to 0 | 3 to 1 | 9 | 1 | 1 | 0; 0 | 4 of 11 batch; 6 |" in text
    assert "| A |  | 1 to 1 | 3 to 1 |  |  |  |  |  |" in text
    assert "| A | `--assume` | 1 to 0 | 3 to 1 | 9 | 1 | 0 | 0; 0 | 0; 0 |" in text
    assert "- B: batch: values differ" in text
    assert "3 of the classes were drawn" in text
    assert "More often than before the repair: B." in text
    assert "Of the 2 that were run without `--assume`, 0 are left without a break." in text


def test_recorded_repairs_are_said_to_be_no_search_and_what_they_lack_is_named() -> None:
    fixed = {"status": "ran", "graphs": [3, 1], "breaks": [1, 0]}
    switch = ["capture_scalar_outputs: .item() becomes a node of the graph"]
    repairs = [{"model": name, **fixed, "kept": switch} for name in "ABCD"]
    seen = {"equal": 30, "raise": 2, "kinds": {"batch": 11}, "graphs": 4}
    held = {"unseen": {**seen, "again": {"batch": 10}}, "unpatched": {**seen, "again": {}}}
    unsought = [
        {"model": "A", **fixed, **held},
        {"model": "B", **fixed, "breaks": [1, 1], "graphs": [3, 3], "missing": switch},
        {"model": "C", **fixed, "breaks": [1, 1], "graphs": [3, 2]},
    ]
    text = table.page([_result("A")], repairs, [], {"base": 4, "head": 0}, unsought)
    assert "**1 of these 4 classes were held to inputs" in text
    assert "used**: 30 outputs are those of the plain class, for 2 inputs both raise" in text
    assert "more often than before the repair: A (batch: 0 to 10 of 11)." in text
    assert "3 classes were held without a search" in text
    assert "For 1 of 3 the run has as many graphs and breaks as was recorded." in text
    assert f"Not so: B (not proposed any more: {switch[0]}); C (2 graphs and 1 breaks" in text
    assert "| A | switches | 1 to 0 | 3 to 1 | 30 | 2 | 0 | 0; 4 | 10 of 11 batch; 4 |" in text


def test_a_class_that_was_searched_again_counts_once_by_its_last_repair() -> None:
    seen = {"equal": 24, "graphs": 1, "kinds": {"batch": 11}}
    each = {"model": "A", "status": "ran", "graphs": [3, 1], "breaks": [2, 0], "seconds": 9}
    old = {**each, "unseen": {**seen, "graphs": 5, "again": {"batch": 10}}, "unpatched": seen}
    new = {**each, "kept": ["attended to under a mask"], "unseen": seen, "unpatched": seen}
    other = {**old, "model": "B"}
    assert repaired.latest([new], [old], [other]) == [other, new]
    assert kinds.kind(new) == "program"
    text = repaired._searched([new, {**each, "model": "C"}])
    assert text.startswith("1 classes were searched again")
    assert "**1 of them compile nothing after the second input of a kind, 1 with one graph" in text
