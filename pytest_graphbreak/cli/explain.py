"""``graphbreak explain``: explains a reason and what to write instead, without network or torch.

What is shown depends on what was typed; each is for people, or with ``--json`` for programs, as one
object per line:

| typed                 | shown                                         | by                       |
| --------------------- | --------------------------------------------- | ------------------------ |
| ``explain GB0124``    | all that is known of a reason                 | ``page.lines``           |
| ``... --json``        | the same                                      | ``_explanation_dict``    |
| ``explain run.json``  | findings of reports, with what to do instead  | ``_finding_lines``       |
| ``... --json``        | the same, for a program that fixes them       | ``finding_dict``         |
| ``explain``           | the names that can be explained               | ``_name_lines``          |
| ``... --json``        | the same                                      | ``_family_dict``         |

A finding (``judging.finding``) is what happened at one place for one cause, in any number of tests.
Where nothing was judged (a script, a run without the gate), every break, recompile and function
that runs in eager mode is one.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import asdict

from pytest_graphbreak.advice import Explanation, explain, suggest
from pytest_graphbreak.advice.explanation import Page, by_name, groups
from pytest_graphbreak.advice.reasons import Family
from pytest_graphbreak.advice.registry import as_id, installed_registry, shipped_registry
from pytest_graphbreak.artifacts.incoming import load_all
from pytest_graphbreak.cli import page
from pytest_graphbreak.cli.messages import complain, note, say_all
from pytest_graphbreak.cli.report import filter_of_tests, sources_root
from pytest_graphbreak.config.typed import Typed, this_command
from pytest_graphbreak.judging.finding import SEEN, Finding
from pytest_graphbreak.model.forms import Plain
from pytest_graphbreak.model.items import Break
from pytest_graphbreak.model.report import TestReport
from pytest_graphbreak.report.checkout import CheckoutSources
from pytest_graphbreak.report.lines import position
from pytest_graphbreak.report.root_causes import by_nodeid, cause_lines, root_causes
from pytest_graphbreak.report.unjudged import findings_of_tests
from pytest_graphbreak.text.output import BLANK, TextLine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add one topic of any number of words, so that a reason needs no quotes; or reports."""
    parser.add_argument(
        "topic",
        nargs="*",
        metavar="ID",
        help="an id (GB0124), a name (branch, split, recompile), the text of a reason, or JSON "
        "reports, whose findings are explained; without it, the names are listed",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="for programs: one JSON object per line, for the topic or for each finding",
    )
    parser.add_argument(
        "--tests",
        metavar="PATTERN",
        help="for reports, only the findings of tests whose id contains this text, or matches it "
        "if it has * or ?",
    )


def run(args: argparse.Namespace) -> int:
    """Print the explanation. Returns 0, or 2 and prints similar names if there is none.

    Of ``explain old.json gone.json`` the second may be missing: that is no topic of two words, but
    reports, and the error names the missing one.
    """
    if args.topic and all(map(_is_report, args.topic)):
        return _print_findings(args)
    topic = " ".join(args.topic).strip()
    if not topic:
        if args.json:
            _print(map(_family_dict, by_name().values()))
        else:
            say_all(_name_lines())
        return 0
    explanation = explain(topic)
    if explanation is None and any(map(os.path.isfile, args.topic)):
        return _print_findings(args)
    if explanation is None:
        for line in _unknown(topic):
            complain(line)
        return 2
    if args.json:
        _print([_explanation_dict(explanation)])
    else:
        say_all(page.lines(explanation))
    return 0


def _is_report(word: str) -> bool:
    """Return whether a word is a file, or a directory whose name is not also a topic."""
    return os.path.isfile(word) or (os.path.isdir(word) and explain(word) is None)


def _print_findings(args: argparse.Namespace) -> int:
    """Print the findings of reports. Returns 0 even if there are none."""
    tests = [test for report in load_all(args.topic, note=note) for test in report.tests]
    is_wanted = filter_of_tests(args.tests, {test.nodeid for test in tests})
    shown = findings([test for test in tests if is_wanted(test.nodeid)])
    if not shown:
        complain("graphbreak explain: nothing in these reports is red, and nothing broke")
    elif args.json:
        root = sources_root()
        sources = CheckoutSources(root)
        # A report does not say how its run was started, so its tests are run in the plainest way.
        typed = Typed(("python", "-m", "pytest"), here=os.getcwd(), root=str(root or ""))
        gated = {test.nodeid for test in tests if is_compared(test)}
        _print(finding_dict(finding, sources, typed, gated) for finding in shown)
    else:
        say_all(_finding_lines(shown))
    return 0


def _finding_lines(shown: Sequence[Finding]) -> Iterator[TextLine]:
    """Yield each finding as a failure shows it, with its page of advice once."""
    families = set[str]()
    for number, finding in enumerate(shown):
        if number:
            yield BLANK
        yield from cause_lines(finding)
        if finding.raising_line.file:
            yield TextLine(f"raised in {position(finding.raising_line)}", indent=2)
        explanation = page.explanation_of(finding)
        if explanation is None or explanation.family in families:
            continue
        families.add(explanation.family)
        instead = explanation.page.instead if explanation.page else ()
        yield from page.items("What to write instead", instead)
        command = this_command().graphbreak("explain", explanation.family)
        yield TextLine("more: ", indent=2, command=command)


