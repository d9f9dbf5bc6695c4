"""Which device fixtures compile on, and what the profile of this machine is called.

Nothing here opens a device or imports torch_xla: under xdist or ``--forked``
this runs in a process that must not hold the card.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from glob import glob
from typing import Final

from pytest_graphbreak.baseline.model import minor

TT_NODES: Final = "/dev/tenstorrent/*"
CUDA_NODES: Final = "/dev/nvidia[0-9]*"


class DeviceError(RuntimeError):
    """The device that was asked for is not here. The message says what was looked for."""


@dataclass(frozen=True, slots=True)
class Device:
    """A place to compile for. ``kind`` is tt, xla, cuda or cpu; ``arch`` its model or client."""

    kind: str
    arch: str

    @property
    def profile(self) -> str:
        """The name that counts measured here are filed under, such as ``xla-cpu``."""
        return f"{self.kind}-{self.arch}" if self.kind in ("tt", "xla") else self.kind


@dataclass(frozen=True, slots=True)
class Machine:
    """What can be known of a machine without opening a device."""

    environ: Mapping[str, str]
    installed: Callable[[str], bool]
    nodes: Callable[[str], list[str]]

    def torch_xla(self) -> bool:
        return self.installed("torch_xla")

    def tt(self) -> list[str]:
        """Why there is no TT device here; empty when there is one."""
        missing = []
        if not self.torch_xla():
            missing.append("the package torch_xla")
        if not self.installed("pjrt_plugin_tt"):
            missing.append("the PJRT plugin pjrt_plugin_tt")
        if not self.nodes(TT_NODES) and "TT_COMPILE_ONLY_SYSTEM_DESC" not in self.environ:
            missing.append(f"a device node {TT_NODES} (or TT_COMPILE_ONLY_SYSTEM_DESC)")
        return missing

    def pjrt(self) -> str:
        """The PJRT client that torch_xla would open, in lower case; ``cpu`` if nothing says."""
        return self.environ.get("PJRT_DEVICE", "cpu").lower()

    def cuda(self) -> bool:
        return bool(self.nodes(CUDA_NODES))


def this_machine() -> Machine:
    return Machine(os.environ, _installed, glob)


def _installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def choose(asked: str, arch: str | None = None, machine: Machine | None = None) -> Device:
    """The device for ``asked`` (a value of ``--graph-budget-device``).

    ``auto`` takes tt, then a real xla device, then cuda, then PJRT's CPU client
    where torch_xla is installed, then cpu. ``arch`` names the TT card where the
    suite knows it (``n150``). Raises ``DeviceError`` if it is not here.
    """
    here = machine or this_machine()
    if asked == "auto":
        return _auto(here, arch)
    if asked == "tt":
        missing = here.tt()
        if missing:
            raise DeviceError(
                "no TT device here: looked for and did not find " + ", ".join(missing) + ". "
                "--graph-budget-device=auto takes what is here."
            )
        return Device("tt", arch or "unknown")
    if asked == "xla":
        if not here.torch_xla():
            raise DeviceError(
                "no xla device here: the package torch_xla is not installed. "
                "Run `pip install 'pytest-graphbreak[xla]'`."
            )
        return Device("xla", here.pjrt())
    if asked == "cuda" and not here.cuda():
        raise DeviceError(f"no cuda device here: looked for {CUDA_NODES} and found none.")
    return Device(asked, "cpu" if asked == "cpu" else "gpu")


def _auto(here: Machine, arch: str | None) -> Device:
    if not here.tt():
        return Device("tt", arch or "unknown")
    if here.torch_xla() and here.pjrt() not in ("cpu", "tt"):
        return Device("xla", here.pjrt())
    if here.cuda():
        return Device("cuda", "gpu")
    if here.torch_xla():
        return Device("xla", "cpu")
    return Device("cpu", "cpu")


def version(package: str) -> str | None:
    """The installed version of a package, read without importing it."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def profile_name(template: str | None, device: Device) -> str:
    """The profile of this run: the user's template filled in, or what was detected.

    Raises ``DeviceError`` for a field that is none of device, arch and torch.
    """
    if template is None:
        return device.profile
    try:
        return template.format(
            device=device.kind, arch=device.arch, torch=minor(version("torch")) or "none"
        )
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        raise DeviceError(
            f"--graph-budget-profile={template!r}: {error}; "
            "the fields are {device}, {arch} and {torch}"
        ) from None


def environment(device: Device, profile: str) -> dict[str, str | None]:
    """The ``environment`` of the JSON report."""
    import platform
    import sys

    return {
        "profile": profile,
        "device": device.kind,
        "arch": device.arch,
        "torch": version("torch"),
        "torch_xla": version("torch_xla"),
        "python": platform.python_version(),
        "platform": sys.platform,
    }
