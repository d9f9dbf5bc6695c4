"""What an update writes, keeps and drops, as text."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pytest_graphbreak.baseline import (
    BaselineError,
    BaselinePlace,
    Baselines,
    Entry,
    Expected,
    Measured,
    Values,
    preview,
    render,
    update,
)
from pytest_graphbreak.baseline.files import remove
from pytest_graphbreak.model.budget import Cause

pytestmark = pytest.mark.pure

HEAD = 'version: 1\nprofile: cpu\ntorch: "2.9"\ntests:\n'
ITEM = BaselinePlace("m.py::f", "x.item()", 1, "Unsupported Tensor.item()", "GB0124")
ANOTHER = replace(ITEM, reason="another reason")
PRINT = BaselinePlace("m.py::g", "print('a: b')", 2, "Failed to trace builtin operator: print")
BOTH = ("dynamo", "xla")


class Case:
    """One baseline file, and short words for what is done to it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "test_a.yaml"

    def has(self, body: str, head: str = HEAD) -> None:
        self.directory.mkdir(exist_ok=True)
        self.path.write_text(head + body)

    def update(self, *measured: Measured, **options: Any) -> list[str]:
        changes = update(self.directory, measured, **options)
        return [
            f"{change.kind} {change.nodeid.removeprefix('test_a.py::')}" for change in changes.items
        ]

    def expected(self, profile: str, test: str = "test_a") -> Expected:
        return Baselines(self.directory).expectation(f"test_a.py::{test}", profile)

    @property
    def body(self) -> str:
        return self.text.removeprefix(HEAD)

    @property
    def text(self) -> str:
        return self.path.read_text()


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path / "baselines")


def seen(
    test: str = "test_a",
    graphs: dict[str, int] | None = None,
    *,
    profile: str = "cpu",
    torch: str | None = "2.9.1",
    layers: tuple[str, ...] = BOTH,
    recompiles: dict[str, int] | None = None,
    breaks: tuple[BaselinePlace, ...] = (),
    eager: tuple[BaselinePlace, ...] = (),
) -> Measured:
    values = Values(graphs or {}, recompiles or {}, breaks=breaks, eager=eager)
    versions = {"torch": torch} if torch else {}
    return Measured(f"test_a.py::{test}", profile, versions, values, layers)


# new files and entries


def test_a_new_file(case: Case) -> None:
    """As in docs/reference/baseline-file.md: block style, nothing that is zero or empty."""
    measured = [
        seen("test_mlp", {"dynamo": 1, "xla": 1}, profile="xla-cpu"),
        seen(
            "test_longformer",
            {"dynamo": 4, "xla": 6},
            profile="xla-cpu",
            recompiles={"dynamo": 1, "xla": 0},
            breaks=(
                BaselinePlace(
                    "transformers/models/longformer/modeling_longformer.py::LongformerEncoder.forward",
                    "is_global_attn  =  is_index_global_attn.flatten().any().item()",
                    2,
                    "Unsupported Tensor.item() call with capture_scalar_outputs=False",
                    "GB0124",
                ),
            ),
        ),
        seen("test_all_models[resnet/50-inference]", {"dynamo": 1, "xla": 1}, profile="xla-cpu"),
        seen("TestBlock::test_forward", {"dynamo": 1}, profile="xla-cpu"),
        seen("test_all_models[1]", {"dynamo": 1}, profile="xla-cpu", eager=(PRINT,)),
    ]
    assert case.update(*measured) == [
        "added test_mlp",
        "added test_longformer",
        "added test_all_models[resnet/50-inference]",
        "added TestBlock::test_forward",
        "added test_all_models[1]",
    ]
    expected = """\
version: 1
profile: xla-cpu
torch: "2.9"
tests:
  test_mlp:
    graphs: {dynamo: 1, xla: 1}
  test_longformer:
    graphs: {dynamo: 4, xla: 6}
    recompiles: {dynamo: 1}
    breaks:
      - reason: Unsupported Tensor.item() call with capture_scalar_outputs=False
        id: GB0124
        where: transformers/models/longformer/modeling_longformer.py::LongformerEncoder.forward
        code: is_global_attn = is_index_global_attn.flatten().any().item()
        count: 2
  test_all_models:
    cases:
      "1":
        graphs: {dynamo: 1}
        eager:
          - reason: "Failed to trace builtin operator: print"
            where: m.py::g
            code: "print('a: b')"
            count: 2
      resnet/50-inference: {graphs: {dynamo: 1, xla: 1}}
  TestBlock::test_forward:
    graphs: {dynamo: 1}
"""
    assert case.text == expected


def test_a_new_file_takes_the_base_profile_that_is_named(case: Case) -> None:
    """Values of the base profile are the plain ones, in whatever order they come."""
    case.update(
        seen("test_a", {"tt": 2}, profile="tt", torch="2.11.0", layers=("tt",)),
        seen("test_a", {"dynamo": 1}),
        base_profile="cpu",
    )
    assert case.body == (
        "  test_a:\n    graphs: {dynamo: 1}\n    overrides:\n      tt:\n"
        '        torch: "2.11"\n        graphs: {tt: 2}\n'
    )