def _print(objects: Iterable[Plain]) -> None:
    """Print each object as one line of ASCII, which cannot control a terminal or be wrapped."""
    for thing in objects:
        # GitHub Actions interprets `##[` anywhere in a line (ActionCommand.TryParse of its runner).
        print(json.dumps(thing, separators=(",", ":")).replace("##[", "#\\u0023["))


def _explanation_dict(explanation: Explanation) -> Plain:
    """Return an explanation as plain types; ``docs/reference/commands.md`` describes the keys."""
    parts = explanation.page or Page("")
    return {
        "id": explanation.id,
        "name": explanation.family,
        "title": explanation.title,
        "try": explanation.short,
        "meaning": parts.meaning,
        "why": parts.why,
        "instead": list(parts.instead),
        "switches": list(parts.switches),
        "examples": list(map(asdict, parts.examples)),
        "torch": explanation.torch,
        "words": [asdict(words) for words in explanation.words],
        "also": list(explanation.also),
        "url": explanation.url,
    }


def _family_dict(family: Family) -> Plain:
    return {"name": family.name, "title": family.title, "try": family.short}


def _name_lines() -> Iterator[TextLine]:
    yield TextLine("A name, an id (GB0124), or the text of a reason: graphbreak explain NAME")
    for title, families in groups().items():
        yield from (BLANK, TextLine(title, "title"))
        for family in families:
            yield TextLine(family.title, indent=2, head=f"{family.name:<22}")


def _unknown(topic: str) -> Iterator[str | TextLine]:
    yield f"graphbreak: no advice on {topic!r}"
    if as_id(topic):
        versions = dict.fromkeys(
            registry.version
            for registry in (installed_registry(), shipped_registry())
            if registry.version
        )
        yield f"torch {' and '.join(versions)} has no such id; another torch may"
        yield "give the text of the reason instead of its id"
    near = suggest(topic)
    if near:
        yield "did you mean: " + ", ".join(near)
    yield TextLine("all names: ", command=this_command().graphbreak("explain"))


# The findings of reports.

MOST_TESTS: Final = 10
"""The number of tests that a finding names, the most urgent first; ``red`` counts all."""


def findings(tests: Sequence[TestReport]) -> list[Finding]:
    """Return the findings of red tests, those of most tests first, then what was not judged."""
    return [*root_causes(by_nodeid(tests)).findings, *findings_of_tests(tests)]


def is_compared(test: TestReport) -> bool:
    """Return whether a test needs ``--graph-budget`` to be judged: a marker alone does not."""
    return test.baseline is not None or test.verdict == "new"


def finding_dict(
    finding: Finding, sources: CheckoutSources, typed: Typed, gated: Collection[str]
) -> Plain:
    """Return a finding as plain types. The keys are in docs/reference/commands.md, ``explain``.

    ``typed`` has the commands to put into it. ``gated`` are the tests to run again with
    ``--graph-budget`` (``is_compared``); others run without it, since that option is a usage error
    in a checkout that has no baselines.
    """
    judged = finding.sign != SEEN
    explanation = page.explanation_of(finding)
    excerpt = sources.excerpt(finding.where)
    test = finding.tests[0]
    first = next(iter(finding.items), None)
    return {
        "kind": finding.kind,
        "layer": finding.layer,
        "id": finding.id or None,
        "reason": finding.reason if finding.is_of(Break) else finding.generalize().title,
        "explanation": first.explanation if isinstance(first, Break) else "",
        "where": finding.where.to_dict() if finding.where.file else {},
        "source": None if excerpt is None else {"line": excerpt[0], "code": excerpt[1]},
        "stack": [frame.to_dict() for frame in finding.stack if frame.file],
        "raised": finding.raising_line.to_dict() if finding.raising_line.file else {},
        "try": next(iter(finding.fix), None),
        **_advice(explanation),
        "judged": judged,
        "red": len(finding.tests) if judged else 0,
        "graphs": finding.growth,
        "tests": list(finding.tests[:MOST_TESTS]),
        "fix": typed.on_test("fix", test) if explanation else None,
        "verify": _verify(test, typed, gated),
    }


def _advice(explanation: Explanation | None) -> Plain:
    parts = (explanation.page if explanation else None) or Page("")
    return {
        "instead": list(parts.instead),
        "switches": list(parts.switches),
        "explain": f"graphbreak explain {explanation.family}" if explanation else None,
    }


def _verify(test: str, typed: Typed, gated: Collection[str]) -> str:
    """Return the command that runs a test, or a script, again."""
    if "::" not in test:
        return typed.graphbreak("run", test)
    return typed.test(test, *(["--graph-budget"] if test in gated else []))
