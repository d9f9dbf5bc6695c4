"""The pull-request comment: what it says first, how long it is, and what it leaves out."""

from __future__ import annotations

import re

import pytest

from pytest_graphbreak.artifacts import incoming
from pytest_graphbreak.report import markdown
from pytest_graphbreak.report.runs import CheckNotes, runs_of
from pytest_graphbreak.text.safe import printable
from tests.report.tools import as_runs
from tests.reports import Data, a_break, a_report, over, place
from tests.text.tools import Parsed, obeyed
from tests.untrusted import STRINGS, an_untrusted_report

pytestmark = pytest.mark.pure


def rendered(*reports: Data, limit: int = markdown.COMMENT) -> str:
    return markdown.render(as_runs(*reports), limit)


def test_breaks_are_reported_where_no_failure_text_is() -> None:
    text = rendered(a_report(over(message=None)))
    assert "dynamo: 1 entry + 2 after a break" in text
    assert "models/head.py:10 in Head.forward" in text
    assert "if scores[0].item():" in text


def test_unmeasured_and_stale_are_named() -> None:
    text = rendered(a_report(unmeasured=["t.py::crashed"], stale=["t.py::old"]))
    assert "Graph budget: 1 not measured" in text
    assert "t.py::crashed" in text
    assert "t.py::old" in text


@pytest.mark.parametrize("limit", [4_000, 20_000, markdown.COMMENT])
def test_fits_and_says_what_it_left_out(limit: int) -> None:
    many = [
        over(f"t.py::test_{'é' * 40}[{number}]", 1, 2, graphs={"dynamo": 2 + number})
        | {"breaks": [a_break(place(code=f"line {number}"))]}
        for number in range(900)
    ]
    text = rendered(a_report(*many), limit=limit)
    assert len(text.encode()) <= limit
    rows = len(re.findall(r"^\| over \|", text, re.MULTILINE))
    assert ("| verdict |" in text) == (rows > 0)
    (left,) = re.findall(r"Left out for its length: ([\d,]+) more tests? moved", text)
    assert rows + int(left.replace(",", "")) == 900
    assert "[899]" in text  # the one that grew most
    explained = text.count("<pre>") - 1  # the first is that of all causes
    assert "**900 places explain 900 red tests**" in text
    assert re.search(r"\.\.\. and [\d,]+ more causes\n</pre>", text)
    assert f"the reasons of {900 - explained} tests" in text
    assert text.count("<details>") == text.count("</details>")


def test_what_is_left_out_is_counted_in_words() -> None:
    text = rendered(*(a_report(over(), profile=f"p{number}") for number in range(21)))
    assert "\n- and 1 more run\n" in text


def test_one_endless_message_is_cut() -> None:
    text = rendered(a_report(over(message="graph budget: x\n" + "line\n" * 100_000)))
    assert len(text.encode()) < markdown.COMMENT
    assert re.search(r"\.\.\. and [\d]+ more lines", text)


def test_hostile_text_stays_text() -> None:
    text = rendered(an_untrusted_report(), limit=markdown.SUMMARY)
    tags = Parsed(text).tags
    assert {tag for tag, _ in tags} == {"code", "details", "summary", "pre"}
    assert not any(attributes for _, attributes in tags)
    assert not any(obeyed(line) for line in text.split("\n"))
    assert "@" not in text
    assert "${" not in text
    for line in text.split("\n"):
        if line.startswith("| over"):
            assert line.count("|") == 5
    assert printable(STRINGS[6]) in Parsed(text).text


def test_hostile_text_makes_no_markdown() -> None:
    """As a markdown parser sees it: our headings, our table, our folds, and nothing else."""
    parser = pytest.importorskip("markdown_it", reason="markdown-it-py is not installed")
    text = rendered(an_untrusted_report(), a_report(over()), limit=markdown.SUMMARY)
    tokens = parser.MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    flat = [child for token in tokens for child in (token, *(token.children or ()))]
    kinds = {token.type for token in flat}
    assert not kinds & {"link_open", "image", "fence", "code_block", "em_open", "s_open"}
    code = {token.content for token in flat if token.type == "code_inline"}
    assert code == {"graphbreak accept REPORT.json..."}
    headings = [token for token in flat if token.type == "heading_open"]
    assert len(headings) == 1
    inline = {token.content for token in flat if token.type == "html_inline"}
    assert inline <= {"<code>", "</code>", "<details>", "<summary>", "</summary>", "</details>"}


def test_no_field_takes_the_place_of_the_marker_and_the_headline() -> None:
    """The bot finds its comment by the marker; a long version of torch once pushed it out."""
    for long in ("x" * 100_000, "\U0001f600\u202e" * 50_000, "@" * 100_000):
        reports = []
        for number in range(40):
            profile = f"p{number}{long[:250] if '@' in long else 'x' * 250}"
            report = a_report(over(), profile=profile)
            report["environment"] |= dict.fromkeys(("torch", "python", "platform"), long)
            report["session"] |= {"stale": [long[:4000]] * 50, "unmeasured": [long[:4000]] * 50}
            report["tests"][0] |= {"ungated": long}
            reports.append(incoming.parse(f"{number}.json", report))
        notes = CheckNotes("nothing was judged", *[(long,) * 50] * 3)
        for limit in (4_000, markdown.COMMENT):
            text = markdown.render(runs_of(reports), limit, notes)
            assert text.startswith(f"{markdown.MARK}\n### Graph budget: no verdict, nothing was")
            assert len(text.encode()) <= limit
