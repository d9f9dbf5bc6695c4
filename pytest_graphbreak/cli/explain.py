"""``graphbreak explain``: explains a reason and what to write instead, without network or torch.

It explains one reason, by our page on it and torch's own text (``render``), or the findings of JSON
reports (``findings``); for people, or with ``--json`` for programs. ``fix`` shows the examples of
the pages, too (``ExamplesOnce``).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import asdict, replace

from pytest_graphbreak import advice
from pytest_graphbreak.advice import Explanation, explain, suggest
from pytest_graphbreak.advice.explanation import Example, Page, by_name, groups
from pytest_graphbreak.advice.reasons import Family
from pytest_graphbreak.advice.registry import as_id, installed_registry, shipped_registry
from pytest_graphbreak.artifacts.incoming import load_all
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
from pytest_graphbreak.text.terminal import NARROWEST, is_terminal, wrap

_MADE_LATER: Final = "(its text is made when the break happens: see the failure itself)"
"""In place of torch's text, where its registry has none."""

WIDTH: Final = 88
"""The largest width of the text in columns. Code is never wrapped."""


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
    """Print the explanation. Returns 0, or 2 and prints similar names if there is none."""
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
        return _print_findings(args)  # which names those that are missing
    if explanation is None:
        for line in _unknown(topic):
            complain(line)
        return 2
    if args.json:
        _print([_explanation_dict(explanation)])
    else:
        say_all(render(explanation))
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
    pages = set[str]()
    for number, finding in enumerate(shown):
        if number:
            yield BLANK
        yield from cause_lines(finding)
        if finding.raising_line.file:
            yield TextLine(f"raised in {position(finding.raising_line)}", indent=2)
        page = page_of(finding)
        if page is None or page.family in pages:
            continue
        pages.add(page.family)
        yield from _items("What to write instead", page.page.instead if page.page else ())
        yield TextLine(
            "more: ", indent=2, command=this_command().graphbreak("explain", page.family)
        )


def _print(objects: Iterable[Plain]) -> None:
    """Print each object as one line of ASCII, which cannot control a terminal or be wrapped."""
    for thing in objects:
        # GitHub Actions interprets `##[` anywhere in a line (ActionCommand.TryParse of its runner).
        print(json.dumps(thing, separators=(",", ":")).replace("##[", "#\\u0023["))


def _explanation_dict(explanation: Explanation) -> Plain:
    """Return an explanation as plain types; ``docs/reference/commands.md`` describes the keys."""
    page = explanation.page or Page("")
    return {
        "id": explanation.id,
        "name": explanation.family,
        "title": explanation.title,
        "try": explanation.short,
        "meaning": page.meaning,
        "why": page.why,
        "instead": list(page.instead),
        "switches": list(page.switches),
        "examples": list(map(asdict, page.examples)),
        "torch": explanation.torch,
        "words": [asdict(words) for words in explanation.words],
        "also": list(explanation.also),
        "url": explanation.url,
    }


def _family_dict(family: Family) -> Plain:
    return {"name": family.name, "title": family.title, "try": family.short}


def render(explanation: Explanation) -> Iterator[TextLine]:
    """Yield the lines of an explanation as plain text."""
    yield from _wrap(f"{explanation.id or explanation.family}: {explanation.title}", "", "  ")
    if explanation.id and explanation.family:
        yield from _wrap(f"{explanation.family}: {by_name()[explanation.family].title}", "  ")
    page = explanation.page or Page("")
    yield from _section("What it means", page.meaning)
    yield from _section("Why", page.why)
    yield from _items("What to write instead", page.instead)
    yield from _items("Switches", page.switches)
    for example in page.examples:
        yield from _example(example)
    if explanation.words:
        yield from _torch(explanation)
    yield from _section("See also", ", ".join(explanation.also))
    yield from _section("Read on", explanation.url or "")


def _section(title: str, text: str) -> Iterator[TextLine]:
    if not text:
        return
    yield from (BLANK, TextLine(title, "title"))
    for number, paragraph in enumerate(text.split("\n\n")):
        if number:
            yield BLANK
        yield from _wrap(paragraph, "  ")


def _items(title: str, items: tuple[str, ...]) -> Iterator[TextLine]:
    if not items:
        return
    yield from (BLANK, TextLine(title, "title"))
    for item in items:
        yield from _wrap(item, "  - ", "    ")