def test_a_new_test_on_another_profile_has_overrides_only(case: Case) -> None:
    case.has("  test_a:\n    graphs: {dynamo: 1}\n")
    assert case.update(seen("test_b", {"xla": 2}, profile="tt", breaks=(ITEM,))) == ["added test_b"]
    expected = """\
  test_a:
    graphs: {dynamo: 1}
  test_b:
    overrides:
      tt:
        graphs: {xla: 2}
        breaks:
          - reason: Unsupported Tensor.item()
            id: GB0124
            where: m.py::f
            code: x.item()
"""
    assert case.body == expected
    assert case.update(seen("test_b", {"xla": 1})) == ["changed test_b"]
    assert case.body.endswith(
        "  test_b:\n    graphs: {xla: 1}\n    overrides:\n"
        + case.body[case.body.index("      tt:") :]
    )


def test_a_test_that_made_nothing_is_recorded_as_such(case: Case) -> None:
    assert case.update(seen("test_a")) == ["added test_a"]
    assert case.body == "  test_a:\n    graphs: {}\n"
    assert case.update(seen("test_a")) == ["unchanged test_a"]
    assert case.update(seen("test_a", {"xla": 1}, profile="tt")) == ["changed test_a"]
    assert (
        case.body
        == "  test_a:\n    graphs: {}\n    overrides:\n      tt:\n        graphs: {xla: 1}\n"
    )


def test_the_torch_of_an_entry_is_stated_where_it_is_not_the_file_s(case: Case) -> None:
    old = "  test_0:\n    graphs: {dynamo: 1}\n"
    case.has(f"{old}  test_a:\n    graphs: {{dynamo: 1}}\n")
    case.update(
        seen("test_b", {"dynamo": 1}, torch="2.13.0"), seen("test_a", {"dynamo": 2}, torch="2.13")
    )
    assert case.body == (
        f'{old}  test_a:\n    torch: "2.13"\n    graphs: {{dynamo: 2}}\n'
        '  test_b:\n    torch: "2.13"\n    graphs: {dynamo: 1}\n'
    )
    case.update(seen("test_a", {"dynamo": 3}))
    assert case.body.startswith(f"{old}  test_a:\n    graphs: {{dynamo: 3}}\n")


def with_jax(test: str, graphs: int, jax: str, **more: str) -> Measured:
    values = Values({"jax": graphs})
    layers = ("jax",)
    return Measured(f"test_a.py::{test}", "cpu", {"jax": jax, **more}, values, layers)


def test_each_compiler_states_its_version(case: Case) -> None:
    """A file of one compiler states that one; an entry what its file does not."""
    case.update(with_jax("test_a", 1, "0.10.2"))
    top = 'version: 1\nprofile: cpu\njax: "0.10"\ntests:\n'
    assert case.text == f"{top}  test_a:\n    graphs: {{jax: 1}}\n"
    case.update(with_jax("test_a", 2, "0.12.0.1"), seen("test_b", {"dynamo": 1}))
    assert case.text == (
        f'{top}  test_a:\n    jax: "0.12"\n    graphs: {{jax: 2}}\n'
        '  test_b:\n    torch: "2.9"\n    graphs: {dynamo: 1}\n'
    )
    one, other = case.expected("cpu"), case.expected("cpu", "test_b")
    assert one.versions == {"jax": "0.12"}
    assert (one.causes_with("jax"), one.causes_with("dynamo")) == ("0.12", None)
    assert other.versions == {"jax": "0.10", "torch": "2.9"}


def test_a_file_of_two_compilers_states_both(case: Case) -> None:
    case.update(seen("test_b", {"dynamo": 1}), with_jax("test_a", 1, "0.10.2"))
    assert case.text.startswith('version: 1\nprofile: cpu\ntorch: "2.9"\njax: "0.10"\ntests:\n')


# what counts as a difference

KNOWN = """\
  test_a:
    graphs: {dynamo: 2, xla: 3}
    recompiles: {dynamo: 1}
    breaks:
      - reason: Unsupported Tensor.item()
        id: GB0124
        where: m.py::f
        code: x.item()
"""
SAME: dict[str, Any] = {"recompiles": {"dynamo": 1}, "breaks": (ITEM,)}
GRAPHS = {"dynamo": 2, "xla": 3}


