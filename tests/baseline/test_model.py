"""The rules of profiles and overrides: what a profile is judged by."""

from __future__ import annotations

import pytest

from pytest_graphbreak.baseline import (
    BaselineError,
    BaselinePlace,
    Entry,
    Override,
    Values,
)
from pytest_graphbreak.baseline.rules import expectation
from pytest_graphbreak.model.budget import place_key, writable

pytestmark = pytest.mark.pure

BREAK = BaselinePlace("m.py::f", "x.item()", reason="Unsupported")
OTHER = BaselinePlace("m.py::g", "print()")
PLAIN = Values({"dynamo": 4, "xla": 6}, {"dynamo": 1}, breaks=(BREAK,))


def entry(values: Values | None = PLAIN, **overrides: Override) -> Entry:
    return Entry("test_a.py", "test", None, "cpu", {"torch": "2.9"}, values, overrides)


def test_the_profile_of_the_plain_values() -> None:
    found = expectation(entry(), "cpu")
    assert found.values == PLAIN
    assert (found.profile, found.versions, found.recorded) == ("cpu", {"torch": "2.9"}, True)
    # Every observed layer is judged: absent is zero. A layer of its own that is
    # not there is lost.
    assert found.judged_layers(("dynamo", "xla", "tt")) == ("dynamo", "xla", "tt")
    assert found.judged_layers(("tt",)) == ("dynamo", "xla", "tt")
    assert found.judged_layers(("dynamo",)) == ("dynamo", "xla")
    assert found.unseen_layers(("dynamo",)) == ()


def test_a_profile_with_an_override() -> None:
    override = Override(
        Values({"xla": 7, "tt": 2}, {"dynamo": 0}, eager=(OTHER,)),
        {"torch": "2.11"},
        frozenset({"eager"}),
    )
    found = expectation(entry(tt=override), "tt")
    assert found.values.graphs == {"dynamo": 4, "xla": 7, "tt": 2}
    assert found.values.recompiles == {"dynamo": 0}
    assert found.values.breaks == (BREAK,)
    assert found.values.eager == (OTHER,)
    assert (found.profile, found.versions, found.recorded) == ("tt", {"torch": "2.11"}, True)
    assert (found.places_with("breaks"), found.places_with("eager")) == (
        {"torch": "2.9"},
        {"torch": "2.11"},
    )
    assert found.judged_layers(()) == ("dynamo", "xla", "tt")


def test_a_layer_that_an_override_does_not_name_is_not_lost() -> None:
    found = expectation(entry(tt=Override(Values({"dynamo": 3}), {"torch": "2.9"})), "tt")
    assert found.judged_layers(("dynamo",)) == ("dynamo",)
    assert found.unseen_layers(("dynamo",)) == ("xla",)
    assert found.judged_layers(("dynamo", "xla", "tt")) == ("dynamo", "xla", "tt")
    named = expectation(
        entry(tt=Override(Values({"xla": 0}), {"torch": "2.9"}, frozenset({"breaks"}))), "tt"
    )
    assert named.judged_layers(()) == ("dynamo", "xla")
    assert named.values.breaks == ()


def test_a_profile_that_was_never_recorded() -> None:
    found = expectation(entry(tt=Override(Values({"tt": 2}))), "cuda")
    assert found.values == PLAIN
    assert (found.profile, found.versions, found.recorded) == ("cpu", {"torch": "2.9"}, False)
    assert found.judged_layers(("dynamo", "tt")) == ("dynamo",)
    assert found.judged_layers(("tt",)) == ()
    assert found.unseen_layers(("dynamo", "tt")) == ("xla",)


def test_overrides_only() -> None:
    of = entry(None, tt=Override(Values({"tt": 2}), {"torch": "2.11"}))
    assert expectation(of, "cpu") is None
    assert expectation(of, "cuda") is None
    found = expectation(of, "tt")
    assert found.values == Values({"tt": 2})
    assert (found.recorded, found.places_with("breaks")) == (True, {"torch": "2.11"})
    assert found.judged_layers(("dynamo",)) == ("dynamo", "tt")


def test_an_override_for_the_profile_of_the_plain_values() -> None:
    found = expectation(entry(cpu=Override(Values({"xla": 5}), {"torch": "2.9"})), "cpu")
    assert found.values.graphs == {"dynamo": 4, "xla": 5}
    assert found.judged_layers(()) == ("dynamo", "xla")


def test_recorded_zeros_are_an_expectation() -> None:
    found = expectation(entry(Values()), "cpu")
    assert found.judged_layers(("dynamo",)) == ("dynamo",)
    assert expectation(entry(Values()), "cuda").judged_layers(("dynamo",)) == ()


def test_layers_of_values() -> None:
    assert Values({"xla": 0, "tt": 1}).layers == {"tt"}
    assert Values({}, {"xla": 2}).layers == {"xla"}
    assert Values(breaks=(BREAK,)).layers == {"dynamo"}
    assert Values(eager=(BREAK,)).layers == {"dynamo"}
    assert Override(Values({"xla": 0})).layers == {"xla"}


def test_the_identity_of_a_place() -> None:
    assert BaselinePlace("a::b", "x  =\t1", 2, "r").key == BaselinePlace("a::b", "x = 1").key
    assert BaselinePlace("a::b", "x").key != BaselinePlace("a::c", "x").key
    assert place_key("a\udc80::b", "c") == ("a\\udc80::b", "c")
    assert writable("é\ud800") == "é\\ud800"


def test_an_error_says_where_what_and_what_next(monkeypatch: pytest.MonkeyPatch) -> None:
    other = BaselineError("is empty", path="/x/b.yaml")
    error = BaselineError("no good", path="/x/a.yaml", line=3, step="fix it", also=[other])
    assert str(error) == "/x/a.yaml:3: no good; fix it\n/x/b.yaml: is empty"
    assert str(BaselineError("plain")) == "plain"
    monkeypatch.chdir("/")
    assert str(error) == "x/a.yaml:3: no good; fix it\nx/b.yaml: is empty"
