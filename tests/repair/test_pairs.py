"""What `fix` leaves to people: the code before and after of the pages, proved as programs."""

from __future__ import annotations

from typing import Final

import pytest

from pytest_graphbreak.advice.explanation import load_page
from tests.examples import sample
from tests.repair.conftest import Shop

pytestmark = pytest.mark.once

PAIRS: Final = (
    "loop 2",  # Newton's method as torch.while_loop
    "c-call 1",  # a custom op
    "value 2",  # a number of the module
    "value 1",  # a counter as a buffer
    "print 1",  # a line that is printed after the call
    "item 1",  # a list that grows after the call
)
"""The page, and which of its examples. That they break before and not after is in tests/advice."""


@pytest.mark.parametrize("pair", sample(PAIRS, ("value 1", "print 1")))
def test_the_code_of_a_page_is_proved(pair: str, shop: Shop) -> None:
    name, _, number = pair.partition(" ")
    example = load_page(name).examples[int(number)]
    for file, code in (("a.py", example.before), ("a_patched.py", example.after)):
        if "@torch.compile" not in code:
            code += '\n\nf = torch.compile(f, backend="eager")\n'
        code = code.replace("@torch.compile\n", '@torch.compile(backend="eager")\n')
        calls = f"for arguments in [{example.inputs.rstrip(',')}]:\n    print(f(*arguments))\n"
        (shop.path / file).write_text(f"import torch\n\n\n{code}\n\n{calls}")
    said = shop.run("prove", "a.py", "a_patched.py")
    assert said.code == 0, said.out + said.err
