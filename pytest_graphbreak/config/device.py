"""The device that fixtures compile on: what a machine has, which device is chosen, its names.

``Machine`` has the facts, ``choose`` takes a ``Device`` by them and by ``--graph-budget-device``,
and ``profile_name`` and ``environment`` say where counts are filed and what made them. Nothing here
opens a device or imports torch_xla, since under xdist or ``--forked`` this runs in a process that
must not hold the card.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from glob import glob
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.config.packages import version
from pytest_graphbreak.model.layers import BACKENDS, Layer
from pytest_graphbreak.model.report import RunEnvironment
from pytest_graphbreak.model.versions import STATED, minor
from pytest_graphbreak.text.errors import UserError

TT_NODES: Final = "/dev/tenstorrent/*"
TT_DESCRIBED: Final = "TT_COMPILE_ONLY_SYSTEM_DESC"
"""With this variable, the TT plugin compiles for a system that a file describes, without a card."""
CUDA_NODES: Final = "/dev/nvidia[0-9]*"

_CARDS: Final = "class/tenstorrent/tenstorrent!*"
"""The directories of the cards, below ``/sys``."""
_CHIPS: Final = {"0x401e": "wormhole", "0xb140": "blackhole"}
"""The chip of a card by its PCI id."""
_SYSTEMS: Final = {
    ("n300", 4): "n300-llmbox",
    ("galaxy-wormhole", 32): "galaxy-wh-6u",
    ("galaxy-blackhole", 32): "galaxy-bh",
    ("p300", 2): "p300",
    ("p300", 4): "qb2-blackhole",
}
"""Names of systems in tt-xla's ``--arch``, by type and number of their PCI devices."""
_DESCRIBED: Final = re.compile(
    r"(?<![a-z0-9])(n300-llmbox|galaxy-wh-6u|galaxy-bh|[ql]b2?-blackhole|n150|n300|p1[05]0|p300)"
    r"[a-z]?(?![a-z0-9])"
)
"""The system in the name of a descriptor: ``n300-llmbox`` of ``n300-llmbox_system_desc.ttsys``.

A type may be followed by the letter of its variant, which is left out.
"""
_CARD_NAME: Final = re.compile(r"([npe]\d{3})[a-z]?", re.IGNORECASE)
"""The type of a card with the letter of its variant: ``p150a``."""


class DeviceError(UserError):
    """The requested device is not available. The message says what was looked for."""


class Device(Struct, frozen=True):
    """A device to compile for. ``kind`` is tt, xla, cuda or cpu; ``arch`` its model or client.

    A card is ``tt`` and ``n150``, torch_xla's client for the CPU is ``xla`` and ``cpu``. If only
    JAX is installed, ``kind`` may also be tpu.
    """

    kind: str
    arch: str

    @property
    def profile(self) -> str:
        """The name that counts measured here are filed under, such as ``xla-cpu``."""
        return f"{self.kind}-{self.arch}" if self.kind in BACKENDS else self.kind


class Machine(Struct, frozen=True):
    """The facts about a machine that are known without opening a device.

    ``installed`` says whether a module can be imported, ``nodes`` lists the device files of a
    pattern, and ``sysfs`` is where drivers show their cards.
    """

    environ: Mapping[str, str]
    installed: Callable[[str], bool]
    nodes: Callable[[str], list[str]]
    sysfs: Path = Path("/sys")

    def torch_xla(self) -> bool:
        return self.installed("torch_xla")

    def has(self, layer: Layer) -> bool:
        """Return whether a layer can be available: its modules and, if it needs one, its card."""
        modules = all(map(self.installed, layer.needs))
        return modules and (layer.name != "tt" or self.tt_hardware())

    def only_jax(self) -> bool:
        """Return whether JAX compiles here: it is installed, and torch is not."""
        return self.installed("jax") and not self.installed("torch")

    def missing_for_tt(self) -> list[str]:
        """Return what is missing for a TT device here; empty if there is one."""
        missing = []
        if not (self.torch_xla() or self.only_jax()):
            missing.append("the package torch_xla")
        if not self.installed("pjrt_plugin_tt"):
            missing.append("the PJRT plugin pjrt_plugin_tt")
        if not self.tt_hardware():
            missing.append(f"a device node {TT_NODES} (or {TT_DESCRIBED})")
        return missing

    def tt_hardware(self) -> bool:
        """Return whether there is a TT card, or the description of one to compile for. Cheap."""
        return bool(self.environ.get(TT_DESCRIBED)) or bool(self.nodes(TT_NODES))

    def tt_arch(self) -> str | None:
        """Return the model of the TT card or system (``n150``, ``n300-llmbox``), or None.

        The driver is asked, which answers without opening the device: ``tt_card_type``, else the
        PCI id (wormhole, blackhole). Cards that ``TT_VISIBLE_DEVICES`` hides do not count. If the
        plugin only compiles for a described system, the name of the description is used. Source:
        tt-kmd, docs/sysfs-attributes.md, telemetry.c and enumerate.h.

            one p150a               p150
            four n300               n300-llmbox, a system that has a name (``_SYSTEMS``)
            two n150                n150-x2
            an n150 and a p150      n150+p150
        """
        if described := self.environ.get(TT_DESCRIBED):
            system = _DESCRIBED.search(Path(described).name.lower())
            return system[1] if system else None
        names = Counter(filter(None, map(self._card, self._visible())))
        if len(names) != 1:
            return "+".join(sorted(names)) or None
        ((name, count),) = names.items()
        if (name, count) in _SYSTEMS:
            return _SYSTEMS[name, count]
        return name if count == 1 else f"{name}-x{count}"

    def _visible(self) -> list[Path]:
        """Return the driver's directory of each card that this process may use."""
        cards = sorted(self.sysfs.glob(_CARDS))
        visible = self.environ.get("TT_VISIBLE_DEVICES", "").replace(" ", "")
        if not re.fullmatch(r"\d+(,\d+)*", visible):  # it may also contain PCI addresses
            return cards
        numbers = visible.split(",")
        return [card for card in cards if card.name.rpartition("!")[2] in numbers]

    def _card(self, directory: Path) -> str | None:
        """Return the type of one card, without the letter of its variant (p150a is p150)."""
        name = _first_line(directory / "tt_card_type")
        if name in ("", "unknown"):
            return _CHIPS.get(_first_line(directory / "device" / "device").lower())
        match = _CARD_NAME.fullmatch(name)
        return match[1] if match else re.sub(r"[^\w.-]", "-", name)

    def pjrt(self) -> str:
        """Return the PJRT client that torch_xla would open, in lower case; ``cpu`` by default."""
        return self.environ.get("PJRT_DEVICE", "cpu").lower()

    def jax(self) -> str:
        """Return the first platform in the settings of JAX, in lower case; empty if none is set.

        The settings are read if the user's code has imported JAX, since a setting overrides the
        environment. No backend is opened.
        """
        config = getattr(sys.modules.get("jax"), "config", None)
        platforms = getattr(config, "jax_platforms", None) or self.environ.get("JAX_PLATFORMS", "")
        return str(platforms).split(",")[0].strip().lower()

    def cuda(self) -> bool:
        return bool(self.nodes(CUDA_NODES))


