"""How baselines moved in git: every commit that touched them, every count that it changed.

The history is that of the branch itself (first parents), so that each count
has one value at each time. A renamed baseline file keeps its history.
"""

from __future__ import annotations

import datetime
import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_graphbreak.baseline import BaselineError, baseline_path
from pytest_graphbreak.baseline.model import Entry
from pytest_graphbreak.baseline.paths import SUFFIX, mirrored_file
from pytest_graphbreak.baseline.read import document

_RAW = re.compile(r"\n?:\d+ \d+ [0-9a-f]+ ([0-9a-f]+) ([A-Z])\d*")
_START, _FIELD = "\x1e", "\x1f"


class HistoryError(RuntimeError):
    """git cannot tell. The message says what to do."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit that touched baselines. ``hash`` is empty for what is not committed yet."""

    hash: str
    time: int
    author: str
    subject: str

    @property
    def date(self) -> str:
        return datetime.datetime.fromtimestamp(self.time, datetime.timezone.utc).date().isoformat()


@dataclass(frozen=True, slots=True)
class Point:
    """What a test was allowed from one commit on; None where its entry went."""

    commit: Commit
    graphs: Mapping[str, int] | None


@dataclass(slots=True)
class Series:
    """One test on one profile, oldest point first; two neighbours always differ."""

    nodeid: str
    profile: str
    points: list[Point] = field(default_factory=list)

    @property
    def changes(self) -> int:
        return len(self.points) - 1


@dataclass(slots=True)
class History:
    """Every series, and what could not be read: broken files of old commits are left out."""

    series: list[Series] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    shallow: bool = False


def read(directory: Path) -> History:
    """The history of the baselines in ``directory``, with what is not committed at its end.

    Raises ``HistoryError`` where there is no git, no repository, or nothing
    committed in it.
    """
    if not directory.is_dir():
        raise HistoryError(f"{directory}: there are no baselines here")
    reader = _Reader(directory)
    for commit, changes in _commits(directory):
        reader.take(commit, changes)
    reader.take_worktree()
    reader.history.shallow = _git(directory, "rev-parse", "--is-shallow-repository") == b"true\n"
    return reader.history


@dataclass(frozen=True, slots=True)
class _Changed:
    """One file in one commit: its new blob (None: deleted) and the name that it had before."""

    path: str
    blob: str | None
    before: str | None = None


