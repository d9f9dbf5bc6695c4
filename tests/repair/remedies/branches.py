"""Branches on a tensor's value, for the remedies that make an op of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pytest_graphbreak.repair.patch import Change
from tests.repair.remedies.sound import compare

SPACE: Final[dict[str, Any]] = {"flag": True, "zeros": [0.0], "seen": []}
PROGRAMS: Final[dict[str, str]] = {
    "of both sides": ("if x.sum() > 0:\n    z = x * y\nelse:\n    z = x - y\nreturn z"),
    "of a limit that is no float32": ("if x.max().item() > 0.1:\n    x = -x\nreturn x + 0"),
    "of a limit that is a tensor": (
        "if float(x.max()) >= y.min().item():\n    x = x + 1\nreturn x"
    ),
    "of no number": ("if not x.sum() >= 0:\n    x = x * 3\nreturn x"),
    "of several": ("if x.sum() > 0 and (y.sum() > 0 or flag):\n    x = x - 1\nreturn x + 0"),
    "of a list": ("if x.sum() > 0 and zeros:\n    x = x + 5\nreturn x + 0"),
    "of the value itself": ("if x.max():\n    x = x * 2\nreturn x"),
    "that returns": ("if x.sum() > 0:\n    return x * 2\nelse:\n    return y * 1.5"),
    "that returns early": ("if x.sum() > 0:\n    return x * 2\nreturn y * 1.5"),
    "that returns an argument": ("if x.sum() > 0:\n    return x, y\nreturn y, y"),
    "that returns a part": ("if x.sum() > 0:\n    z = x + y\n    return z, y\nreturn x - y, y"),
    "of roots": ("if x.min() > 0:\n    z = x.sqrt()\nelse:\n    z = x * 2\nreturn z"),
    "in place": ("if x.sum() > 0:\n    x += y\nreturn x * 1"),
    "in place of both": ("if x.sum() > 0:\n    x *= y\nelse:\n    x -= y\nreturn x * 1"),
    "of a number that was read": ("n = x.max().item()\nif n > 0.1:\n    y = y * 2\nreturn y, n"),
    "of two that were read": (
        "n, m = x.max().item(), float(y.sum())\nif n >= m:\n    y = y * 2\nreturn y + 0"
    ),
    "and later in place": ("if x.sum() > 0:\n    z = x\nelse:\n    z = y\nz += 1\nreturn z * 1"),
    "and later another name in place": ("z = x\nif x.sum() > 0:\n    z = y\ny += 1\nreturn z * 1"),
    "a method in place": ("if x.sum() > 0:\n    z = x.mul_(2)\nelse:\n    z = x + 0\nreturn z * 1"),
    "of numbers": ("if x.sum() > 0:\n    s = 0.1\nelse:\n    s = 0.7\nreturn x * s"),
    "of whole numbers": ("if x.sum() > 0:\n    s = 3\nelse:\n    s = 7\nreturn x * s"),
    "of two kinds": ("if x.sum() > 0:\n    s = 3\nelse:\n    s = 0.5\nreturn x * s"),
    "of random numbers": (
        "if x.sum() > 0:\n"
        "    z = torch.rand_like(y)\n"
        "else:\n"
        "    z = y + 0\n"
        "return torch.stack([z.double().sum(), torch.rand(()).double()])"
    ),
    "of shapes": (
        "if x.sum() > 0:\n    z = x.double().sum()\nelse:\n    z = x.double()\nreturn z + y"
    ),
    "of what may be None": (
        "w = (flag or None) and y\nif w is not None and w.sum() > 0:\n    x = x * w\nreturn x + 0"
    ),
    "of what may be None, that returns": (
        "w = (flag or None) and y\n"
        "if w is not None and w.sum() > 0 and x.sum() > 0:\n"
        "    return x * w\n"
        "return x + 0"
    ),
    "as an expression": ("z = x * 2 if x.sum() > 0 else y + 1\nreturn z"),
    "of blocks": ("if x.sum() > 0:\n    z = x * 2\n    w = z + y\nelse:\n    w = y - 1\nreturn w"),
    "of what is set before": ("w = y * 1\nif x.sum() > 0:\n    z = x * 2\n    w = z + y\nreturn w"),
    "that prints": (
        "w = y * 1\nif x.sum() > 0:\n    seen.append(1)\n    w = x * 1\nreturn w + len(seen)"
    ),
}
SAMPLE: Final = ("of both sides", "of several", "that returns early", "of roots", "of blocks")
"""What each push runs beside those that stay as they are and those that raise."""


def check_branch(
    change: Change, name: str, unfit: Mapping[str, str], raises: Mapping[str, str]
) -> None:
    """Check one of the programs with a remedy, and the tables of what it leaves as it is.

    ``unfit`` has why some are not rewritten, ``raises`` words of the error of those that raise for
    each input then.
    """
    pair = compare(change, PROGRAMS[name], unfit.get(name), **SPACE)
    if pair is not None:
        # An error is allowed for an input; a rewrite that gives nothing else is broken.
        assert (pair.equal == 0) == (name in raises)
        pair.check_errors(raises.get(name))
