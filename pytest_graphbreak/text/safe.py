"""Makes text from outside harmless for each kind of output.

Test ids, break reasons and source lines are data that others wrote. Each function here takes any
text and returns what may be written to one kind of output, where it is shown and has no effect.
They first make control characters visible, including those that reorder or hide text. ``cut`` only
makes a text shorter, and ``script_json`` escapes whatever is not ASCII.
"""

from __future__ import annotations

import html as _html
import json
import re
from typing import Any

_LEGACY_COMMAND = "##["
"""The beginning of a command that a runner of GitHub Actions obeys, as ``::`` (``console``)."""
_INLINE = re.compile(r"[^\w\s\-+=/:.,\[\]]|(?<![^\W_])_|_(?![^\W_])")
"""Characters that markdown may read as structure; an underscore only at the edge of a word."""
_LINK = re.compile(r"(www|https?|ftp)([.:])", re.IGNORECASE)
"""The beginnings of autolinks in GitHub's markdown; those of mail addresses need an ``@``."""


def printable(text: str) -> str:
    """Return text with control characters escaped, so that a terminal does not obey them."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


SHOWN = 400
"""Maximum number of characters of a reason or a source line on one line."""


def cut(text: str, most: int = SHOWN) -> str:
    """Return at most ``most`` characters of one line, and the number of those left out."""
    if len(text) <= most:
        return text
    return f"{text[:most].rstrip()} ... ({len(text) - most:,} more characters)"


def lines(text: str) -> str:
    """Return text with its line ends kept: every line is printable, tabs become spaces."""
    return "\n".join(printable(line.replace("\t", "    ")) for line in text.split("\n"))


def console(line: str) -> str:
    """Return one line for a terminal or a CI log.

    A runner of GitHub Actions obeys lines that begin with ``::`` after white space, and ``##[``
    anywhere (its ActionCommand.cs); both are disarmed.
    """
    shown = printable(line).replace(_LEGACY_COMMAND, "\\x23#[")
    start = len(shown) - len(shown.lstrip())
    if shown.startswith("::", start):
        shown = f"{shown[:start]}\\x3a{shown[start + 1 :]}"
    return shown


def html(text: str) -> str:
    """Return text for an element or a quoted attribute of HTML."""
    return _html.escape(printable(text), quote=True)


def markdown(text: str) -> str:
    """Return text for one line of GitHub's markdown, as code.

    Characters that could be structure are written as character references, which markdown takes as
    text and never as structure (CommonMark 0.31, section 2.5), also in a table; inside ``<code>``,
    GitHub does not turn text into mentions or emoji. Links are recognised there, so their
    beginnings are escaped. The rest is unchanged, since people also search these files.
    """
    shown = _INLINE.sub(lambda match: f"&#{ord(match[0])};", printable(text))
    return f"<code>{_LINK.sub(lambda match: f'{match[1]}&#{ord(match[2])};', shown)}</code>"


def preformatted_block(text: str) -> str:
    """Return a block of lines for GitHub's markdown.

    ``<pre>`` opens an HTML block that only its end tag closes (CommonMark 0.31, section 4.6), so
    nothing in it is markdown. A line that a CI log would obey if the file were printed there is
    disarmed. So is ``${``, with which expressions of a workflow begin, such as
    ``${{ secrets.TOKEN }}``, if a workflow takes the text over.
    """
    shown = "\n".join(console(line) for line in lines(text).split("\n"))
    escaped = _html.escape(shown, quote=False).replace("@", "&#64;").replace("${", "&#36;{")
    return f"<pre>\n{escaped}\n</pre>"


def script_json(data: Any) -> str:
    """Return JSON that is safe in a ``<script>`` element: it has no ``<``, so no tag."""
    return (
        json.dumps(data, ensure_ascii=True, separators=(",", ":"))
        .replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("&", "\\u0026")
    )


def workflow_message(text: str) -> str:
    """Return the data of a workflow command; line ends are kept as ``%0A``."""
    return lines(text).replace("%", "%25").replace("\n", "%0A")


def workflow_property(text: str) -> str:
    """Return a property of a workflow command, on one line."""
    return workflow_message(printable(text)).replace(":", "%3A").replace(",", "%2C")
