"""Recompiles: what varies from call to call becomes an input of the graph."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pytest_graphbreak import advice
from pytest_graphbreak.repair.patch import Line, Patch, switch
from pytest_graphbreak.repair.trial import Trial

DYNAMIC: Final = switch("assume_static_by_default", "False")
_OBLIVIOUS: Final = switch("backed_size_oblivious", home="torch.fx.experimental._config")
_TENSORS: Final = Line(
    '''
def _graphbreak_numbers_as_tensors(compile):
    """torch.compile, but Python floats that are arguments of the compiled code are tensors."""
    import functools

    def wrap(model=None, **options):
        if model is None:
            return lambda function: wrap(function, **options)
        compiled = compile(model, **options)
        if isinstance(compiled, torch.nn.Module):
            return compiled

        @functools.wraps(compiled)
        def call(*args, **kwargs):
            def as_tensor(value):
                return torch.tensor(value) if type(value) is float else value

            return compiled(
                *map(as_tensor, args), **{key: as_tensor(value) for key, value in kwargs.items()}
            )

        return call

    return wrap


torch.compile = _graphbreak_numbers_as_tensors(torch.compile)
'''.strip()
)


def propose(trial: Trial) -> Iterator[Patch]:
    families = {
        found.name for item in trial.record.recompile_list if (found := advice.family(item))
    }
    if not trial.record.recompile_list:
        return
    yield Patch("dynamic=True: sizes and numbers are inputs of the graph", (DYNAMIC,))
    if families & {"attribute", "value"}:
        number = switch("allow_unspec_int_on_nn_module")
        yield Patch("numbers on modules are inputs of the graph", (number,))
        yield Patch("the same, from the first call on", (number, DYNAMIC))
    if families & {"zero-one", "size"}:
        load = Line("import torch.fx.experimental._config")
        yield Patch(
            "dynamic=True, and sizes of 0 and 1 are like any other",
            (load, DYNAMIC, _OBLIVIOUS),
        )
    yield Patch("Python floats that vary became tensors", (_TENSORS,))
    yield Patch("dynamic=True, and Python floats that vary became tensors", (DYNAMIC, _TENSORS))
