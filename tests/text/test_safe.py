"""Escapes: each output shows malicious text and does not obey it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_graphbreak.text import safe
from pytest_graphbreak.text.safe import printable
from tests.text.tools import Parsed, obeyed
from tests.untrusted import STRINGS

pytestmark = pytest.mark.pure

untrusted = pytest.mark.parametrize("text", STRINGS, ids=range(len(STRINGS)))
texts = (
    st.text()
    | st.text(alphabet="<>&'\"|`@:#[]{}$%\n\r\t \x1b\u2028\ud800a")
    | st.sampled_from(STRINGS[:-1])
)


@given(texts)
def test_console_is_one_plain_line(text: str) -> None:
    line = safe.console(text)
    assert line.isprintable()
    assert not obeyed(line)


@pytest.mark.parametrize("text", ["::error::x", "   ::error::x", "a ##[error]x", "##[group]"])
def test_console_takes_commands_their_meaning(text: str) -> None:
    assert obeyed(text)
    assert not obeyed(safe.console(text))


def test_console_leaves_ordinary_text() -> None:
    line = "  over   tests/test_a.py::TestB::test_c[é-1]   dynamo 1 -> 2"
    assert safe.console(line) == line


@given(texts)
def test_html_is_text(text: str) -> None:
    parsed = Parsed(f'<p title="{safe.html(text)}">{safe.html(text)}</p>')
    assert parsed.tags == [("p", [("title", printable(text))])]
    assert parsed.text == printable(text)


@given(texts)
def test_markdown_is_code_on_one_line(text: str) -> None:
    shown = safe.markdown(text)
    assert not set("\n|`@") & set(shown)
    parsed = Parsed(shown)
    assert parsed.tags == [("code", [])]
    assert parsed.text == printable(text)


@given(texts)
def test_preformatted_stays_inside(text: str) -> None:
    shown = safe.preformatted_block(text)
    parsed = Parsed(shown)
    assert parsed.tags == [("pre", [])]
    assert not any(obeyed(line) for line in shown.split("\n"))
    assert "@" not in shown
    assert "${" not in shown


def test_preformatted_keeps_lines() -> None:
    assert Parsed(safe.preformatted_block("one\n    two")).text == "\none\n    two\n"


@given(st.recursive(texts, lambda inner: st.lists(inner) | st.dictionaries(texts, inner)))
def test_script_json_has_no_markup_and_loses_nothing(data: object) -> None:
    shown = safe.script_json(data)
    assert shown.isascii()
    assert not set("<>&") & set(shown)
    assert json.loads(shown) == data


@given(texts)
def test_workflow_commands_stay_one_command(text: str) -> None:
    message, value = safe.workflow_message(text), safe.workflow_property(text)
    assert not set("\n\r") & set(message)
    assert not set("\n\r:,") & set(value)
    undone = value.replace("%3A", ":").replace("%2C", ",").replace("%0A", "\n")
    assert undone.replace("%25", "%") == printable(text)


@untrusted
def test_no_escape_is_empty_handed(text: str) -> None:
    """What was there can still be read: the first word that is plain survives everywhere."""
    word = "harmless"
    for escape in (safe.console, safe.html, safe.markdown, safe.preformatted_block):
        assert word in escape(f"{text} {word}")
