"""System descriptors of the TT plugin: what they say of the chips, and what is no descriptor.

The four that tt-xla ships (August 2026: n150, n300, n300-llmbox, p150) were read by hand; here they
are written in the same form, since theirs are not ours to ship.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_graphbreak.config.descriptor import system
from tests.examples import examples

pytestmark = pytest.mark.pure


def descriptor(chips: list[int], *, sized: bool = True) -> bytes:
    """The flatbuffer of a system whose chips have these values of ``Arch``."""
    parts: list[bytes] = []

    def place() -> int:
        return sum(map(len, parts))

    # root offset, identifier; then a vtable (two sizes, five fields) and its table
    parts += [struct.pack("<I", 8 + 14 + 2), b"TTSY"]
    parts.append(struct.pack("<7H", 14, 8, 0, 0, 0, 0, 4) + bytes(2))
    parts.append(struct.pack("<iI", 16, 4 + 12))  # behind it: the vtable of system_desc, its table
    parts.append(struct.pack("<6H", 10, 12, 0, 4, 8, 0))
    table = place()
    # chip_descs right behind the table, chip_desc_indices behind these
    descs = table + 12
    chip_vtables = descs + 4 + 4 * len(chips)
    tables = chip_vtables + 8
    indices = tables + 8 * len(chips)
    parts.append(struct.pack("<iII", 12, descs - table - 4, indices - table - 8))
    parts.append(struct.pack("<I", len(chips)))
    parts += [struct.pack("<I", tables + 8 * at - (descs + 4 + 4 * at)) for at in range(len(chips))]
    parts.append(struct.pack("<4H", 6, 8, 4, 0))
    parts += [
        struct.pack("<iI", tables + 8 * at - chip_vtables, arch) for at, arch in enumerate(chips)
    ]
    parts.append(struct.pack(f"<I{len(chips)}I", len(chips), *range(len(chips))))
    body = b"".join(parts)
    return struct.pack("<I", len(body)) + body if sized else body


WORMHOLE, BLACKHOLE = 0, 1


@pytest.mark.parametrize(
    ("chips", "file", "named"),
    [
        ([WORMHOLE], "desc.ttsys", "n150"),
        ([WORMHOLE] * 2, "desc.ttsys", "n300"),
        ([WORMHOLE] * 8, "n300-llmbox_system_desc.ttsys", "n300-llmbox"),
        ([WORMHOLE] * 8, "n300_system_desc.ttsys", "n300-llmbox"),  # the chips decide
        ([WORMHOLE] * 32, "desc.ttsys", "galaxy-wh-6u"),
        ([WORMHOLE] * 4, "desc.ttsys", "wormhole-x4"),
        ([BLACKHOLE], "desc.ttsys", "p150"),
        ([BLACKHOLE], "p100a_system_desc.ttsys", "p100"),
        ([BLACKHOLE] * 4, "qb2-blackhole.ttsys", "qb2-blackhole"),
        ([BLACKHOLE] * 4, "desc.ttsys", "blackhole-x4"),
        ([BLACKHOLE] * 32, "desc.ttsys", "galaxy-bh"),
        ([2], "desc.ttsys", "quasar"),
    ],
)
@pytest.mark.parametrize("sized", [True, False])
def test_chips_say_which_system_it_is(
    tmp_path: Path, chips: list[int], file: str, named: str, sized: bool
) -> None:
    path = tmp_path / file
    path.write_bytes(descriptor(chips, sized=sized))
    assert system(path) == named


@pytest.mark.parametrize(
    "data", [b"", b"TTSY", b"not a descriptor", descriptor([]), descriptor([9])]
)
def test_of_what_is_no_descriptor_the_name_is_left(tmp_path: Path, data: bytes) -> None:
    for file, named in (("n300-llmbox.ttsys", "n300-llmbox"), ("desc.ttsys", None)):
        path = tmp_path / file
        path.write_bytes(data)
        assert system(path) == named


def test_chips_of_two_kinds_are_no_system_that_is_known(tmp_path: Path) -> None:
    path = tmp_path / "desc.ttsys"
    path.write_bytes(descriptor([WORMHOLE, BLACKHOLE]))
    assert system(path) is None


@examples(200)
@given(
    edits=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=8),
    length=st.integers(0, 400),
)
def test_a_damaged_descriptor_is_no_error(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[int, int]], length: int
) -> None:
    data = bytearray(descriptor([WORMHOLE] * 8))
    for place, value in edits:
        data[place % len(data)] = value
    path = tmp_path_factory.getbasetemp() / "damaged.ttsys"
    path.write_bytes(data[: len(data) - length] if length < len(data) else data)
    system(path)