def test_what_is_equal_is_not_written(case: Case) -> None:
    case.has(KNOWN)
    before = case.path.stat()
    assert case.update(seen("test_a", GRAPHS, **SAME)) == ["unchanged test_a"]
    assert case.path.stat().st_mtime_ns == before.st_mtime_ns
    assert case.path.stat().st_ino == before.st_ino


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"graphs": {"dynamo": 3, "xla": 3}}, True),
        ({"graphs": {"dynamo": 2, "xla": 0}}, True),
        ({"recompiles": {}}, True),
        ({"recompiles": {"dynamo": 1, "xla": 1}}, True),
        ({"breaks": ()}, True),
        ({"breaks": (ITEM, PRINT)}, True),
        ({"breaks": (replace(ITEM, code="y.item()"),)}, True),
        ({"breaks": (replace(ITEM, count=2),)}, True),
        ({"breaks": (replace(ITEM, code=" x.item()"),)}, False),
        ({"breaks": (ANOTHER,)}, True),
        ({"breaks": (replace(ITEM, id="GB7"),)}, True),
        ({"breaks": (replace(ANOTHER, id=None),), "torch": "2.10.1"}, True),
        ({"breaks": (replace(ANOTHER, id=None),), "torch": None}, False),
        ({"eager": (PRINT,)}, True),
        ({"torch": "2.13.1"}, True),
        # Only the layers that were there are compared.
        ({"graphs": {"xla": 3}, "recompiles": {}, "breaks": (), "layers": ("xla",)}, False),
        ({"graphs": {"xla": 4}, "layers": ("xla",)}, True),
        ({"graphs": {"dynamo": 2}, "layers": ("dynamo",)}, False),
        ({"graphs": {**GRAPHS, "tt": 1}, "layers": ("dynamo", "xla", "tt")}, True),
    ],
)
def test_what_is_a_difference(case: Case, change: dict[str, Any], differs: bool) -> None:
    case.has(KNOWN)
    measured = seen("test_a", **({"graphs": GRAPHS} | SAME | change))
    assert case.update(measured) == ["changed test_a" if differs else "unchanged test_a"]
    assert (case.body != KNOWN) is differs
    assert case.update(measured) == ["unchanged test_a"]


def test_reasons_left_out_by_hand_are_no_difference(case: Case) -> None:
    body = "  test_a:\n    breaks:\n      - where: m.py::f\n        code: x.item()\n"
    case.has(body)
    assert case.update(seen("test_a", breaks=(ITEM,))) == ["unchanged test_a"]


# other profiles

OVERRIDES = "    overrides:\n      tt:\n"
OF_CUDA = "    overrides:\n      cuda:\n        graphs: {dynamo: 9}\n"
BOTH_OTHERS = OF_CUDA + "      tt:\n        graphs: {xla: 7}\n"
ZEROS = """\
        torch: "2.10"
        graphs: {xla: 0}
        recompiles: {dynamo: 0}
        breaks: []
"""
MORE: dict[str, Any] = {"graphs": {"dynamo": 2, "xla": 7}, **SAME}
AS_PLAIN: dict[str, Any] = {"graphs": GRAPHS, **SAME}
TT_TOO: dict[str, Any] = {
    "graphs": {**GRAPHS, "tt": 2},
    "layers": ("dynamo", "xla", "tt"),
    **SAME,
}


@pytest.mark.parametrize(
    ("before", "measured", "after"),
    [
        ("", AS_PLAIN, ""),
        ("", MORE, OVERRIDES + "        graphs: {xla: 7}\n"),
        ("", {"graphs": {"dynamo": 2}, "torch": "2.10"}, OVERRIDES + ZEROS),
        ("", TT_TOO, OVERRIDES + "        graphs: {tt: 2}\n"),
        (OVERRIDES + "        graphs: {xla: 7}\n", AS_PLAIN, ""),
        (BOTH_OTHERS, MORE | {"graphs": {"dynamo": 2, "xla": 8}}, BOTH_OTHERS.replace("7", "8")),
        (BOTH_OTHERS, AS_PLAIN, OF_CUDA),
    ],
    ids=[
        "as the plain values",
        "what it has otherwise",
        "zeros hide plain values",
        "a layer of its own",
        "equal at last",
        "others stay",
        "others stay where it goes",
    ],
)
def test_another_profile_writes_what_it_has_otherwise(
    case: Case, before: str, measured: dict[str, Any], after: str
) -> None:
    case.has(KNOWN + before)
    kind = "unchanged" if before == after else "changed"
    assert case.update(seen("test_a", **measured, profile="tt")) == [f"{kind} test_a"]
    assert case.body == KNOWN + after
    assert case.update(seen("test_a", **measured, profile="tt")) == ["unchanged test_a"]
    assert case.update(seen("test_a", GRAPHS, **SAME)) == ["unchanged test_a"]


def test_overrides_do_not_inherit_the_torch_of_the_entry(case: Case) -> None:
    """Plain values measured anew leave what is known of the reasons of others."""
    override = (
        "    overrides:\n      tt:\n        breaks:\n          - {reason: old, where: m.py::f}\n"
    )
    case.has("  test_a:\n    graphs: {dynamo: 1}\n" + override)
    case.update(seen("test_a", {"dynamo": 2}, torch="2.13"))
    expected = case.expected("tt")
    assert (expected.versions, expected.places_with("breaks")) == (
        {"torch": "2.9"},
        {"torch": "2.9"},
    )


