"""The table of forms and causes: a line that is shown is followed to green, or none is shown."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from pytest_graphbreak import Record, advice, observe
from pytest_graphbreak.advice.reasons import PLAIN, families
from tests.advice import running
from tests.advice.situations import breaks
from tests.advice.table import CAUSES, FORMS, Cause, Form
from tests.examples import sample

pytestmark = pytest.mark.once

HELD = {line.short: line.holds for family in families().breaks for line in family.lines}
SITUATIONS = {line for row in breaks.SITUATIONS for line in row.said}
HEAD = "import torch, torch._dynamo, logging\nlog = logging.getLogger('table')\nlast = []\n"
NUMBERS = count()
OF_EACH_PUSH = [cause for cause in CAUSES if cause.name == "item"]


def test_each_line_is_in_the_table_in_each_form_that_it_is_held_for() -> None:
    forms = {form.through or PLAIN for form in FORMS}
    assert {cause.line for cause in CAUSES} - {""} <= set(HELD)
    for line, holds in HELD.items():
        if line in SITUATIONS:
            continue
        assert line in {cause.line for cause in CAUSES}, line
        assert {*holds} <= forms, line


@pytest.mark.parametrize("cause", sample(CAUSES, OF_EACH_PUSH), ids=lambda cause: cause.name)
def test_a_cause_in_all_forms(cause: Cause, tmp_path: Path) -> None:
    wrong = [f"{form.name}: {why}" for form in FORMS if (why := _wrong(cause, form, tmp_path))]
    assert not wrong


def _wrong(cause: Cause, form: Form, folder: Path) -> str:
    """Return what is wrong with a cell; empty if nothing is."""
    try:
        before = _Run(cause, form, folder, cause.body)
    except Exception as error:
        return "" if type(error).__module__ != "builtins" else repr(error)
    record = before.record
    lines = {line for item in record.breaks for line in advice.shorts(item, record.graphs)}
    lines |= {line for item in record.eager for line in advice.shorts(item, record.graphs)}
    through = {item.through for item in record.breaks} - {"unknown"}
    if record.breaks and not cause.is_method and not through <= {form.through}:
        return f"through {through}"
    is_held = bool(cause.line) and (form.through or PLAIN) in HELD[cause.line]
    if form.name == "autograd.Function":
        lines -= SITUATIONS  # which are followed there
    if lines != ({cause.line} if is_held and record.breaks else set()):
        return f"said {lines}"
    if not is_held:
        return ""
    after = _Run(cause, form, folder, cause.after or cause.body, cause.switch, before.shown)
    if after.record.breaks or after.record.eager or after.record.graphs != {"dynamo": 1}:
        return f"not green: {after.record.graphs}"
    try:
        torch.testing.assert_close(after.result, before.result)
    except AssertionError as error:
        return str(error)
    return "" if after.shown == before.shown else f"{before.shown} became {after.shown}"


class _Run:
    """A run of a cell: what was recorded, returned, and printed, logged, warned and kept."""

    record: Record
    result: Any

    def __init__(
        self, cause: Cause, form: Form, folder: Path, body: str, top: str = "", late: str = ""
    ) -> None:
        module = ""
        function = f"{HEAD}{top}\n{cause.head}\ndef body(x):\n{body}"
        if form.through == "library":
            # A name of its own: Dynamo keeps the modules that it imported for the process.
            module = f"installed{next(NUMBERS)}"
            installed = folder / "site-packages" / f"{module}.py"
            installed.parent.mkdir(exist_ok=True)
            installed.write_text(f"{function}\ndef run(x): return body(x)\n")
            function = HEAD
        file = folder / "program.py"
        file.write_text(f"{function}\n{form.code.replace('MODULE', module)}\n")
        out = io.StringIO()
        names: dict[str, Any] = {"__name__": __name__, "in_child": _in_child}
        with (
            running.clean_dynamo(),
            contextlib.redirect_stdout(out),
            warnings.catch_warnings(record=True) as warned,
            _logged_to(out),
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.syspath_prepend(folder / "site-packages")
            warnings.simplefilter("always")
            exec(compile(file.read_text(), str(file), "exec"), names)
            names["x"] = torch.tensor([1.0, 2.0, 0.5])
            with observe() as seen:
                self.result = eval(form.call, names)
            for _ in late.splitlines():
                exec(cause.late, names)
        kept = [] if cause.name == "time" else names["last"]
        said = [str(warning.message) for warning in warned if str(warning.message) == "at"]
        self.record = seen.record
        self.shown = f"{out.getvalue()}{''.join(f'{text}' + chr(10) for text in said)}"
        self.shown += "".join(f"{value}\n" for value in kept) if not cause.late else ""


@contextlib.contextmanager
def _logged_to(out: io.StringIO) -> Any:
    logger, handler = logging.getLogger("table"), logging.StreamHandler(out)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _in_child(call: Callable[[], torch.Tensor]) -> torch.Tensor:
    """Return what a call returns in a forked process, whose graphs count as the test's."""
    import multiprocessing

    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=lambda: theirs.send(call().tolist()))
    process.start()
    theirs.close()  # so that a child that raises ends the wait
    result = torch.tensor(ours.recv())
    process.join()
    return result