def _example(example: Example) -> Iterator[TextLine]:
    yield BLANK
    for line in _wrap(f"Example. {example.note}", ""):
        yield replace(line, kind="title")
    if example.until:
        yield TextLine(f"(up to torch {example.until})", indent=2)
    if example.since:
        yield TextLine(f"(torch {example.since} and later)", indent=2)
    raises = f", which raises {example.raises}" if example.raises else ""
    yield from _wrap(f"before{raises}", "  ", "    ")
    yield from _code(example.before)
    yield TextLine("after", indent=2)
    yield from _code(example.after)


class ExamplesOnce:
    """Shows, for findings of a program, the code before and after of their pages, each once."""

    def __init__(self) -> None:
        self._pages = set[str]()

    def of(self, finding: Finding) -> Iterator[TextLine]:
        """Yield the first example of the page of a finding, one that holds for any torch."""
        explanation = page_of(finding)
        page = explanation.page if explanation is not None else None
        if explanation is None or page is None or not page.examples:
            return
        if explanation.family not in self._pages:
            self._pages.add(explanation.family)
            portable = (x for x in page.examples if not (x.needs or x.raises or x.since or x.until))
            yield from _example(next(portable, page.examples[0]))
        command = this_command().graphbreak("explain", explanation.family)
        yield TextLine("more: ", command=command)


def _torch(explanation: Explanation) -> Iterator[TextLine]:
    """Yield torch's own text, and the earlier meanings of the id if there were any."""
    words, *earlier = explanation.words
    if explanation.torch == installed_registry().version:
        title = f"Torch {explanation.torch} on {words.id}"
        yield from _section(title, words.explanation or _MADE_LATER)
    for hint in words.hints:
        yield from _wrap(hint, "  - ", "    ")
    if earlier:
        reasons = "; ".join(meaning.reason for meaning in earlier)
        yield from _section(f"Earlier meanings of {words.id}", reasons)


def _code(code: str) -> Iterator[TextLine]:
    for line in code.rstrip().splitlines():
        yield TextLine(line, "source", 6, whole=True)


def _wrap(text: str, first: str, next_rows: str | None = None) -> list[TextLine]:
    rows = wrap(text, _width(), first, first if next_rows is None else next_rows)
    return [TextLine(row, whole=True) for row in rows]


def _width() -> int:
    """Return the width of the text: that of the terminal, but not more than is easy to read."""
    there = shutil.get_terminal_size().columns if is_terminal(sys.stdout) else WIDTH
    return max(NARROWEST, min(WIDTH, there))


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


# The causes of red tests, as JSON objects for a program that fixes them.
#
# Each has its place, the source around it, what happened, how to fix it and the command that
# shows whether it is fixed. If nothing was judged (a script, a run without the gate), every
# break, recompile and function that runs in eager mode is one.

MOST_TESTS: Final = 10
"""The number of tests that a finding names, the most urgent first; ``red`` counts all."""


def findings(tests: Sequence[TestReport]) -> list[Finding]:
    """Return the causes of red tests, those of most tests first, then what was not judged."""
    return [*root_causes(by_nodeid(tests)).findings, *findings_of_tests(tests)]


def is_compared(test: TestReport) -> bool:
    """Return whether a test needs ``--graph-budget`` to be judged: a marker alone does not."""
    return test.baseline is not None or test.verdict == "new"


def finding_dict(
    finding: Finding, sources: CheckoutSources, typed: Typed, gated: Collection[str]
) -> Plain:
    """Return a finding as plain types. The keys are in docs/reference/commands.md, ``explain``.

    ``gated`` are the tests whose baselines are compared: without a directory of baselines the gate
    does not begin.
    """
    judged = finding.sign != SEEN
    explained = page_of(finding)
    page = (explained.page if explained else None) or Page("")
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
        "instead": list(page.instead),
        "switches": list(page.switches),
        "explain": f"graphbreak explain {explained.family}" if explained else None,
        "judged": judged,
        "red": len(finding.tests) if judged else 0,
        "graphs": finding.growth,
        "tests": list(finding.tests[:MOST_TESTS]),
        "fix": typed.on_test("fix", test) if explained else None,
        "verify": _verify(test, typed, gated),
    }


def _verify(test: str, typed: Typed, gated: Collection[str]) -> str:
    """Return the command that runs a test, or a script, again."""
    if "::" not in test:
        return typed.graphbreak("run", test)
    return typed.test(test, *(["--graph-budget"] if test in gated else []))


def page_of(finding: Finding) -> Explanation | None:
    """Return our page on a finding, or None."""
    family = advice.family(finding.items[0]) if finding.items else None
    return None if family is None else advice.explain(family.name)