# record


def test_record_leaves_what_a_profile_is_judged_by(case: Case) -> None:
    case.has(KNOWN)
    # cuda was never recorded: the plain values judge it where they have a layer.
    measured = seen(
        "test_a", {"dynamo": 9, "xla": 9, "tt": 1}, profile="cuda", layers=("dynamo", "xla", "tt")
    )
    assert case.update(measured, mode="record") == ["changed test_a"]
    assert case.body == KNOWN + "    overrides:\n      cuda:\n        graphs: {tt: 1}\n"
    # On the profile of the plain values, absent is zero: that is not missing.
    measured = seen("test_a", {**GRAPHS, "tt": 1}, layers=("dynamo", "xla", "tt"), **SAME)
    assert case.update(measured, mode="record") == ["unchanged test_a"]


# what stays


def test_ungated_entries_are_left_alone(case: Case) -> None:
    body = "  test_a:\n    ungated: flaky\n    graphs: {dynamo: 1}\n  test_b: {ungated: slow}\n"
    case.has(body)
    assert case.update(seen("test_a", {"dynamo": 5}), seen("test_b", {"dynamo": 1})) == [
        "ungated test_a",
        "ungated test_b",
    ]
    assert case.update(seen("test_b[x]", {"dynamo": 1})) == ["ungated test_b[x]"]
    assert case.body == body


COMMENTED = """\
# Kept by hand.
version: 1
profile: cpu   # the CI machine
torch: "2.9"
tests:

  # the small one
  "test_a": # why quoted
    # counts
    graphs: {dynamo: 1,   xla: 1}   # one each
    note: |
      two
      # lines
    # places
    breaks:
      # the first
      - where: m.py::f   # here
        count: 1   # once
        code: 'x.item()'
        reason: Unsupported Tensor.item()   # of 2.9
        id: GB0124
    # below

  # the other one
  test_b: {graphs: {dynamo: 1, xla: 2}, note: "flow, too"}   # in braces
# the end
"""


def test_an_entry_that_changes_is_written_anew_and_all_else_stays(case: Case) -> None:
    """A comment in an entry goes with it; what is around it, and a note, stays."""
    case.has(COMMENTED, head="")
    case.update(
        seen(
            "test_a",
            {"dynamo": 3, "xla": 1},
            breaks=(BaselinePlace("m.py::f", "x.item()", 4, ITEM.reason, "GB7"), PRINT),
        ),
        seen("test_b", {"dynamo": 1}, recompiles={"dynamo": 1}),
        seen("test_c", {"dynamo": 1}),
    )
    expected = """\
# Kept by hand.
version: 1
profile: cpu   # the CI machine
torch: "2.9"
tests:

  # the small one
  test_a:
    note: |
      two
      # lines
    graphs: {dynamo: 3, xla: 1}
    breaks:
      - reason: Unsupported Tensor.item()
        id: GB7
        where: m.py::f
        code: x.item()
        count: 4
      - reason: "Failed to trace builtin operator: print"
        where: m.py::g
        code: "print('a: b')"
        count: 2

  # the other one
  test_b:
    note: flow, too
    graphs: {dynamo: 1}
    recompiles: {dynamo: 1}

  test_c:
    graphs: {dynamo: 1}
# the end
"""
    assert case.text == expected


def test_line_ends_stay(case: Case) -> None:
    case.has("")
    last = "  test_o:\n    graphs: {xla: 2}"
    text = (HEAD + KNOWN + last).replace("\n", "\r\n")
    case.path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    case.update(seen("test_a", {"dynamo": 3, "xla": 3}, **SAME), seen("test_b", {"xla": 1}))
    text = case.path.read_bytes().decode()
    known = KNOWN.replace("dynamo: 2", "dynamo: 3")
    expected = f"{HEAD}{known}{last}\n  test_b:\n    graphs: {{xla: 1}}"
    assert text == "\ufeff" + expected.replace("\n", "\r\n")


def test_an_empty_mapping_of_tests_is_filled(case: Case) -> None:
    case.has("", head="version: 1\nprofile: cpu\ntorch: '2.9'\ntests: {}  # none yet\n")
    case.update(seen("test_a", {"xla": 1}))
    assert case.text == (
        "version: 1\nprofile: cpu\ntorch: '2.9'\n"
        "tests:  # none yet\n  test_a:\n    graphs: {xla: 1}\n"
    )


def test_a_file_with_tests_in_flow_style_is_refused(case: Case) -> None:
    text = "version: 1\nprofile: cpu\ntests: {test_a: {graphs: {xla: 1}}}\n"
    case.has(text, head="")
    assert case.update(seen("test_a", {"xla": 1}, torch=None)) == ["unchanged test_a"]
    with pytest.raises(
        BaselineError, match=r"test_a\.yaml:3: tests: is in flow style.*; write it in block"
    ):
        case.update(seen("test_a", {"xla": 2}))
    assert case.text == text


