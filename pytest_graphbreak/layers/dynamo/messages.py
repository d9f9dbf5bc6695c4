"""Reads Dynamo's messages: why a graph broke, which guard failed, what an error was.

It takes text, or an exception, and returns plain values; it knows no torch. Texts of graph breaks
come in two forms. From 2.7 on most are laid out by ``format_graph_break_message`` of
torch/_dynamo/exc.py: a type, an explanation, hints, a developer's context and a link with the id.
Older ones are one free line. Both may hold what differs from run to run (addresses, paths of this
machine), which is left out.
"""

from __future__ import annotations

import re

from msgspec import Struct

from pytest_graphbreak.layers.faults import or_else
from pytest_graphbreak.model import stacks
from pytest_graphbreak.model.stacks import Line

LIMIT = re.compile(r"(recompile|cache_size|cache size)[ _]limit", re.IGNORECASE)
"""The words of a reason that a limit was hit. Recompiles hit one, and no break does."""

UNNAMED = "Dynamo did not say which guard failed"

_CHAINED = "*** While handling this graph break, another graph break occurred: ***"
"""What Dynamo writes between the breaks of a chain."""
_LAYOUT = re.compile(r"(?m)^ +Explanation: ")
"""A line by which the form of ``format_graph_break_message`` is known."""
_FIELD = re.compile(
    r"(?m)^ +(?=Explanation: |Hint: |Developer debug context: |Higher Order Operator: )"
)
_ID = re.compile(r"/gb/gb(\d+)")
"""The id in the link: ``https://.../gb/gb0124.html``."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_NUMBER = re.compile(r"0x[0-9a-fA-F]+|(?<![\w.])\d{9,}(?![\w.])")
_PATH = re.compile(r"(?<![\w:/.])/(?:[^\s/'\"`,:;()]+/)+([^\s/'\"`,:;()]+)")
_NAMED = re.compile(
    r"<(?:(?:bound |built-in )?(?:function|method)|code object) ((?:[\w.]|<\w{1,20}>){1,400})"
    r"(?:,? (?:of|file) (?:[^<>]|<[^<>]*>)*)?>"
)
"""``<function f at 0x7f...>``, ``<bound method A.f of ...>``: the name is kept."""
_CLASS = re.compile(r"<class '([\w.<>]+)'>")
_PLACE = re.compile(r"([^\s:][^\n:]{0,4096}):(\d{1,9}) in (\S{1,500})")
"""``model.py:12 in forward``"""
_SUBJECT = re.compile(
    # tensor 'x' size mismatch at index 0. expected 4, actual 5
    r"tensor '(?P<tensor>[^']{1,200}(?:'[^']{1,80}'\][^']{0,80})*)' (?P<property>\w+) mismatch"
    # not hasattr(self, 'cache')
    r"|(?:not )?hasattr\((?P<holder>.{1,200}), '(?P<attribute>\w{1,100})'\)"
    # len(self.blocks) == 2
    r"|len\((?P<list>.{1,200}?)(?:\._modules)?\) [=!]="
    # 2 <= x.size()[0]
    r"|(?:\d+ <= )?(?P<size>[\w.\[\]']{1,200})\.size\(\)\["
    # not self.hooks
    r"|not (?P<empty>[\w.\[\]']{1,200})$"
    # mask is not None
    r"|(?P<none>[\w.\[\]']{1,200}) is (?:not )?None"
    # ___check_obj_id(self.mode, ...)
    r"|___check_(?:obj|type)_id\((?P<identity>[\w.\[\]']{1,200}),"
    # self.n == 3
    r"|(?P<value>[A-Za-z_][\w.\[\]']{0,200}) =="
)
"""The expression that a guard is about, in each form of guards that ``guard`` returns."""
_ZERO_ONE = re.compile(r"size mismatch at index \d+\. expected [01], actual")
"""``size mismatch at index 0. expected 1, actual 5``"""
_SENTENCE = re.compile(r"(?<=[\w`'\")])\. (?=[A-Z])")


class Reason(Struct, frozen=True):
    """The reason of a graph break. ``id`` is Dynamo's (``GB0124``), None before torch 2.8."""

    text: str
    id: str | None = None
    explanation: str = ""
    hints: tuple[str, ...] = ()


