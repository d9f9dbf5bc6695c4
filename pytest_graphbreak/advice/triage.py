"""Determines the kind of compile failure that a test died of, and what to gather next.

The input is the name of the exception, its message and the traceback's text, the output a
``Triage``. The kinds and the rules that distinguish them are in ``triage.yaml``: the first rule
that fits names the kind, such as ``graph-break``, ``backend`` or ``accuracy``. ``suite.reports``
shows the lines of ``of_error`` below the traceback of a test that failed by itself.

This is only for a test that compiled something: a difference in values counts as a matter of
accuracy here, whatever was compared.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from functools import cache
from pathlib import PurePath

from msgspec import Struct

from pytest_graphbreak import advice
from pytest_graphbreak.advice.reasons import load_yaml
from pytest_graphbreak.layers.dynamo import messages
from pytest_graphbreak.model import stacks
from pytest_graphbreak.model.items import NOWHERE, Break, Frame
from pytest_graphbreak.text.safe import console

RUN = "{run}"
"""Placeholder in a command for what runs the test: ``pytest tests/test_a.py::test_b``."""


class NextStep(Struct, frozen=True):
    """One thing to gather. ``what`` says what it shows, ``command`` is typed as it is.

    A command that has to run the test contains ``RUN``.
    """

    what: str
    command: str

    def line(self, run: str) -> str:
        """Return the command, with what runs the test filled in."""
        return self.command.replace(RUN, run)


class Kind(Struct, frozen=True):
    """A kind of failure: ``meaning`` is one or two sentences, ``steps`` the best first.

    ``files`` are files of torch for further reading.
    """

    name: str
    title: str
    meaning: str
    steps: tuple[NextStep, ...]
    files: tuple[str, ...] = ()


class Triage(Struct, frozen=True):
    """The result."""

    kind: Kind
    topic: str | None = None
    """What to ask ``graphbreak explain`` for."""
    broke: Break | None = None
    """The graph break that an error of ``fullgraph=True`` reports, as a break of Dynamo."""
    raised: str = ""
    """The file of torch that raised the error; empty if it was raised elsewhere."""

    def lines(self, run: str, tool: str = "graphbreak") -> tuple[str, ...]:
        """Return lines for a report. ``run`` runs the test again, ``tool`` starts graphbreak."""
        lines = [f"{self.kind.title}: {self.kind.meaning}"]
        if self.broke is not None:
            name = f"{self.broke.id}  " if self.broke.id else ""
            lines.append(f"  {name}{self.broke.reason}")
        if files := dict.fromkeys((*filter(None, (self.raised,)), *self.kind.files)):
            lines.append(f"  read: {', '.join(files)}")
        for step in self.kind.steps:
            lines += [f"  {step.what}:", f"    {step.line(run)}"]
        if self.topic:
            lines.append(f"  more: {tool} explain {self.topic}")
        return tuple(lines)


class _Rule(Struct, frozen=True):
    """A rule that fits if every part that is given is found.

    ``error`` is the whole name of the exception, ``message`` is searched in its message, ``place``
    in the name of the file that raised it, ``trace`` in the whole traceback. All four are regular
    expressions: ``AssertionError`` with ``Tensor-likes are not (close|equal)`` is a matter of
    ``accuracy``.
    """

    kind: str
    error: str = ""
    message: str = ""
    place: str = ""
    trace: str = ""
    topic: str | None = None

    def fits(self, error: str, message: str, place: str, trace: str) -> bool:
        if self.error and not re.fullmatch(self.error, error):
            return False
        parts = ((self.message, message), (self.place, place), (self.trace, trace))
        return all(not part or re.search(part, text) for part, text in parts)


class _Table(Struct, frozen=True):
    """The contents of ``triage.yaml``."""

    kinds: tuple[Kind, ...]
    rules: tuple[_Rule, ...]


@cache
def _table() -> _Table:
    return load_yaml("triage.yaml", _Table)


def kinds() -> dict[str, Kind]:
    """Return all kinds of failures by their names."""
    return {kind.name: kind for kind in _table().kinds}


def triage(exception_type_name: str, message: str, traceback_text: str = "") -> Triage | None:
    """Return the kind of a compile failure, or None if it does not look like one.

    The exception's name may be qualified (``torch._dynamo.exc.Unsupported``). Files are named by
    their last part.
    """
    error = exception_type_name.rsplit(".", 1)[-1]
    place = _last_place(traceback_text)
    rule = next(
        (
            candidate
            for candidate in _table().rules
            if candidate.fits(error, message, place, traceback_text)
        ),
        None,
    )
    if rule is None:
        return None
    kind = kinds()[rule.kind]
    raised = _raising_file(traceback_text)
    if rule.kind == "graph-break" and rule.topic is None:
        broke = _break(message)
        return Triage(kind, advice.topic(broke) or None, broke, raised)
    by_backend = rule.kind in ("backend", "triton")  # the page ``backend`` is for both
    return Triage(kind, rule.topic or ("backend" if by_backend else None), raised=raised)


def of_error(error: BaseException, command: str, tool: str = "graphbreak") -> tuple[str, ...]:
    """Return the report lines for a test that died of ``error``; empty for no compile failure.

    ``command`` runs the test again, ``tool`` starts graphbreak. An error that was raised from
    another one is looked at first, then its cause, since backends wrap errors of the compiler.
    """
    seen: set[int] = set()
    exception: BaseException | None = error
    while exception is not None and id(exception) not in seen:
        seen.add(id(exception))
        trace = "".join(
            traceback.format_exception(
                type(exception), exception, exception.__traceback__, chain=False
            )
        )
        failure = triage(type(exception).__name__, str(exception), trace)
        if failure is not None:
            return tuple(map(console, ("", *failure.lines(command, tool))))
        exception = exception.__cause__
    return ()


# '  File "a.py", line 3' of Python, or 'a.py:3:' of pytest.
_PLACE = re.compile(r"^(?:  File \"(.+?)\", line \d+|(\S[^\n:]*\.py):\d+(?::|$))", re.MULTILINE)

# The stack of the user's code, which a message of Dynamo ends with; it looks like a traceback.
_USER_CODE = re.compile(r"^from user code:\n(?:.+(?:\n|\Z))*", re.MULTILINE)


def _last_place(traceback_text: str) -> str:
    """Return the file in which the exception was raised, in Python's notation or pytest's."""
    return next(_places(traceback_text), "")


def _raising_file(traceback_text: str) -> str:
    """Return the file of torch that raised the error, without the module that creates it."""
    places = (file for file in _places(traceback_text) if not file.endswith("_dynamo/exc.py"))
    file = next(places, "").rpartition("-packages/")[2]
    return file if file.startswith(("torch/", "torch_xla/")) else ""


def _places(traceback_text: str) -> Iterator[str]:
    """Return the files of a traceback, the innermost first."""
    places = _PLACE.findall(_USER_CODE.sub("", traceback_text).replace("\\", "/"))
    return (quoted or bare for quoted, bare in reversed(places))


# Operators like torch.cond put these words before the reason: "... doesn't work unless it is
# captured completely with torch.compile. Got graph break/error: ".
_HIGHER_ORDER = re.compile(
    r"\A.*?unless it is captured completely with torch\.compile\.\s+Got (?:graph break/error:)?\s*",
    re.DOTALL,
)
_OF_TORCH = re.compile(r"[/\\](site|dist)-packages[/\\]torch(_xla)?[/\\]")
"""``.../site-packages/torch/_dynamo/...``, a file whose frames are not the user's."""


def _break(message: str) -> Break:
    """Return the graph break that an error of ``fullgraph=True`` reports."""
    text = _HIGHER_ORDER.sub("", message)
    why = messages.reason(text)
    stack = tuple(_frames(text))
    return Break(
        layer="dynamo",
        reason=why.text,
        where=stack[-1] if stack else NOWHERE,
        id=why.id,
        explanation=why.explanation,
        hints=why.hints,
        stack=stack,
    )


def _frames(message: str) -> list[Frame]:
    """Return the user's stack from an error's text, outermost first, without torch's own frames."""
    _, _, user_code = message.partition("from user code:")
    return [
        Frame(PurePath(line.file).name, line.name, line.line, line.code or "")
        for line in stacks.read(user_code)
        if not _OF_TORCH.search(line.file)
    ]