def test_nothing_is_written_if_one_file_is_refused(case: Case) -> None:
    case.has("tests: {test_a: {}}\n", head="version: 1\nprofile: cpu\n")
    good = Measured("test_0.py::test", "cpu", {"torch": "2.9"}, Values({"xla": 1}), ("xla",))
    with pytest.raises(BaselineError, match="flow style"):
        case.update(good, seen("test_a", {"xla": 1}))
    assert not (case.directory / "test_0.yaml").exists()


def test_what_can_not_be_measured_is_refused(case: Case) -> None:
    with pytest.raises(BaselineError, match="cannot name a profile"):
        case.update(seen(profile=" "))
    with pytest.raises(BaselineError, match="outside of the root"):
        update(case.directory, [Measured("../test_a.py::test", "cpu", {}, Values(), ())])
    assert not case.directory.exists()


def test_a_text_that_would_not_say_what_is_meant_is_not_written(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_graphbreak.baseline.editor import Editor

    case.has(KNOWN)
    for wrong in (HEAD + KNOWN, "no: {"):
        monkeypatch.setattr(Editor, "result", lambda self, wrong=wrong: wrong)
        with pytest.raises(BaselineError, match=r"test_a\.yaml: cannot be changed in place"):
            case.update(seen("test_a", {"xla": 1}))
        assert case.body == KNOWN


# parameters come and go


def test_a_test_that_got_parameters(case: Case) -> None:
    case.has(
        "  test_a:\n    note: mine\n    graphs: {xla: 1}  # plain\n  test_b:\n    graphs: {}\n"
    )
    assert case.update(seen("test_a[x]", {"xla": 2}), seen("test_a[z]", {"xla": 1})) == [
        "pruned test_a",
        "added test_a[x]",
        "added test_a[z]",
    ]
    expected = """\
  test_a:
    note: mine
    cases:
      x: {graphs: {xla: 2}}
      z: {graphs: {xla: 1}}
  test_b:
    graphs: {}
"""
    assert case.body == expected


def test_record_drops_nothing(case: Case) -> None:
    """pytest-repeat gives each test cases, for one run."""
    one = {"xla": 1}
    case.has(
        "  test_a:\n    graphs: {xla: 1}\n  test_b:\n    cases:\n      x: {graphs: {xla: 1}}\n"
    )
    before = case.text
    reported = case.update(seen("test_a[1-2]", one), seen("test_b", one), mode="record")
    assert reported == ["kept test_a[1-2]", "kept test_b"]
    assert case.text == before
    stale = [Entry("test_a.py", "test_a", None, "cpu", path=case.path, line=5)]
    reported = case.update(seen("test_a[1-2]", one), mode="record", prune=stale)
    assert reported == ["pruned test_a", "added test_a[1-2]"]


def test_a_test_that_lost_its_parameters(case: Case) -> None:
    case.has("  test_a:\n    cases:\n      x:\n        graphs: {xla: 1}\n    note: mine\n")
    assert case.update(seen("test_a", {"xla": 2})) == ["pruned test_a[x]", "added test_a"]
    assert case.body == "  test_a:\n    note: mine\n    graphs: {xla: 2}\n"


CASES = """\
  test_a:
    cases:
      plain:
        graphs: {dynamo: 1, xla: 1}
      same:
        graphs: {dynamo: 1}
      commented:
        graphs: {xla: 1}  # of the small one
      noted:
        note: mine
        graphs: {xla: 1}
      short: {graphs: {xla: 1}}  # beside
      last: {graphs: {xla: 1}}
"""


def test_a_case_that_changes_goes_to_one_line_or_to_several(case: Case) -> None:
    """Nothing but the cases that changed."""
    case.has(CASES)
    found = [
        seen("test_a[plain]", {"dynamo": 1, "xla": 2}),
        seen("test_a[same]", {"dynamo": 1}),
        seen("test_a[commented]", {"xla": 1}),
        seen("test_a[noted]", {"xla": 2}),
        seen("test_a[short]", {"dynamo": 2, "xla": 1}, breaks=(ITEM,)),
        seen("test_a[last]", {"xla": 3}),
        seen("test_a[added]", {"xla": 1}),
    ]
    case.update(*found)
    expected = """\
  test_a:
    cases:
      added: {graphs: {xla: 1}}
      plain: {graphs: {dynamo: 1, xla: 2}}
      same:
        graphs: {dynamo: 1}
      commented:
        graphs: {xla: 1}  # of the small one
      noted:
        note: mine
        graphs: {xla: 2}
      short:
        graphs: {dynamo: 2, xla: 1}
        breaks:
          - reason: Unsupported Tensor.item()
            id: GB0124
            where: m.py::f
            code: x.item()
      last: {graphs: {xla: 3}}
"""
    assert case.body == expected


# prune

PRUNED = """\
  # about a
  test_a:
    graphs: {xla: 1}
    # still a

  # on its own

  # about b
  # and more
  test_b:
    cases:
      x: {graphs: {xla: 1}}
      # about y
      y: {graphs: {xla: 1}}   # y itself

  test_c:
    graphs: {xla: 1}
# the end
"""


def gone(*keys: tuple[str, str | None]) -> list[Entry]:
    return [Entry("test_a.py", test, case, "cpu", path=Path("x")) for test, case in keys]


@pytest.mark.parametrize(
    ("keys", "left"),
    [
        ([("test_a", None)], PRUNED[PRUNED.index("\n  # on its own") :]),
        (
            [("test_b", "y")],
            PRUNED.replace("      # about y\n      y: {graphs: {xla: 1}}   # y itself\n", ""),
        ),
        (
            [("test_b", "x"), ("test_b", "y")],
            PRUNED[: PRUNED.index("  # about b")] + PRUNED[PRUNED.index("  test_c") :],
        ),
        ([("test_c", None)], PRUNED[: PRUNED.index("\n  test_c")] + "# the end\n"),
        ([("test_gone", None), ("test_b", "z"), ("test_b", None), ("test_a", "x")], PRUNED),
    ],
)
def test_prune(case: Case, keys: list[tuple[str, str | None]], left: str) -> None:
    case.has(PRUNED)
    changes = update(case.directory, [], prune=gone(*keys))
    assert case.body == left
    assert len(changes.of_kind("pruned")) == (0 if left == PRUNED else len(keys))


def test_what_was_measured_is_not_pruned(case: Case) -> None:
    case.has(PRUNED)
    assert case.update(seen("test_a", {"xla": 1}), prune=gone(("test_a", None))) == [
        "unchanged test_a"
    ]
    assert case.body == PRUNED


# what is reported


def test_changes_tell_what_was_and_what_is(case: Case) -> None:
    case.has(KNOWN)
    measured = [
        seen(
            "test_a",
            {"dynamo": 2, "xla": 7},
            profile="tt",
            recompiles={"dynamo": 1},
            breaks=(ITEM, PRINT),
        ),
        seen("test_b", {"dynamo": 1}),
    ]
    planned = preview(case.directory, measured)
    assert case.body == KNOWN, "a preview writes nothing"
    changes = update(case.directory, measured)
    assert changes == planned
    changed, added = changes.of_kind("added", "changed")
    assert (changed.old.graphs, changed.new.graphs) == (GRAPHS, {"dynamo": 2, "xla": 7})
    assert (changed.profile, changed.path) == ("tt", case.path)
    assert str(changed) == "test_a.py::test_a  xla 3 -> 7, breaks 1 -> 2  (tt)"
    assert (added.old, added.new) == (None, Values({"dynamo": 1}))
    assert str(added) == "test_a.py::test_b  dynamo 1  (cpu)"
    (file,) = changes.files
    assert (file.old, file.new) == (HEAD + KNOWN, case.text)
    assert [item.kind for item in changes.of_kind("added") + changes.of_kind("changed")] == [
        "added",
        "changed",
    ]


def test_a_preview_holds_for_files_that_are_as_they_were(case: Case) -> None:
    measured = [seen("test_a", {"dynamo": 2}), seen("test_b", {"dynamo": 1})]
    case.has("  test_a:\n    graphs: {dynamo: 1}\n")
    before = preview(case.directory, measured)
    case.has("  test_a:\n    note: by hand\n    graphs: {dynamo: 1}\n")
    case.update(*measured, previewed=before)
    assert "note: by hand" in case.text
    assert "test_b" in case.text
    same = [seen("test_a", {"dynamo": 3}), seen("test_b", {"dynamo": 1})]
    before = preview(case.directory, same)
    changes = update(case.directory, same, previewed=before)
    assert changes.planned[0] is before.planned[0]
    assert "{dynamo: 3}" in case.text


def test_a_pruned_entry_is_reported_with_what_it_had(case: Case) -> None:
    case.has(KNOWN)
    changes = update(case.directory, [], prune=gone(("test_a", None)))
    (pruned,) = changes.of_kind("pruned")
    assert (pruned.old.graphs, pruned.new, str(pruned)) == (GRAPHS, None, "test_a.py::test_a")
    assert changes.files[0].new is None


# causes and entries of a profile


def explained(
    profile: str = "cpu",
    *,
    graphs: dict[str, int] | None = None,
    causes: tuple[Cause, ...] = (),
    entries: tuple[str, ...] = (),
    layers: tuple[str, ...] = BOTH,
) -> Measured:
    counts = graphs or {"dynamo": 2, "xla": 1}
    ops = dict.fromkeys(counts, 4)
    values = Values(counts, ops=ops, causes=causes, entries=entries, executions=counts)
    return Measured("test_a.py::test_a", profile, {"torch": "2.9.1"}, values, layers)


BREAK = Cause("dynamo", "break", "m.py::f", "print(x)")
SYNC = Cause("xla", "sync", "m.py::f", "torch_xla.sync()")
PLAIN = """\
  test_a:
    graphs: {dynamo: 2, xla: 1}
    ops: {dynamo: 4, xla: 4}
    entries: ["m.py::f"]
    causes: [{layer: dynamo, cause: break, where: "m.py::f", code: print(x)}]
"""


def test_what_another_profile_explains_otherwise_is_in_its_override(case: Case) -> None:
    case.has(PLAIN)
    same = explained("tt", causes=(BREAK,), entries=("m.py::f",))
    assert case.update(same) == ["unchanged test_a"]
    other = explained("tt", causes=(BREAK, SYNC), entries=("m.py::f", "n.py::g"))
    assert case.update(other) == ["changed test_a"]
    override = case.expected("tt")
    assert set(override.values.causes) == {BREAK, SYNC}
    assert override.values.entries == ("m.py::f", "n.py::g")
    assert case.body.startswith(PLAIN)
    assert "print(x)" not in case.body.removeprefix(PLAIN)
    assert case.update(other) == ["unchanged test_a"]
    assert case.update(same) == ["changed test_a"]
    assert case.body == PLAIN


def test_the_order_of_entries_is_no_difference(case: Case) -> None:
    case.has('  test_a:\n    graphs: {dynamo: 2}\n    entries: ["n.py::g", "m.py::f"]\n')
    seen = explained("tt", graphs={"dynamo": 3}, entries=("m.py::f", "n.py::g"))
    assert case.update(seen) == ["changed test_a"]
    assert case.expected("tt").override.named == frozenset()


def test_causes_that_a_profile_does_not_have_are_hidden_by_its_graphs(case: Case) -> None:
    """A list without them would be one without those of other layers, too."""
    plain = "  test_a:\n    graphs: {xla: 1}\n    ops: {xla: 4}\n"
    case.has(
        plain + "    causes: [{layer: xla, cause: sync, where: m.py::f, code: torch_xla.sync()}]\n"
    )
    whole = explained("tt", graphs={"xla": 1})
    assert case.update(whole) == ["changed test_a"]
    assert case.body.endswith(
        "    overrides:\n      tt:\n        graphs: {xla: 1}\n        ops: {xla: 4}\n"
    )
    override = case.expected("tt")
    assert override.values.causes_of("xla") == ()
    assert case.update(whole) == ["unchanged test_a"]


@pytest.mark.parametrize(
    "text",
    [
        'entries: ["m.py::g"]',
        'causes: [{layer: dynamo, cause: break, where: "m.py::f", code: y()}]',
    ],
)
def test_what_an_override_has_otherwise_stays_where_only_another_layer_was_measured(
    case: Case, text: str
) -> None:
    override = f"    overrides:\n      tt:\n        {text}\n"
    case.has(PLAIN + override + "        graphs: {xla: 5}\n")
    assert case.update(explained("tt", graphs={"xla": 1}, layers=("xla",))) == ["changed test_a"]
    assert case.body == PLAIN + override


def test_a_cause_that_comes_more_often_stays_where_it_stands(case: Case) -> None:
    case.has(PLAIN)
    often = replace(BREAK, count=2)
    case.update(
        explained(graphs={"dynamo": 3, "xla": 1}, causes=(SYNC, often), entries=("m.py::f",))
    )
    causes = case.body.partition("causes:\n")[2]
    assert causes.index("print(x)") < causes.index("count: 2") < causes.index("sync")


def test_a_long_name_that_is_new_in_braces_is_one_with_a_question_mark() -> None:
    name = "f" * (render.LONGEST_KEY + 1)
    assert render.inline({name: 2}) == f"{{? {name} : 2}}"


def test_a_file_that_cannot_be_removed_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match="cannot be written"):
        remove(tmp_path)


