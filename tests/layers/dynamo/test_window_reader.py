"""Stances of the compiler that a window sees: a call that set one, or one that stood before."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from pytest_graphbreak.layers.dynamo import private  # noqa: E402
from tests.layers.dynamo.tools import window  # noqa: E402

FORCED = "everything runs without the compiler"


def test_a_stance_is_noted_with_the_line_that_set_it() -> None:
    with window() as seen, torch.compiler.set_stance("force_eager"):
        pass
    (note, *_) = seen[0].notes
    assert 'torch.compiler.set_stance("force_eager") at ' in note
    assert "test_window_reader.py:" in note
    assert note.endswith(FORCED)


def test_a_stance_that_stood_before_has_no_line() -> None:
    with torch.compiler.set_stance("force_eager"), window() as seen:
        pass
    assert seen[0].notes == (f'the stance of torch.compiler was "force_eager" before: {FORCED}',)


def test_the_default_is_not_noted() -> None:
    with window() as seen, torch.compiler.set_stance("default"):
        pass
    assert seen[0].notes == ()


def test_a_torch_without_the_function_names_the_stance_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(private, "SET_STANCE", ("torch._dynamo.decorators", "gone"))
    with torch.compiler.set_stance("force_eager"), window() as seen:
        pass
    assert seen[0].errors == ()
    assert len(seen[0].notes) == 1
