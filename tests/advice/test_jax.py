"""The pages on what JAX compiles: their examples run on JAX, and reasons find their page."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pytest_graphbreak import advice, observe
from pytest_graphbreak.advice import explain, explanation, family
from pytest_graphbreak.advice.explanation import Example, by_name
from pytest_graphbreak.model.items import NOWHERE, Break, Eager, Graph, Recompile
from pytest_graphbreak.model.record import Record

pytestmark = [pytest.mark.pure, pytest.mark.jax]

EXAMPLES = {
    f"{name}-{number}": (name, example)
    for name in sorted(by_name())
    for number, example in enumerate(explanation.load_page(name).examples)
    if example.needs == "jax"
}
OF_ANOTHER_NAME = {
    "retrace": "jax-shape",  # a word of the reports: it shows a retrace of another family
    "jax-weak-type": "jax-weak-type",
}

SAID = {
    "at x: float32[3] before, float32[4] now": "jax-shape",
    "at y['hi']: float32[3] before, float32[2,3] now": "jax-shape",
    "the static argument config: another Config object, which is not equal": "jax-static",
    "something static in the arguments: 1 before, 2 now": "jax-static",
    "arguments put together differently: b['lo'] not there before": "jax-pytree",
    "2 arrays before, 3 now": "jax-pytree",
    "at x: on cpu:0 before, on no device of its own now": "jax-sharding",
    "at x: sharded ('a',) over a=2 before, sharded () over a=2 now": "jax-sharding",
    "at x: sharded ('a',) over a=2 before, replicated over a=2 now": "jax-sharding",
    "at x: float32[3] before, float32[4] now (f of model.py:3)": "jax-shape",
    "for cpu:0 before, for cpu:1 now": "jax-sharding",
    "the setting jax_enable_x64: False before, True now": "jax-config",
    "the option keep_unused of jax.jit: False before, True now": "jax-config",
    "f is a new function object at each call: "
    "jax.jit knows functions by identity, not by their code": "jax-function",
    "step is a method of another Model, or was bound again: "
    "jax.jit compiles for each object": "jax-function",
    "nothing that is known differs from before: the program may have been forgotten "
    "(jax.clear_caches(), or a cache that was full)": "jax-forgotten",
}


@pytest.mark.parametrize("reason", SAID)
def test_a_reason_has_its_page_and_one_line_of_advice(reason: str) -> None:
    assert advice.name(Recompile("jax", "0/f", reason, NOWHERE)) == SAID[reason]
    explained = explain(reason)
    assert explained.family == SAID[reason]


CALLBACK = "jax.pure_callback: the compiled program calls Python on the host each time it runs"


@pytest.mark.parametrize(
    ("item", "name"),
    [
        *((Graph("jax", "f", cause), f"jax-{cause}") for cause in ("eager", "transfer", "aot")),
        (Graph("jax", "f", "other"), "jax-other"),
        *((Graph("jax", "f", cause), "") for cause in ("jit", "retrace")),
        (Break("jax", CALLBACK, NOWHERE), "jax-callback"),
        (Eager("jax", "TracerBoolConversionError: Attempted boolean", NOWHERE), "jax-value"),
    ],
)
def test_a_program_and_what_stopped_one_have_their_page(item: advice.Item, name: str) -> None:
    assert advice.name(item) == name


def test_a_call_of_the_host_is_explained() -> None:
    assert explain(CALLBACK).family == "jax-callback"


@cache
def heard() -> list[str]:
    """An event for each program; jax 0.7 has no public way to take a listener away again."""
    from jax import monitoring

    reported: list[str] = []

    def hear(event: str, seconds: float, **more: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            reported.append(event)

    monitoring.register_event_duration_secs_listener(hear)
    return reported


def run(code: str, example: Example) -> tuple[int, Record, list[Any]]:
    """Programs by JAX's own event, our record, and the outputs."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    names: dict[str, Any] = {"jax": jax, "jnp": jnp, "np": np}

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "example.py"
        file.write_text(code, "utf-8")
        exec(compile(code, str(file), "exec"), names)
        calls = list(eval(f"({example.inputs})", names))
        jax.clear_caches()
        reported = heard()
        before = len(reported)
        with observe() as seen:
            outputs = [names["f"](*call) for call in calls]
    return len(reported) - before, seen.record, outputs


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_makes_fewer_programs_and_equal_outputs(name: str) -> None:
    pytest.importorskip("jax")
    import numpy as np

    of, example = EXAMPLES[name]
    if example.raises:
        import jax

        with pytest.raises(getattr(jax.errors, example.raises)):
            run(example.before, example)
        reported, record, _ = run(example.after, example)
        assert record.graphs["jax"] == reported
        return
    before, seen, outputs = run(example.before, example)
    after, rest, others = run(example.after, example)
    assert (after, len(rest.breaks)) < (before, len(seen.breaks))
    assert (seen.graphs["jax"], rest.graphs["jax"]) == (before, after)
    for one, other in zip(outputs, others, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other))
    items = [*seen.breaks, *seen.recompile_list, *seen.graph_list]
    found = {known.name for item in items if (known := family(item))}
    assert OF_ANOTHER_NAME.get(of, of) in found