def test_what_a_layer_has_stays_where_only_another_was_measured(case: Case) -> None:
    causes = (
        "    causes: [{layer: xla, cause: sync, where: m.py::f}, {layer: dynamo, cause: break}]\n"
    )
    graphs = "  test_a:\n    graphs: {dynamo: 2, xla: 2}\n    ops: {dynamo: 4, xla: 4}\n"
    case.has(graphs + causes)
    case.update(explained(graphs={"dynamo": 2}, causes=(BREAK,), layers=("dynamo",)))
    kept = case.expected("cpu")
    assert kept.values.causes == (Cause("xla", "sync", "m.py::f"), BREAK)


def test_one_place_seen_twice_is_written_once(case: Case) -> None:
    case.update(seen("test_a", {"dynamo": 2}, breaks=(ITEM, PRINT, ITEM)))
    breaks = case.body.partition("breaks:\n")[2]
    assert breaks.count("x.item()") == 1
    assert "code: x.item()\n        count: 2\n" in breaks
    case.update(seen("test_a", {"dynamo": 2}, breaks=(PRINT, ITEM, PRINT)))
    assert "code: x.item()\n      - " in case.body
    assert "code: \"print('a: b')\"\n        count: 4\n" in case.body


def test_a_value_that_begins_beside_its_colon(case: Case) -> None:
    case.has("  test_a:\n    cases:\n      ? x\n      : graphs: {dynamo: 1}\n        note: mine\n")
    case.update(seen("test_a[x]", {"dynamo": 2}))
    assert case.body == (
        "  test_a:\n    cases:\n      x:\n        note: mine\n        graphs: {dynamo: 2}\n"
    )