class _Reader:
    """Walks the commits, oldest first, and keeps what each baseline file says."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.history = History()
        self._series: dict[tuple[str, str], Series] = {}
        self._said: dict[str, dict[tuple[str, str], Mapping[str, int]]] = {}

    def take(self, commit: Commit, changes: Iterable[_Changed]) -> None:
        found = list(changes)
        texts = _blobs(self.directory, [item.blob for item in found if item.blob])
        for item in found:
            if item.before is not None:
                self._rename(item.before, item.path)
            if item.blob is None or item.blob in texts:
                self._update(commit, item.path, texts.get(item.blob or ""))

    def take_worktree(self) -> None:
        """What the files say now, where git does not have that."""
        now = Commit("", int(datetime.datetime.now().timestamp()), "", "not committed")
        for path in _git_names(self.directory, "diff", "HEAD", "--name-only", "--relative"):
            file = self.directory / path
            self._update(now, path, file.read_bytes() if file.is_file() else None)
        for path in _git_names(self.directory, "ls-files", "--others", "--exclude-standard"):
            self._update(now, path, (self.directory / path).read_bytes())

    def _update(self, commit: Commit, path: str, text: bytes | None) -> None:
        if not path.endswith(SUFFIX):
            return
        try:
            said = {} if text is None else self._read(path, text)
        except BaselineError as error:
            self.history.unreadable.append(f"{commit.hash[:10] or 'now'} {error}")
            return
        before = self._said.get(path, {})
        for key in dict.fromkeys((*before, *said)):
            if before.get(key) != said.get(key):
                self._add(key, Point(commit, said.get(key)))
        self._said[path] = said

    def _read(self, path: str, text: bytes) -> dict[tuple[str, str], Mapping[str, int]]:
        full = self.directory / path
        file = mirrored_file(self.directory, full)
        if baseline_path(self.directory, file) != full:
            return {}
        try:
            found = document(text.decode("utf-8").removeprefix("\ufeff"), full, file)
        except UnicodeDecodeError:
            raise BaselineError("is not UTF-8", path=full) from None
        return {
            (entry.nodeid, profile): graphs
            for entry in found.entries()
            for profile, graphs in _graphs(entry)
        }

    def _add(self, key: tuple[str, str], point: Point) -> None:
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = Series(*key)
            self.history.series.append(series)
        series.points.append(point)

    def _rename(self, before: str, after: str) -> None:
        """Carry the series of a file on under the node ids that it has from now on."""
        old_file, new_file = (
            mirrored_file(self.directory, self.directory / path) for path in (before, after)
        )
        said = self._said.pop(before, {})
        self._said[after] = {}
        for (nodeid, profile), graphs in said.items():
            new = (new_file + nodeid.removeprefix(old_file), profile)
            series = self._series.pop((nodeid, profile))
            series.nodeid = new[0]
            self._series[new] = series
            self._said[after][new] = graphs


def _graphs(entry: Entry) -> Iterator[tuple[str, Mapping[str, int]]]:
    """The counts of every profile that an entry has values for."""
    profiles = [entry.profile] if entry.values is not None else []
    for profile in dict.fromkeys((*profiles, *entry.overrides)):
        expected = entry.expected(profile)
        if expected is not None:
            yield profile, {layer: n for layer, n in expected.values.graphs.items() if n}


def _commits(directory: Path) -> Iterator[tuple[Commit, list[_Changed]]]:
    output = _git(
        directory,
        *("log", "-m", "--first-parent", "--reverse", "-M", "--relative", "--raw", "-z"),
        *("--no-abbrev", "--no-ext-diff", f"--format={_START}%H{_FIELD}%ct{_FIELD}%an{_FIELD}%s"),
        *("--", "."),
    ).decode("utf-8", "backslashreplace")
    tokens = iter(output.split("\0"))
    commit: Commit | None = None
    changes: list[_Changed] = []
    for token in tokens:
        if token.startswith(_START):
            if commit is not None:
                yield commit, changes
            hash, time, author, subject = token[1:].split(_FIELD, 3)
            commit, changes = Commit(hash, int(time), author, subject), []
        elif found := _RAW.fullmatch(token):
            blob, status = found[1], found[2]
            path = next(tokens)
            before = path if status == "R" else None
            if status in "RC":
                path = next(tokens)
            changes.append(_Changed(path, None if status == "D" else blob, before))
    if commit is not None:
        yield commit, changes


def _blobs(directory: Path, names: list[str]) -> dict[str, bytes]:
    """The contents of blobs, by one call of git."""
    if not names:
        return {}
    output = _git(directory, "cat-file", "--batch", given="\n".join(names).encode() + b"\n")
    found: dict[str, bytes] = {}
    at = 0
    for name in names:
        end = output.index(b"\n", at)
        words = output[at:end].split()
        at = end + 1
        if words[1] != b"missing":  # a partial clone has not fetched it
            size = int(words[2])
            found[name] = output[at : at + size]
            at += size + 1
    return found


def _git_names(directory: Path, *args: str) -> list[str]:
    names = _git(directory, *args, "-z", "--", ".").decode("utf-8", "surrogateescape")
    return [name for name in names.split("\0") if name]


def _git(directory: Path, *args: str, given: bytes | None = None) -> bytes:
    command = ["git", "--no-pager", "--no-optional-locks", *args]
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env=os.environ | {"LC_ALL": "C"},
            input=given,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        raise HistoryError("git is not installed, and the history is git's") from None
    if done.returncode:
        words = done.stderr.decode("utf-8", "replace").strip().split("\n")[0]
        raise HistoryError(f"{directory}: git {args[0]}: {words or 'failed'}")
    return done.stdout
