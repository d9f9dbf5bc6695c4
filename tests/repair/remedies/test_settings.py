"""Which settings are tried for which breaks."""

from __future__ import annotations

import pytest

from pytest_graphbreak.model.record import Break, Frame, Record
from pytest_graphbreak.repair.remedies import settings
from pytest_graphbreak.repair.trial import Trial

pytestmark = pytest.mark.once

BREAKS = {
    ("Unsupported Tensor.item() call", "n = x.sum().item()"): "capture_scalar_outputs",
    ("Dynamic shape operator", "y = x[x > 0]"): "capture_dynamic_output_shape_ops",
    ("Failed to trace builtin operator", "print(x)"): "reorderable_logging_functions.add(print)",
    ("skipped", "warnings.warn('a')"): "reorderable_logging_functions.add(warnings.warn)",
    ("Attempted to wrap RNN, GRU, or LSTM", "y = self.rnn(x)"): "allow_rnn",
}


@pytest.mark.parametrize(("reason", "code"), sorted(BREAKS))
def test_a_break_has_its_setting(reason: str, code: str) -> None:
    item = Break("dynamo", reason, Frame("a.py", "f", 1, code))
    trial = Trial(Record(breaks=(item, item)))
    (patch,) = settings.together(trial)
    assert list(settings.propose(item, trial)) == [patch]
    assert BREAKS[reason, code] in patch.edits[-1].source  # type: ignore[union-attr]


def test_other_breaks_have_none() -> None:
    item = Break(
        "dynamo", "Attempted to call function marked as skipped", Frame("a.py", "f", 1, "g()")
    )
    assert not settings.together(Trial(Record(breaks=(item,))))