@pytest.mark.parametrize("note", ["one\ntwo\n", "one\n\n  two # so", "a\n\n", " a\nb", "a \nb\n"])
def test_a_note_of_several_lines_stays_what_it_was(case: Case, note: str) -> None:
    case.has(f"  test_a: {{note: {json.dumps(note)}, graphs: {{dynamo: 1}}}}\n")
    case.update(seen("test_a", {"dynamo": 2}))
    found = Baselines(case.directory).entry("test_a.py::test_a")
    assert found.note == note


def test_a_space_before_a_colon_stays(case: Case) -> None:
    head = 'version: 1\nprofile: cpu\ntorch : "{}"\npackages : {{}}\ntests :{}\n'
    case.has(head.format("2.9", " {}"), head="")
    now = seen("test_a", {"dynamo": 1}, torch="2.11.0")
    case.update(dataclasses.replace(now, packages={"a": "1"}))
    assert case.text == head.format("2.9", "\n  test_a:").replace("{}", '{a: "1"}') + (
        '    torch: "2.11"\n    graphs: {dynamo: 1}\n'
    )
    case.has(head.format("2.9", "\n  test_a: {graphs: {xla: 1}}"), head="")
    case.update(now)
    assert case.text == head.format("2.11", "\n  test_a:\n    graphs: {dynamo: 1}")