def this_machine() -> Machine:
    return Machine(os.environ, _is_installed, glob)


def _is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def _first_line(path: Path) -> str:
    """Return the contents of a sysfs file; empty if it is missing or its device does not answer."""
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def choose(asked: str, arch: str | None = None, machine: Machine | None = None) -> Device:
    """Return the device for ``asked`` (a value of ``--graph-budget-device``).

    ``auto`` takes tt, then a real xla device, then cuda, then PJRT's CPU client if torch_xla is
    installed, then cpu; without torch, the device that JAX takes. ``arch`` names the TT card if the
    suite knows it (``n150``); else the driver is asked. Raises ``DeviceError`` if the device is not
    available.
    """
    here = machine or this_machine()
    if asked == "auto":
        return _auto(here, arch)
    if asked == "tt":
        missing = here.missing_for_tt()
        if missing:
            raise DeviceError(
                "no TT device here: looked for and did not find " + ", ".join(missing) + ". "
                "--graph-budget-device=auto takes what is here."
            )
        return _tt(here, arch)
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
    if here.only_jax():
        return _jax_device(here, arch)
    if here.tt_hardware() and not here.missing_for_tt():
        return _tt(here, arch)
    if here.torch_xla() and here.pjrt() not in ("cpu", "tt"):
        return Device("xla", here.pjrt())
    if here.cuda():
        return Device("cuda", "gpu")
    if here.torch_xla():
        return Device("xla", "cpu")
    return Device("cpu", "cpu")


def _jax_device(here: Machine, arch: str | None) -> Device:
    """Return the device that JAX takes by default, if there is no torch."""
    platform = here.jax()
    if not platform:
        platform = _default_platform(here)
    if platform == "tt":
        return _tt(here, arch)
    if platform in ("cuda", "gpu", "rocm"):
        return Device("cuda", "gpu")
    return Device("tpu", "tpu") if platform == "tpu" else Device("cpu", "cpu")


def _default_platform(here: Machine) -> str:
    """Return the platform that JAX takes by default: of what is installed and there."""
    if not here.missing_for_tt():
        return "tt"
    if here.cuda() and _has_gpu_plugin(here):
        return "cuda"
    return "tpu" if here.installed("libtpu") else "cpu"


def _has_gpu_plugin(here: Machine) -> bool:
    return any(here.installed(f"jax_cuda{version}_plugin") for version in (12, 13))


def runs_tt(asked: str, machine: Machine | None = None) -> bool:
    """Return whether code run with this value of the device option may use TT. Cheap."""
    here = machine or this_machine()
    if asked == "tt" or here.pjrt() == "tt":
        return True
    return asked == "auto" and here.tt_hardware() and not here.missing_for_tt()


def _tt(here: Machine, arch: str | None) -> Device:
    """Return the TT device, as named by the suite or else by the driver."""
    return Device("tt", arch or here.tt_arch() or "unknown")


def profile_name(template: str | None, device: Device) -> str:
    """Return the profile of this run: the user's template filled in, or what was detected.

    Raises ``DeviceError`` for a field other than device, arch and torch.
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


def environment(device: Device, profile: str) -> RunEnvironment:
    """Return the ``environment`` of the JSON report; the caller fills in ``packages``."""
    values = RunEnvironment(
        profile=profile,
        device=device.kind,
        arch=device.arch,
        python=platform.python_version(),
        platform=sys.platform,
    )
    return replace(values, **{package: version(package) for package in STATED})