def reason(message: str) -> Reason:
    """Read the text of a graph break; of a chain of them the first, which is the root cause."""
    message = message.split("\nTraceback (most recent call last)")[0].split(_CHAINED)[0]
    layout = _LAYOUT.search(message)
    return _free(message) if layout is None else _laid_out(message, layout.start())


def most_telling(texts: tuple[str, ...]) -> str:
    """Return one of Dynamo's texts on a recompile: it has one for each earlier compile.

    The first is of the newest compile, and is returned unless it says only that a size is not 0 or
    1 any more. Such a size has a graph of its own: what failed for another size says more.
    """
    newest = texts[0] if texts else ""
    if not _ZERO_ONE.search(newest):
        return newest
    return next((text for text in texts if not _ZERO_ONE.search(text)), newest)


def guard(text: str) -> str:
    """Return the guard that failed: ``n == 2``, from Dynamo's text.

    The text is ``0/0: L['n'] == 2    # return x * n  # model.py:8 in f``, and may go on with a
    stack, or with advice on guards of a backend (torch/_dynamo/guards.py of 2.13) or a parameter.
    """
    text = re.sub(r"^!?[\d/]+:\s*", "", text.strip())
    text = text.split("\nUser stack trace:")[0]
    text = readable(re.split(r"\s\s#|\s#(?= )", text, maxsplit=1)[0].rstrip())
    text = re.split(r" If this is unexpected, wrap your backend| Guard failed on a param", text)[0]
    return without_details(text) or UNNAMED


def subject(guard: str) -> str:
    """Return what a guard is about, as an expression of the function; empty if it is none."""
    match = _SUBJECT.match(guard)
    if match is None:
        return ""
    groups = match.groupdict()
    attribute, property = groups.pop("attribute"), groups.pop("property")
    text = next(filter(None, groups.values()))  # each form of a guard has one of these
    attribute = "requires_grad" if property == "requires_grad" else attribute
    return f"{text}.{attribute}" if attribute else text


def readable(text: str) -> str:
    """Return a guard with its variables as the user wrote them."""
    text = re.sub(r"L\['(\w+)'\]", r"\1", text)
    text = re.sub(r"G\['(\w+)'\]", r"\1", text)
    text = re.sub(r"\._modules\['(\w+)'\]", _module, text)
    return re.sub(r"\._(?:parameters|buffers)\['(\w+)'\]", r".\1", text)


def guard_lines(text: str) -> tuple[Line, ...]:
    """Return where the guard of Dynamo's text comes from, outermost frame first; empty if unknown.

    From 2.13 on a stack follows the guard, below ``User stack trace:``. Before, and in logs, one
    place follows it, whose file is without the directories that it shares with torch's own::

        0/0: L['n'] == 2    # return x * n  # twice  # wt/model.py:8 in f
    """
    if stack := stacks.read(text.partition("\nUser stack trace:")[2]):
        return stack
    # After the guard come the line of code, the comments that it has itself, and the place.
    comments = text.split("  # ")[1:]
    for number, comment in enumerate(comments[1:], 1):
        if place := _PLACE.match(comment):
            code = "  # ".join(comments[:number]).strip()
            return (Line(place[1], int(place[2]), place[3], code),)
    return ()


def error(kind: str, message: str) -> str:
    """Return an exception of Dynamo or a backend, in one line."""
    match = re.match(r"backend='?(.*?)'? raised:\s*(.+)", message)
    if match:
        return f"{kind}: the backend {match[1]} raised {without_details(match[2])}"
    layout = _LAYOUT.search(message)
    if layout is not None:
        return _laid_out(message, layout.start()).text
    first = without_details(message.strip().split("\n")[0])
    if first.startswith(kind) or kind == "InternalTorchDynamoError":
        return first  # which is another exception, wrapped
    return f"{kind}: {first}"


