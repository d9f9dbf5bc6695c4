"""The fixture ``compile_model``: a model is moved to the device, compiled, run once and counted.

The device is that of ``--graph-budget-device``. The run is in a block of ``watch``, whose
``Seen`` has the counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pytest_graphbreak.config.device import Device
from pytest_graphbreak.measuring.watch import Counts, Seen, watch
from pytest_graphbreak.model import layers
from pytest_graphbreak.model.record import Record

BACKENDS: Final = {**layers.BACKENDS, "cuda": "inductor", "cpu": "inductor"}
"""The backend of torch.compile for each kind of device."""


@dataclass(frozen=True, slots=True)
class Run(Counts):
    """A compiled run. ``output`` is on the device; the counts are those of the run."""

    output: Any
    compiled: Any
    seen: Seen

    @property
    def record(self) -> Record:
        return self.seen.record


NO_INPUTS: Final = (
    "compile_model compiles a model and calls it, and was given no inputs to call it with: "
    "compile_model(model, x)"
)


class CompileModel:
    """The fixture ``compile_model``; call it with a model and its inputs."""

    def __init__(self, device: Device, root: Path) -> None:
        self.device = device
        self._root = root

    def __call__(
        self,
        model: Callable[..., Any],
        *args: Any,
        backend: str | Callable[..., Any] | None = None,
        compile_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Run:
        """Move model and inputs to the device, compile, run once, wait for the device.

        ``backend`` overrides the device's own (``openxla`` on xla, ``tt`` on
        TT, inductor on cuda and cpu); ``compile_options`` go to
        ``torch.compile``. Everything else goes to the model. Raises ``TypeError`` if that is
        nothing, and the model needs inputs.
        """
        import torch
        from torch.utils._pytree import tree_map

        place = self._open_device()

        def move(value: Any) -> Any:
            return value.to(place) if isinstance(value, torch.Tensor) else value

        if isinstance(model, torch.nn.Module):
            model = model.to(place)
        args, kwargs = tree_map(move, args), tree_map(move, kwargs)
        self._sync()
        chosen = BACKENDS[self.device.kind] if backend is None else backend
        compiled = torch.compile(model, backend=chosen, **(compile_options or {}))
        with watch(root=self._root) as seen:
            output = _call(compiled, args, kwargs)
            self._sync()
        return Run(output, compiled, seen)

    def _open_device(self) -> Any:
        """Return torch's device object; this opens the client on xla and TT."""
        import torch

        if self.device.kind in ("tt", "xla"):
            import torch_xla
            import torch_xla.runtime as xr

            if self.device.kind == "tt":
                xr.set_device_type("TT")
            return torch_xla.device()
        return torch.device(self.device.kind)

    def _sync(self) -> None:
        """Compute what is pending, so that none of it is charged elsewhere."""
        if self.device.kind in ("tt", "xla"):
            import torch_xla

            torch_xla.sync(wait=True)


def _call(compiled: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the model; where inputs are missing and none were given, say so (``NO_INPUTS``)."""
    try:
        return compiled(*args, **kwargs)
    except TypeError as error:
        if args or kwargs:
            raise
        raise TypeError(NO_INPUTS) from error
