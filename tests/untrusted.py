"""Text that tries to be more than text, wherever a report ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tests.reports import Data, a_break, a_graph, a_report, a_test, over

STRINGS = (
    "::error::pwned",
    "  ::add-mask::pwned",
    "::stop-commands::x",
    "##[command]pwned",
    "real\nnewline\r\n::error file=a.py,line=1::pwned",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b31m",
    "</script><script>window.pwned = 1</script>",
    "<!--<script>",
    "<img src=x onerror='window.pwned = 1'>",
    '"><svg onload=window.pwned=1>',
    "' onmouseover='window.pwned = 1",
    "a | b || c",
    "`code` ``more`` ```block",
    "```\n# a heading of its own\n```",
    "</pre></details></code>out",
    "@octocat @tenstorrent/everyone #123 GH-1 fixes #1",
    "www.evil.test https://evil.test ftp://evil.test mailto:a@evil.test",
    "![image](https://evil.test/x.png) [link](javascript:pwned) [^1]: x",
    "**bold** __bold__ _it_ ~~gone~~ :smile:",
    "${{ secrets.TOKEN }} {{title}} {{data}}",
    "$(touch pwned) `touch pwned` ; touch pwned",
    "!!python/object/apply:os.system ['touch pwned']",
    "key: value # comment",
    "- &anchor *alias",
    "%0A::error::pwned %0D %25",
    "\u202eevil\u202c \u200b \u2028 \u2029 \ufeff",
    "\ud800 lone \udfff",
    "\x00 nul \x7f \x85",
    "../../../../evil",
    "&amp; &#64;octocat &lt;b&gt;",
    "]]> <![CDATA[ <?xml?> <!DOCTYPE x>",
    "\\ backslash \\x41 \\n",
    "x" * 20_000,
)
"""Each of these, in any text of a report, must show itself and do nothing."""

PATHS = (
    "../../evil.py::t",
    "/etc/evil.py::t",
    "tests/../../evil.py::t",
    "..\\..\\evil.py::t",
    "C:/evil.py::t",
    "./evil.py::t",
    "tests//evil.py::t",
    "tests/\x00.py::t",
    "evil.py",
    "::t",
    "tests/a\nb.py::t",
    "tests/test_a.py::t[real\nnewline]",
)
"""Node ids that name no test below the root, or that pytest cannot have made."""


def everywhere(text: str, nodeid: str | None = None) -> Data:
    """A test with this text in every place that takes one."""
    where = {"file": text, "function": text, "line": 7, "code": text}
    when = {"process": text, "during": text}
    name = text[:3000]
    return over(
        nodeid or f"tests/test_a.py::test_b[{name}]",
        breaks=[
            a_break(where, reason=text, id=text, explanation=text, hints=[text], stack=[where] * 3)
            | when
        ],
        eager=[{"layer": "dynamo", "reason": text, "count": 1, "where": where, **when}],
        recompile_list=[
            {
                "layer": "dynamo",
                "graph": text,
                "reason": text,
                "where": where,
                "stack": [where],
                "guard": where,
                "origin": where,
                **when,
            }
        ],
        graph_list=[
            a_graph(text, cause, where=where, reason=text, module=text, hash=text)
            | {**when, "from": [text], "functions": {f"{text}::{text}": 12}}
            for cause in ("entry", "break", "recompile", text)
        ],
        executions={"dynamo": 3},
        reads={"dynamo": 3},
        execution_list=[
            {
                "layer": "dynamo",
                "cause": cause,
                "graph": text,
                "count": 3,
                "ops": 6,
                "where": where,
                "process": text,
            }
            for cause in ("call", text)
        ],
        read_list=[
            {
                "layer": "dynamo",
                "cause": text,
                "graph": text,
                "count": 3,
                "ops": None,
                "where": where,
                "process": text,
            }
        ],
        baseline={
            "profile": text,
            "torch": text,
            "graphs": {"dynamo": 1},
            "recompiles": {},
            "executions": {"dynamo": 1},
            "lines": {text: 2},
            "breaks": [{"reason": text, "id": text, "where": text, "code": text, "count": 1}],
            "eager": [{"reason": text, "id": None, "where": text, "code": text, "count": 1}],
        },
        errors=[text],
        note=text,
        ungated=text,
        foreign=text,
        message=f"{text}\n  {text}\n{text}",
    )


def an_untrusted_report(**session: Any) -> Data:
    """Every malicious string in every place of a test of its own, and in the session."""
    report = a_report(
        *(everywhere(text) for text in STRINGS),
        a_test("tests/test_a.py::test_harmless"),
        unmeasured=[f"tests/test_a.py::u[{text[:3000]}]" for text in STRINGS],
        stale=[f"tests/test_a.py::s[{text[:3000]}]" for text in STRINGS],
        **session,
    )
    report["environment"] |= dict.fromkeys(("torch", "python", "platform"), STRINGS[6])
    return report


def spots(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a document, as a path of keys, from the top down."""
    yield path
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(data, dict):
        items = data.items()
    elif isinstance(data, list):
        items = enumerate(data)
    for key, value in items:
        yield from spots(value, (*path, key))


def at(data: Any, path: tuple[Any, ...]) -> Any:
    """What is at one of ``spots``."""
    for key in path:
        data = data[key]
    return data