def exception_text(fault: BaseException) -> str:
    """Return the text of an exception; Dynamo adds the user's code to ``str``, not to ``msg``.

    One of the user's may refuse to be printed: then it is the name of its class.
    """
    text = vars(fault).get("msg") if has_own(fault, "msg") else None
    if type(text) is not str:
        text = or_else("", str, fault)
    return text or type(fault).__name__


def has_own(fault: BaseException, name: str) -> bool:
    """Return whether an exception itself has an attribute, without running code of its class."""
    return name in BaseException.__getattribute__(fault, "__dict__")


def export_stop(kind: str, message: str) -> str:
    """Return what stopped an export: the reason of the graph break that it would have been.

    A condition on data names symbols that only the tracer knows (``u0``): they are left out.
    """
    if kind == "Unsupported" or _LAYOUT.search(message):
        why = reason(message).text
    else:
        why = error(kind, message)
    condition = re.search(r"Could not (?:guard|extract).*", why)  # what comes before is advice
    why = condition[0] if condition else why
    why = re.split(r"\((?:unhinted|Size-like symbols): ", why, maxsplit=1)[0].rstrip()
    return f"{why} (it stops torch.export)"


def limit(kind: str, message: str) -> str | None:
    """Return what an error says of a recompile limit, or None if it is about something else.

    The texts are ``cache_size_limit reached`` (2.6), ``recompile_limit reached`` (up to 2.9),
    ``Dynamo recompile limit exceeded`` with the limit (from 2.10).
    """
    if kind != "RecompileLimitExceeded" and not re.search(
        r"^(?:\w+_limit reached|Dynamo (?:recompile|cache) limit exceeded)", message
    ):
        return None
    name = re.search(r"\b\w*(?:recompile|cache_size)_limit\b", message)
    value = re.search(r"currently set to (\d+)", message)
    return limit_reached(name[0] if name else "the recompile limit", value[1] if value else "")


def limit_reached(name: str, value: str) -> str:
    return f"{name} was reached ({value})" if value else f"{name} was reached"


def without_details(text: str) -> str:
    """Return text as one line without addresses, paths of this machine and numbers of this run."""
    text = _ADDRESS.sub("", text)
    text = _NAMED.sub(r"\1", text)
    text = _CLASS.sub(r"\1", text)
    text = _NUMBER.sub("...", text)
    text = _PATH.sub(r"\1", text)
    return " ".join(text.split())


def _laid_out(message: str, start: int) -> Reason:
    head = [line for line in message[:start].split("\n") if line.strip()]
    while head and head[-1].lstrip().startswith("Higher Order Operator: "):
        head.pop()
    id = _ID.search(message)
    fields = [field for field in _FIELD.split(message[start:]) if field]
    explanation = ""
    hints = []
    for field in fields:
        name, _, text = field.partition(": ")
        # A blank line ends what is meant for people; traces and links come after it.
        text = without_details(re.split(r"\n\s*\n", text)[0])
        if name == "Explanation":
            explanation = explanation or text
        elif name == "Hint" and text and text not in hints:
            hints.append(text)
    return Reason(
        without_details(head[-1]) if head else "",
        f"GB{id[1]}" if id else None,
        explanation,
        tuple(hints),
    )


def _free(message: str) -> Reason:
    text = message.strip().removeprefix("Unsupported: ").strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        text = text[1:-1]
    text = text.split("\n")[0]
    # Left out: values in the notation of Dynamo's variables, and the rule that it looked up.
    text = text.split("[<class ")[0].rstrip()
    text = re.sub(r",? skipped according trace_rules.*", "", text)
    text = re.sub(r"(inline in skipfiles: \S+).*", r"\1", text)
    text = re.sub(r" \(\) \{\}$", "", without_details(text))
    text, _, hint = text.partition("; to enable, ")
    first, *explanation = _SENTENCE.split(text, maxsplit=1)
    return Reason(first.rstrip(".: "), None, "".join(explanation), (hint,) if hint else ())


def _module(match: re.Match[str]) -> str:
    return f"[{match[1]}]" if match[1].isdigit() else f".{match[1]}"
