"""JUnit XML from reports: what pytest's own file would say, and the counts."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from pytest_graphbreak.report import junit
from pytest_graphbreak.text.safe import lines, printable
from tests.report.test_markdown import as_runs
from tests.reports import Data, a_report, a_test, over
from tests.untrusted import STRINGS, an_untrusted_report


def rendered(*reports: Data) -> ElementTree.Element:
    text = junit.render(as_runs(*reports))
    return ElementTree.fromstring(text.encode())


def properties(element: ElementTree.Element) -> dict[str, str]:
    found = element.find("properties")
    assert found is not None
    return {item.attrib["name"]: item.attrib["value"] for item in found}


def test_names_are_pytests() -> None:
    root = rendered(a_report(a_test("tests/torch/test_a.py::TestB::test_c[x/y::z]")))
    case = root.find(".//testcase")
    assert case is not None
    assert case.attrib["classname"] == "tests.torch.test_a.TestB"
    assert case.attrib["name"] == "test_c[x/y::z]"


def test_the_suite_says_what_ran() -> None:
    report = a_report(a_test())
    report["environment"]["packages"] = {"transformers": "5.23.0"}
    suite = rendered(report).find(".//testsuite")
    assert suite is not None
    assert properties(suite) == {
        "profile": "cpu",
        "device": "cpu",
        "torch": "2.13.0",
        "python": "3.11.7",
        "platform": "linux",
        "package transformers": "5.23.0",
    }


def test_results() -> None:
    root = rendered(
        a_report(
            a_test("t.py::passed"),
            over("t.py::gate"),
            a_test("t.py::own", outcome="failed", failed_by="test"),
            a_test("t.py::skipped", 0, outcome="skipped"),
            a_test("t.py::crashed", 0, outcome="crashed", failed_by="test"),
            over("t.py::blind", verdict="error", errors=["no sensor"], message="could not see"),
        )
    )
    found = {
        case.attrib["name"]: [child.tag for child in case if child.tag != "properties"]
        for case in root.iter("testcase")
    }
    assert found == {
        "passed": [],
        "gate": ["failure"],
        "own": ["failure"],
        "skipped": ["skipped"],
        "crashed": ["error"],
        "blind": ["error"],
    }
    suite = root.find("testsuite")
    assert suite is not None
    counts = {name: suite.attrib[name] for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "6", "failures": "2", "errors": "2", "skipped": "1"}
    failure = root.find(".//failure")
    assert failure is not None
    assert failure.attrib["message"].startswith("graph budget: 3 dynamo graphs")
    assert failure.text == "dynamo   1 -> 3"


def test_hostile_text_stays_text() -> None:
    root = rendered(an_untrusted_report())
    messages = [failure.attrib["message"] for failure in root.iter("failure")]
    for text in STRINGS:
        assert lines(text).partition("\n")[0] in messages
    names = {case.attrib["name"] for case in root.iter("testcase")}
    assert f"test_b[{printable(STRINGS[6])}]" in {printable(name) for name in names}
    assert {element.tag for element in root.iter()} == {
        *("testsuites", "testsuite", "properties", "property", "testcase", "error"),
    } or {element.tag for element in root.iter()} == {
        *("testsuites", "testsuite", "properties", "property", "testcase", "failure"),
    }
