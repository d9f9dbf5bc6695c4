"""What commands print and write about recorded reports of several situations, and about logs."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.golden.replay import page_data, read_json, typed
from tests.golden.runs import in_checkout, pretty
from tests.golden.situation import DATA

LOGS: Final = Path(__file__).parents[1] / "logs" / "data"
TT: Final = Path(__file__).parent / "logs"


@dataclass(frozen=True)
class Session:
    """Lines that are typed in a directory with ``files``; ``kept`` are what they write there.

    A file is copied from the place of the same name in ``files``.
    """

    name: str
    files: tuple[tuple[str, Path], ...]
    lines: tuple[str, ...]
    kept: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return DATA / self.name

    def outputs(self) -> dict[str, str]:
        """What users see, by the name of the file that keeps it."""
        with in_checkout() as top:
            (top / "baselines").mkdir()
            for name, source in self.files:
                _copy(source, top / name)
            return dict(self._texts(top))

    def _texts(self, top: Path) -> Iterator[tuple[str, str]]:
        yield (
            "commands.txt",
            "\n".join(
                f"$ graphbreak {line}\n{typed(top, *line.split())}" for line in self.lines
            ).replace(str(top), "/checkout"),
        )
        for name in self.kept:
            path = top / name
            if path.suffix == ".html":
                yield f"{path.stem}.page.json", page_data(path)
            elif path.suffix == ".json":
                yield name, pretty(read_json(path)) + "\n"
            else:
                yield path.name, path.read_text()


def _copy(source: Path, target: Path) -> None:
    if source.suffix == ".gz":
        target.write_bytes(gzip.decompress(source.read_bytes()))
    else:
        shutil.copy(source, target)


def _reports(*names: str) -> tuple[tuple[str, Path], ...]:
    """The report of each situation after its change, as ``NAME.json``."""
    return tuple((f"{name}.json", DATA / name / "after.json") for name in names)


def _sides(before: str, after: str) -> tuple[tuple[str, Path], ...]:
    return (("before.json", DATA / before), ("after.json", DATA / after))


_RED: Final = ("over_item", "over_print", "over_recompile_shape", "lost_function", "new_test")
_SHARDS: Final = " ".join(f"{name}.json" for name in _RED)
_PAGES: Final = ("c.md", "p.html")
_AS_PAGES: Final = "--markdown c.md --html p.html"

SESSIONS: Final = (
    Session(
        "typed_shards",
        _reports(*_RED),
        (f"check {_SHARDS}", f"report {_SHARDS}", f"report {_SHARDS} {_AS_PAGES}"),
        _PAGES,
    ),
    Session(
        "typed_profiles",
        _reports("over_item", "xla_over_access", "jax_over_shape"),
        (
            "report over_item.json xla_over_access.json jax_over_shape.json",
            f"report over_item.json xla_over_access.json jax_over_shape.json {_AS_PAGES}",
            "accept over_item.json xla_over_access.json jax_over_shape.json --yes",
        ),
        (*_PAGES, "baselines/test_xla_over_access.yaml"),
    ),
    Session(
        "typed_compare_pages",
        _sides("over_one_gone_two_new/before.json", "over_one_gone_two_new/after.json"),
        ("compare before.json after.json", "compare before.json after.json --markdown c.md"),
        ("c.md",),
    ),
    Session(
        "typed_compare_other_programs",
        _sides("over_item/after.json", "over_print/after.json"),
        ("compare before.json after.json", "check after.json --against before.json"),
    ),
    Session(
        "typed_compare_same",
        _sides("over_item/after.json", "over_item/after.json"),
        ("compare before.json after.json --exit-code",),
    ),
    Session(
        "typed_faults",
        (("broken.json", TT / "tt_fail.log"),),
        (
            "check broken.json",
            "report gone.json",
            "compare broken.json gone.json",
            "explain nonsense",
        ),
    ),
    Session(
        "log_of_a_break",
        (("run.log", LOGS / "example" / "run.log"),),
        ("analyze run.log", "analyze run.log --json r.json --markdown c.md", "explain r.json"),
        ("r.json", "c.md"),
    ),
    Session(
        "log_of_torch",
        (("run.log", LOGS / "torch-2.13.log.gz"),),
        ("analyze run.log", "analyze run.log --markdown c.md"),
        ("c.md",),
    ),
    Session(
        "log_of_tt",
        (("run.log", TT / "tt_two.log"),),
        ("analyze run.log", "analyze run.log --json r.json", "report r.json"),
        ("r.json",),
    ),
    Session("log_of_tt_that_failed", (("run.log", TT / "tt_fail.log"),), ("analyze run.log",)),
)
