"""Reads the chips of a system from a system descriptor of the TT plugin (a ``.ttsys`` file).

A descriptor is a flatbuffer with the identifier ``TTSY``. Source: tt-mlir,
``include/ttmlir/Target/Common/system_desc.fbs`` and ``types.fbs``, August 2026. Only two of its
fields are read here, for which the package ``flatbuffers`` would need generated code.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Final

MOST: Final = 1 << 20
"""Maximum bytes of a descriptor that are read; the descriptor of 8 chips has 4,000."""
CHIPS: Final = ("wormhole", "blackhole", "quasar")
"""The values of ``Arch`` in ``types.fbs``."""

_SYSTEM_DESC, _CHIP_DESCS, _CHIP_INDICES, _ARCH = 4, 1, 2, 0  # field numbers in the schema
_DESCRIBED: Final = {
    ("wormhole", 1): "n150",
    ("wormhole", 2): "n300",
    ("wormhole", 8): "n300-llmbox",
    ("wormhole", 32): "galaxy-wh-6u",
    ("blackhole", 1): "p150",
    ("blackhole", 32): "galaxy-bh",
}
"""Names of systems in tt-xla's ``--arch``, by kind and number of their chips."""
_SAME_CHIPS: Final = {
    "p100": ("blackhole", 1),
    "p300": ("blackhole", 2),
    "qb2-blackhole": ("blackhole", 4),
    "lb-blackhole": ("blackhole", 8),
}
"""Systems that the chips alone do not distinguish; the name of the file has to."""

_NAME: Final = re.compile(
    r"(?<![a-z0-9])(n300-llmbox|galaxy-wh-6u|galaxy-bh|[ql]b2?-blackhole|n150|n300|p1[05]0|p300)"
    r"[a-z]?(?![a-z0-9])"
)


def system(path: Path) -> str | None:
    """Return the name of the described system, such as ``n300-llmbox``, or None if unknown.

    The chips decide. The name of the file is used if the chips are ambiguous, or if the file cannot
    be read: tt-xla calls its own ``n300-llmbox_system_desc.ttsys``.
    """
    name = _name(path)
    chips = _chips(path)
    if chips is None:
        return name
    if name is not None and _SAME_CHIPS.get(name) == chips:
        return name
    kind, count = chips
    return _DESCRIBED.get(chips, kind if count == 1 else f"{kind}-x{count}")


def _name(path: Path) -> str | None:
    """Return the system in the name of a file, without the letter of a variant."""
    match = _NAME.search(path.name.lower())
    return match[1] if match else None


def _chips(path: Path) -> tuple[str, int] | None:
    """Return kind and number of the chips; None if invalid, or for chips of several kinds."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST)
        kinds, count = _read(data)
        (kind,) = kinds
        return (CHIPS[kind], count) if count else None
    except (OSError, ValueError, IndexError, struct.error):
        return None


def _read(data: bytes) -> tuple[set[int], int]:
    """Return the values of ``Arch`` and the number of chips.

    A chip is an index into ``chip_descs``. Raises ``ValueError``, ``IndexError`` or
    ``struct.error`` if the data is no descriptor.
    """
    # tt-mlir writes the size of the buffer before it (size-prefixed); a saved one may lack that.
    body = data[4:] if data[8:12] == b"TTSY" else data
    if body[4:8] != b"TTSY":
        raise ValueError("not a system descriptor")
    described = _follow(body, _required_field(body, _follow(body, 0), _SYSTEM_DESC))
    descs = _vector(body, _required_field(body, described, _CHIP_DESCS))
    chips = [
        _number(body, at) for at in _vector(body, _required_field(body, described, _CHIP_INDICES))
    ]
    kinds = set()
    for chip in set(chips):
        table = _follow(body, descs[chip])
        arch = _field(body, table, _ARCH)
        kinds.add(_number(body, arch) if arch else 0)  # a default is not stored
    return kinds, len(chips)


def _number(data: bytes, place: int) -> int:
    """Return the unsigned 32-bit integer at ``place``."""
    return int(struct.unpack_from("<I", data, place)[0])


def _follow(data: bytes, place: int) -> int:
    """Return where the offset at ``place`` leads."""
    return place + _number(data, place)


def _vector(data: bytes, place: int) -> range:
    """Return the positions of the items (of four bytes) of the vector that ``place`` leads to."""
    start = _follow(data, place) + 4
    end = start + 4 * _number(data, start - 4)
    if end > len(data):
        raise ValueError("a vector that is longer than the file")
    return range(start, end, 4)


def _required_field(data: bytes, table: int, number: int) -> int:
    """Return the position of a field that has no default."""
    if not (place := _field(data, table, number)):
        raise ValueError("a field is missing")
    return place


def _field(data: bytes, table: int, number: int) -> int:
    """Return the position of a field of a table, or 0 if the table has its default."""
    vtable = table - int(struct.unpack_from("<i", data, table)[0])
    if vtable < 0:
        raise ValueError("a table before the file")
    size = int(struct.unpack_from("<H", data, vtable)[0])
    entry = 4 + 2 * number
    if entry + 2 > size:
        return 0
    offset = int(struct.unpack_from("<H", data, vtable + entry)[0])
    return table + offset if offset else 0
