"""The page of messages is what the source says, and the reader finds what he met."""

from __future__ import annotations

import ast

import pytest

from tests import messages

pytestmark = pytest.mark.pure


def test_the_page_is_up_to_date() -> None:
    below = messages.PAGE.read_text("utf-8").partition(messages.MARK)[2]
    assert below == messages.rendered(), "write it anew: python -m tests.messages"


@pytest.mark.parametrize("section", messages.SECTIONS, ids=lambda section: section.title)
def test_each_section_has_messages(section: messages.Section) -> None:
    assert len(messages.messages(section)) > 1


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ('"a file holds one"', "a file holds one"),
        ('f"{path}: cannot be read: {reason(error)}"', "PATH: cannot be read: ERROR"),
        ('f"more than {MOST_BYTES // 2**20} MiB"', "more than MOST_BYTES MiB"),
        ('f"{item.report.name}: " + "of no test"', "NAME: of no test"),
        ("words", None),
        ("3", None),
    ],
)
def test_a_text_is_shown_with_names_in_capitals(source: str, text: str | None) -> None:
    assert messages.text_of(ast.parse(source, mode="eval").body) == text


def test_what_users_meet_is_there() -> None:
    page = messages.PAGE.read_text("utf-8")
    for words in (
        "baselines are not written where the environment variable CI is set",
        "no cuda device here",
        "torch is not installed in this Python",
        "is not a count",
        "merge-conflict marker",
    ):
        assert words in page
