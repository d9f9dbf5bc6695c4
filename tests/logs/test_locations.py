"""Source lines of device graphs, from the locations in their modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_graphbreak.logs.locations import Locations
from pytest_graphbreak.logs.sources import Sources
from pytest_graphbreak.model.places import Places
from tests.logs.tools import STACKS

pytestmark = pytest.mark.pure


def places(text: bytes, sources: Sources) -> dict[tuple[str, int, str], int]:
    locations = Locations()
    locations.feed(text.decode("latin-1"))
    return dict(locations.places(sources.is_user)[0])


@pytest.fixture
def sources(tmp_path: Path) -> Sources:
    return Sources(Places(tmp_path))


def test_the_innermost_line_that_is_not_torch(sources: Sources) -> None:
    assert places(STACKS, sources) == {("/root/tt-xla/net.py", 3, "forward"): 2}


def test_functions_that_share_a_line_keep_their_names(sources: Sources) -> None:
    text = (
        b'#loc1 = loc("/root/net.py":3:0)\n#loc2 = loc("forward"(#loc1))\n'
        b'#loc3 = loc("<lambda>"(#loc1))\n#loc4 = loc("aten__mm"(#loc2))\n'
        b'#loc5 = loc("aten__sin"(#loc3))\n'
    )
    found = places(text, sources)
    assert found == {("/root/net.py", 3, "forward"): 1, ("/root/net.py", 3, "<lambda>"): 1}


def test_of_a_large_module_so_many_aliases_are_read(
    sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_graphbreak.logs.locations.MOST", 10)
    more = b"".join(b'#loc%d = loc("aten__mm"(#loc9))\n' % number for number in range(20, 40))
    assert places(STACKS + more, sources) == {("/root/tt-xla/net.py", 3, "forward"): 1}


def test_a_line_that_is_cut_is_no_alias(sources: Sources) -> None:
    assert places(b"#loc1 = loc(callsite(#loc2 at\n" * 3 + STACKS, sources) == places(
        STACKS, sources
    )


def test_a_location_that_is_too_deep_has_no_function(sources: Sources) -> None:
    deep = [b'#loc0 = loc("/root/net.py":3:0)']
    deep += [b'#loc%d = loc("f"(#loc%d))' % (n, n - 1) for n in range(1, 300)]
    deep.append(b'#loc300 = loc("aten__mm"(#loc299))')
    # Its file is named all the same, and by what line, not by which function.
    assert places(b"\n".join(deep) + b"\n", sources) == {("/root/net.py", 3, ""): 1}


def test_packed_locations_of_tt_torch(sources: Sources) -> None:
    text = (
        b'#loc1 = loc("0|Net[net]|Linear[blocks.0.fc]|/root/net.py:2|forward|3|aten__addmm")\n'
        b'#loc2 = loc("1|Net[net]|Linear[blocks.0.fc]|/root/net.py:2|forward|4|aten__relu")\n'
        b'#loc3 = loc("-1|unknown|unknown|-1|aten__x")\n'
    )
    locations = Locations()
    locations.feed(text.decode("latin-1"))
    found, module = locations.places(sources.is_user)
    assert found == {("/root/net.py", 3, "forward"): 1, ("/root/net.py", 4, "forward"): 1}
    assert module == "blocks.0.fc"


def test_locations_that_stand_inline(sources: Sources) -> None:
    text = b'%0 = add %a, %b loc("/root/venv/lib/python3.12/site-packages/diffusers/a.py":18:0)\n'
    found = places(text, sources)
    assert found == {("/root/venv/lib/python3.12/site-packages/diffusers/a.py", 18, ""): 1}


@pytest.mark.parametrize(
    "text",
    [
        b'#loc1 = loc(#loc1)\n#loc2 = loc("aten__x"(#loc1))\n',
        b"#loc1 = loc(callsite(#loc2 at #loc2))\n#loc2 = loc(callsite(#loc1 at #loc1))\n"
        b'#loc3 = loc("aten__x"(#loc1))\n',
        b"#loc1 = loc(" + b"callsite(" * 500 + b'#loc2 at #loc3)\n#loc2 = loc("aten__x"(#loc1))\n',
        b'#loc = loc(\n#loc1 = loc()\n#loc2 = loc("aten__\\"x"(""))\n',
        b'\xff\xfe#loc1 = loc("\xff.py":1:0)\n',
        b'#loc1 = loc("/root/net.py":' + b"7" * 6000 + b":0)\n"
        b'#loc2 = loc("0|n|n|/root/net.py:2|f|' + b"7" * 6000 + b'|x")\n%0 = add loc(#loc1)\n',
    ],
)
def test_locations_that_are_no_stacks(sources: Sources, text: bytes) -> None:
    places(text, sources)
