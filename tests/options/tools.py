"""Machines with packages and cards."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from pytest_graphbreak.config.device import Machine


def machine(*packages: str, env: dict[str, str] | None = None, nodes: str = "") -> Machine:
    """A machine with these packages, environment and device nodes (by prefix)."""
    return Machine(
        env or {},
        lambda name: name in packages,
        lambda pattern: [pattern] if nodes and nodes in pattern else [],
    )


TT = ("torch_xla", "pjrt_plugin_tt")


def cards(sysfs: Path, *types: str, pci: str = "0x401e") -> None:
    """The tree that tt-kmd makes, a directory for each PCI device."""
    for number, name in enumerate(types):
        card = sysfs / "class" / "tenstorrent" / f"tenstorrent!{number}"
        (card / "device").mkdir(parents=True)
        (card / "device" / "device").write_text(f"{pci}\n")
        if name:
            (card / "tt_card_type").write_text(f"{name}\n")


def on_tt(sysfs: Path, **env: str) -> Machine:
    return replace(machine(*TT, env=env, nodes="tenstorrent"), sysfs=sysfs)
