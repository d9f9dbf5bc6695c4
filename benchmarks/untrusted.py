"""What strangers may send, drawn anew by a seed: patterns' worst strings, logs, damaged reports.

    python -m benchmarks.untrusted [--seed N] [--minutes 10] [PART...]

Needs neither torch nor a compiler. The parts share the time. Each prints a table
of what it tried and how long the slowest took; what fails is printed with all
that is needed to see it again, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Final

from pytest_graphbreak import cli
from tests import regexes
from tests.logs.worst import WORST
from tests.regexes import DYNAMIC
from tests.reports import a_report, a_test, over
from tests.untrusted import STRINGS, an_untrusted_report, at, spots

DATA: Final = Path(__file__).parents[1] / "tests" / "logs" / "data" / "example" / "run.log"
SLOWEST: Final = 20.0
"""Seconds of CPU that one command may take for what is drawn here, on a busy machine."""

VALUES: Final[tuple[Any, ...]] = (
    *(None, True, 0, -1, 1.5, 10**18, 10**400, "", "x" * 100_000, [], {}, [[]], {"": None}),
    *("\ud800", "\0", "../../etc/passwd", "a\nb", "\x1b[31m", "<script>", "::error::", "|" * 5000),
    *STRINGS,
)


class Fault(Exception):
    """Something that must not be. The message tells how to see it again."""


# Regular expressions


def expressions(rng: random.Random, until: float) -> Iterator[tuple[str, float]]:
    """Strings of up to five parts, in any order, again and again."""
    known = list(regexes.expressions(DYNAMIC))
    while time.monotonic() < until:
        one = rng.choice(known)
        parts = [part for attack in _some(one, rng) for part in attack if part] or ["a"]
        attack = (
            "".join(rng.choices(parts, k=rng.randint(0, 4))),
            "".join(rng.choices(parts, k=rng.randint(1, 5))),
            rng.choice(["", "\x01", "\n\x01", rng.choice(parts)]),
        )
        start = time.thread_time()
        for method in one.methods:
            if regexes.too_long(one.pattern, regexes.runner(one.pattern, method), attack):
                raise Fault(f"{one}\n    takes too long on {attack!r}")
        yield one.where, time.thread_time() - start


def _some(one: regexes.Expression, rng: random.Random) -> list[tuple[str, str, str]]:
    known = list(regexes.attacks(one.pattern))
    return rng.sample(known, min(8, len(known)))


# Logs


def logs(rng: random.Random, until: float) -> Iterator[tuple[str, float]]:
    """Pieces of real logs, and texts that were written to take long, mixed and damaged."""
    real = DATA.read_bytes()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "run.log")
        while time.monotonic() < until:
            names = rng.sample(sorted(WORST), rng.randint(1, 3))
            pieces = [WORST[name](rng.randint(1, 50_000)).encode() for name in names]
            for _ in range(rng.randint(0, 5)):
                start = rng.randrange(len(real))
                pieces.append(real[start : start + rng.randint(1, 8000)])
            rng.shuffle(pieces)
            text = bytearray(b"".join(pieces))
            for _ in range(rng.choice([0, 0, 1, 20])):
                text[rng.randrange(len(text))] = rng.randrange(256)
            path.write_bytes(text)
            took, out = _command("analyze", str(path))
            if any(len(line) > 2000 for line in out.split("\n")):
                raise Fault(f"a line of more than 2000 characters for {names}")
            yield "+".join(sorted(names)), took


# Reports


def reports(rng: random.Random, until: float) -> Iterator[tuple[str, float]]:
    """A value of a report is changed, taken out or doubled: it is refused or rendered."""
    seen = an_untrusted_report()
    seen["tests"] = [test | {"errors": []} for test in seen["tests"]]
    whole = [
        an_untrusted_report(),
        seen,
        a_report(over(), a_test("tests/test_a.py::test_c", 2, verdict="new")),
    ]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "report.json")
        other = Path(directory, "other.json")
        pages = [f"--{kind}={directory}/{kind}" for kind in ("markdown", "html")]
        beside = [f"--{kind}={directory}/{kind}" for kind in ("json", "markdown", "html", "patch")]
        while time.monotonic() < until:
            data = copy.deepcopy(rng.choice(whole))
            other.write_text(json.dumps(data if rng.random() < 0.5 else rng.choice(whole)))
            for _ in range(rng.randint(1, 3)):
                _damage(data, rng)
            path.write_text(json.dumps(data))
            both = rng.sample([str(path), str(other)], 2)
            for command in (
                ["report", str(path), *pages],
                ["check", str(path)],
                ["compare", *both],
                ["compare", *both, *beside],
            ):
                took, out = _command(*command)
                if not all(line.isprintable() for line in out.split("\n")):
                    raise Fault(f"{command} said what is not printable: {json.dumps(data)[:4000]}")
                yield command[0], took


def _damage(data: Any, rng: random.Random) -> None:
    """Change one value at a place that is drawn from all of them."""
    places = [path for path in spots(data) if path]
    if not places:
        return
    *above, key = rng.choice(places)
    inside = at(data, tuple(above))
    what = rng.random()
    if what < 0.15:
        del inside[key]
    elif what < 0.3 and isinstance(inside, list):
        inside.append(copy.deepcopy(inside[key]))
    else:
        inside[key] = copy.deepcopy(rng.choice(VALUES))


# Checkouts

NAMES: Final = (
    *("tests/test_a.yaml", "tests/test_b.yaml", "..yaml", ".~.yaml", "a\\b.yaml", "\udcff.yaml"),
    *("x" * 250 + ".yaml", "d.yaml", "HEAD", "objects", "config", ".git", ".graphbreak", "\n.yaml"),
)
ENTRY: Final = (
    "version: 1\nprofile: cpu\ntests:\n  test_b:\n    graphs: {dynamo: 2}\n    breaks:\n"
    "      - reason: Unsupported\n        where: models/head.py::Head.forward\n"
    "        code: if scores[0].item()\n"
)
INI: Final = "[pytest]\ngraph_budget_strict = true\ngraph_budget_isolation = none\n"
MARKED: Final = "import pytest\n@pytest.mark.graph_budget(gate=False)\ndef test_b(): ...\n"


def checkouts(rng: random.Random, until: float) -> Iterator[tuple[str, float]]:
    """Files, links, pipes, directories and repositories where baselines are looked for."""
    home = os.getcwd()
    while time.monotonic() < until:
        with tempfile.TemporaryDirectory() as name:
            root, secret = Path(name, "checkout"), Path(name, "secret.yaml")
            secret.write_text("a secret of this machine\n")
            (root / "baselines/tests").mkdir(parents=True)
            (root / "tests").mkdir()
            (root / "pytest.ini").write_text("[pytest]\n")
            report = Path(name, "one.json")
            test = a_test("tests/test_a.py::test_b", rng.randint(0, 3))
            test["ungated"] = rng.choice([None, "x"])
            report.write_text(json.dumps(a_report(test)))
            drawn = [_furnish(root, secret, rng) for _ in range(rng.randint(1, 6))]
            os.chdir(root)
            try:
                for command in (
                    ["check", str(report), "--base", rng.choice(["HEAD", "HEAD~1", "--all", ""])],
                    ["accept", str(report), "--yes", "--prune"],
                ):
                    took, out = _command(*command)
                    if "a secret" in out or secret.read_text() != "a secret of this machine\n":
                        raise Fault(f"{command} reached out of the checkout: {drawn}")
                    yield command[0], took
            except Fault as fault:
                raise Fault(f"{drawn}\n{fault}") from fault
            finally:
                os.chdir(home)


def _furnish(root: Path, secret: Path, rng: random.Random) -> str:
    """Put one odd thing into a checkout, and say which."""
    path = root / "baselines" / rng.choice(NAMES)
    what = rng.choice(["text", "link", "directory", "pipe", "source", "ini", "git", "swap"])
    with contextlib.suppress(OSError):
        if path.is_symlink() or path.is_fifo():
            path.unlink()  # else this would write through it
        if what == "text":
            path.write_bytes(_cut(ENTRY, rng))
        elif what == "link":
            path.symlink_to(rng.choice([secret, "nothing", "..", ".", "/dev/zero", "tests"]))
        elif what == "directory":
            path.mkdir()
        elif what == "pipe":
            # git waits for the other end of a pipe in its own place until its time is over.
            if path.suffix == ".yaml":
                os.mkfifo(path)
        elif what == "source":
            path = root / "tests" / rng.choice(["test_a.py", "conftest.py", "helper.py"])
            path.write_bytes(_cut(MARKED, rng))
        elif what == "ini":
            path = root / rng.choice(["pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"])
            path.write_bytes(_cut(INI, rng))
        elif what == "git":
            for words in ("init -q", "add -A", "commit -qm x"):
                user = ["-c", "user.name=a", "-c", "user.email=a"]
                command = ["git", *user, *words.split()]
                subprocess.run(command, cwd=root, capture_output=True, check=False)
        else:
            (root / "baselines").rename(root / "other")
            (root / "baselines").symlink_to(rng.choice(["other", str(secret.parent)]))
    return f"{what} {path.name}"


def _cut(text: str, rng: random.Random) -> bytes:
    """A text, cut off or with some of its bytes changed, or as it is."""
    data = bytearray(text.encode())
    for _ in range(rng.choice([0, 0, 1, 5])):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data[: rng.choice([len(data), rng.randrange(len(data))])])


# All of them


def _command(*arguments: str) -> tuple[float, str]:
    """Run a command in this process: it ends with 0, 1 or 2, in time and without a traceback."""
    out, err = io.StringIO(), io.StringIO()
    start = time.process_time()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = cli.main(list(arguments))
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 2
    except Exception as error:
        raise Fault(_kept(arguments, traceback.format_exc())) from error
    took = time.process_time() - start
    if code not in (0, 1, 2) or took > SLOWEST or "Traceback" in err.getvalue():
        raise Fault(_kept(arguments, f"exit {code}, {took:.1f} s\n{err.getvalue()[-2000:]}"))
    return took, out.getvalue()


def _kept(arguments: tuple[str, ...], words: str) -> str:
    """What to say of a fault; its input is kept where it can be read again."""
    source = Path(arguments[1] if len(arguments) > 1 else os.devnull)
    kept = Path(tempfile.mkdtemp(prefix="graphbreak-untrusted-"), source.name)
    kept.write_bytes(source.read_bytes())
    return f"graphbreak {arguments[0]} {kept}\n{words}"


Part = Callable[[random.Random, float], Iterator[tuple[str, float]]]
PARTS: Final[dict[str, Part]] = {
    "expressions": expressions,
    "logs": logs,
    "reports": reports,
    "checkouts": checkouts,
}


def attack(name: str, seed: int, seconds: float) -> bool:
    """One part, and its table: the five that took longest. Whether all held."""
    slowest: dict[str, float] = {}
    tried = 0
    try:
        for what, took in PARTS[name](random.Random(seed), time.monotonic() + seconds):
            tried += 1
            slowest[what] = max(took, slowest.get(what, 0.0))
    except Fault as fault:
        print(f"{name}: after {tried:,} tries, seed {seed}:\n{fault}")
        return False
    print(f"{name}: {tried:,} tries held")
    for what, took in sorted(slowest.items(), key=lambda item: -item[1])[:5]:
        print(f"    {took:8.3f} s  {what}")
    return True


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.untrusted")
    parser.add_argument("parts", nargs="*", default=list(PARTS), metavar="PART")
    parser.add_argument("--seed", type=int, default=int(time.time() // 86400))
    parser.add_argument("--minutes", type=float, default=10)
    asked = parser.parse_args()
    if unknown := set(asked.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    print(f"seed {asked.seed}")
    seconds = asked.minutes * 60 / len(asked.parts)
    held = [attack(name, asked.seed, seconds) for name in asked.parts]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
