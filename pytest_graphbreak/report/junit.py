"""The report as JUnit XML: one suite for each run, with counts as properties of each test.

The format is that of pytest's own file (``junit_family=xunit2``), so that the same tools can read
both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report.view import ProfileRun, standing
from pytest_graphbreak.text.safe import xml


def render(runs: Sequence[ProfileRun]) -> str:
    """Return the whole XML document as text; its encoding is UTF-8."""
    return "".join(_document(runs))


def _document(runs: Sequence[ProfileRun]) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="utf-8"?>\n<testsuites name="graph budget">\n'
    for run in runs:
        yield from _suite(run)
    yield "</testsuites>\n"


def _suite(run: ProfileRun) -> Iterator[str]:
    tests = run.tests
    counts = {
        "errors": sum(1 for test in tests if _result(test)[0] == "error"),
        "failures": sum(1 for test in tests if _result(test)[0] == "failure"),
        "skipped": sum(1 for test in tests if _result(test)[0] == "skipped"),
        "tests": len(tests),
    }
    numbers = " ".join(f'{name}="{count}"' for name, count in counts.items())
    yield f'<testsuite name="{xml(run.label)}" {numbers}>\n'
    yield "<properties>\n"
    environment = run.reports[0].environment
    for name, value in environment.to_dict().items():
        if isinstance(value, str):
            yield _property(name, value)
    for name, version in environment.packages.items():
        yield _property(f"package {name}", version)
    yield "</properties>\n"
    for test in tests:
        yield from _case(test)
    yield "</testsuite>\n"


def _case(test: TestReport) -> Iterator[str]:
    classname, name = _names(test.nodeid)
    yield f'<testcase classname="{xml(classname)}" name="{xml(name)}">\n'
    yield "<properties>\n"
    for key, value in _properties(test):
        yield _property(key, value)
    yield "</properties>\n"
    kind, words = _result(test)
    if kind:
        first, _, rest = words.partition("\n")
        yield f'<{kind} message="{xml(first)}">{xml(rest.strip())}</{kind}>\n'
    yield "</testcase>\n"


def _property(name: str, value: str) -> str:
    return f'<property name="{xml(name)}" value="{xml(value)}"/>\n'


def _properties(test: TestReport) -> Iterator[tuple[str, str]]:
    """Yield the properties that the plugin sets in pytest's own file, and counts of each layer."""
    record = test.record
    if not record.active:
        return
    yield "graphs", str(record.graphs.get(record.headline, 0))
    yield "recompiles", str(record.recompiles.get(record.headline, 0))
    yield "breaks", str(len(record.breaks))
    for layer in record.layers:
        yield f"graphs.{layer}", str(record.graphs.get(layer, 0))
    yield "verdict", standing(test)


def _result(test: TestReport) -> tuple[str, str]:
    """Return the element below a test case and its text; both are empty if the test passed."""
    outcome = test.outcome
    if test.verdict == "error":
        return "error", test.message or "graph budget: could not see"
    if outcome == "failed" and test.failed_by == "gate":
        return "failure", test.message or "graph budget"
    if outcome == "failed":
        return "failure", "failed by itself; pytest's own report has the traceback"
    if outcome == "crashed":
        return "error", "crashed"
    if outcome in ("skipped", "xfailed"):
        return "skipped", outcome
    return "", ""


def _names(nodeid: str) -> tuple[str, str]:
    """Return dotted module and classes, then the test, as pytest does in its own file."""
    head, bracket, case = nodeid.partition("[")
    parts = head.split("::")
    module = parts[0].removesuffix(".py").replace("/", ".")
    return ".".join((module, *parts[1:-1])), parts[-1] + bracket + case
