"""The line that sets what a failed guard names: read from the source, and only if one line can."""

from __future__ import annotations

import textwrap

import pytest

from pytest_graphbreak.layers.dynamo.messages import subject
from pytest_graphbreak.layers.origins import setter
from pytest_graphbreak.model.stacks import Line

pytestmark = pytest.mark.once

MODEL = textwrap.dedent(
    """\
    LIMIT = 1
    SEEN = []
    MODE = "a"
    class Net:
        scale = 1
        def __init__(self):
            self.k = 1
            self.both = 1
            self.items = []
            self.parts = {}
        def forward(self, x):
            SEEN.append(1)
            return x * self.k * len(SEEN)
        def step(self):
            global LIMIT
            LIMIT += 1
            MODE = "local"
            self.items.append(MODE)
            self.parts["n"] = 2
            for self.both in range(3):
                pass
            setattr(self, "named", 1)
    """
)
TEST = textwrap.dedent(
    """\
    def test_it():
        net = Net()
        net.k += 1
        net.both = 2
        net.only = 3
    """
)
SOURCES = {"net.py": MODEL.splitlines(keepends=True), "test.py": TEST.splitlines(keepends=True)}
CODE, CALL = Line("net.py", 11, "forward"), Line("test.py", 3, "test_it")


@pytest.mark.parametrize(
    ("guard", "is_global", "place"),
    [
        ("self.k == 1", False, ("test.py", 3, "net.k += 1")),
        ("self.scale == 1.0", False, ("net.py", 5, "scale = 1")),
        ("self.only == 3", False, ("test.py", 5, "net.only = 3")),
        ("self.named == 1", False, ("net.py", 22, 'setattr(self, "named", 1)')),
        ("len(self.items) == 3", False, ("net.py", 18, "self.items.append(MODE)")),
        ("self.parts['n'] == 2", False, ("net.py", 19, 'self.parts["n"] = 2')),
        ("LIMIT == 1", True, ("net.py", 16, "LIMIT += 1")),
        ("len(SEEN) == 1", True, ("net.py", 12, "SEEN.append(1)")),
        ("MODE == 'a'", True, ("net.py", 3, 'MODE = "a"')),
        ("self.both == 1", False, None),  # two lines can be it
        ("LIMIT == 1", False, None),  # an argument of that name
        ("tensor 'x' size mismatch at index 0. expected 4, actual 2", False, None),
        ("self.never == 1", False, None),
        ("GLOBAL_STATE changed: grad_mode", False, None),
        ("a guard that nobody knows", False, None),
    ],
)
def test_the_one_line_that_can_be_it(
    guard: str, is_global: bool, place: tuple[str, int, str] | None
) -> None:
    found = setter(subject(guard), is_global, CODE, (CALL,), SOURCES.__getitem__)
    assert (found and (found.file, found.line, found.code)) == place


def test_a_file_that_cannot_be_parsed_says_nothing() -> None:
    assert setter("self.k", False, CODE, (), lambda file: ["def forward(self:\n"]) is None
    assert setter("self.", False, CODE, (), SOURCES.__getitem__) is None