@pytest.mark.parametrize("value", ["{a: '1'}  # b", "\n  a: '1'  # b"])
def test_packages_are_replaced_where_they_stand(case: Case, value: str) -> None:
    head = 'version: 1\nprofile: cpu\n# p\ntorch: "2.9"\n'
    tests = "# t\ntests:\n  test_a:\n    graphs: {xla: 1}\n"
    owned: dict[str, Any] = {"graphs": {"xla": 2}, "torch": "2.9.1"}
    case.has(f"{head}packages: {value}\n{tests}", head="")
    case.update(dataclasses.replace(seen("test_a", **owned), packages={"b": "2"}))
    assert case.text.replace("  # b", "") == (
        f'{head}packages: {{a: "1", b: "2"}}\n{tests.replace("1", "2")}'
    )
    case.has(head + tests, head="")
    case.update(dataclasses.replace(seen("test_a", **owned), packages={"b": "2"}))
    assert case.text == f'{head}packages: {{b: "2"}}\n{tests.replace("1", "2")}'


def test_entries_of_another_version_are_renewed_and_the_label_of_the_file_moves(case: Case) -> None:
    """Or their reasons and operations would be compared no more, for ever."""
    entry = "    graphs: {dynamo: 1}\n    ops: {dynamo: 4}\n"
    case.has(f"  test_a:\n{entry}  # stays\n  test_b:\n{entry}")

    def now(name: str) -> Measured:
        values = Values({"dynamo": 1}, ops={"dynamo": 4}, executions={"dynamo": 1})
        return Measured(f"test_a.py::{name}", "cpu", {"torch": "2.13.0"}, values, ("dynamo",))

    assert case.update(now("test_a")) == ["changed test_a"]
    assert 'torch: "2.9"' in case.text
    assert '  test_a:\n    torch: "2.13"\n' in case.text
    case.has(f"  test_a:\n{entry}  # stays\n  test_b:\n{entry}")
    assert case.update(now("test_a"), now("test_b")) == ["changed test_a", "changed test_b"]
    assert case.text.count("torch:") == 1
    assert 'torch: "2.13"\n' in case.text
    assert "  # stays\n" in case.text
    assert case.update(now("test_a"), now("test_b")) == ["unchanged test_a", "unchanged test_b"]


@pytest.mark.parametrize("others", [0, 1])
def test_a_cause_that_does_not_fit_into_a_hundred_columns_is_a_block(
    case: Case, others: int
) -> None:
    long = Cause("xla", "sync", "models/deep/inside.py::Encoder.forward", f"f({'x' * 60})")
    case.update(explained(causes=(long, *(BREAK,) * others)))
    assert f"- layer: xla\n        cause: sync\n        where: {long.where}\n" in case.text
    assert ("{layer: dynamo, cause: break" in case.text) == bool(others)
    assert max(map(len, case.text.splitlines())) <= 100
    again = explained(causes=(long, *(BREAK,) * others))
    assert case.update(again) == ["unchanged test_a"]
