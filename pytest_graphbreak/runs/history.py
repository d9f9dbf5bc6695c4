"""Reads how baselines changed in git: the commits, and the counts and causes they changed.

The history is that of the branch itself (first parents), so that each count has one value at each
time. A renamed baseline file keeps its history.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from pytest_graphbreak.baseline import BaselineError, baseline_path
from pytest_graphbreak.baseline.model import Entry
from pytest_graphbreak.baseline.paths import SUFFIX, inside, mirrored_file
from pytest_graphbreak.baseline.read import document, load_text
from pytest_graphbreak.config.git import GitError, RawChange, blobs, git, names, raw_change
from pytest_graphbreak.model.budget import Values
from pytest_graphbreak.model.layers import BY_NAME, LAYERS
from pytest_graphbreak.text.output import UserError

_LATEST: Final = int(datetime.datetime(9999, 12, 31, tzinfo=datetime.timezone.utc).timestamp())
"""The last day that Python's calendar supports; a commit may have any time."""
_START, _FIELD = "\x1e", "\x1f"


class HistoryError(UserError):
    """Raised if there is no history to show. The message says why."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit that touched baselines. ``hash`` is empty for uncommitted changes.

    ``time`` is in seconds since 1970, within the years 1970 to 9999.
    """

    hash: str
    time: int
    author: str
    subject: str

    @property
    def date(self) -> str:
        return datetime.datetime.fromtimestamp(self.time, datetime.timezone.utc).date().isoformat()


@dataclass(frozen=True, slots=True)
class Place:
    """A cause in a baseline: its kind, as in ``compare``, and its place.

    ``name`` is the id and the reason if the baseline has them; it does not count for equality.
    """

    kind: str
    layer: str
    where: str
    code: str
    name: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Shift:
    """A cause that changed in one step: how often it occurred before (0 for never), and after."""

    place: Place
    before: int
    after: int


Ran = tuple[str, str]
"""A count of what runs: ``executions`` or ``reads``, and the layer."""


@dataclass(frozen=True, slots=True)
class Point:
    """The budget of a test from one commit on; ``graphs`` is None if its entry was removed.

    ``shifts`` are the causes that changed in this step, empty for the first. ``ran`` has the
    recorded executions and reads, each before (None if unknown) and after.
    """

    commit: Commit
    graphs: Mapping[str, int] | None
    shifts: tuple[Shift, ...] = ()
    ran: Mapping[Ran, tuple[int | None, int]] = field(default_factory=dict)

    @property
    def moved_runs(self) -> dict[Ran, tuple[int, int]]:
        """The entries of ``ran`` that differ from what was known before."""
        return {
            key: (before, after)
            for key, (before, after) in self.ran.items()
            if before is not None and before != after
        }


@dataclass(slots=True)
class Series:
    """One test on one profile, oldest point first; two neighbouring points always differ."""

    nodeid: str
    profile: str
    points: list[Point] = field(default_factory=list)

    @property
    def changes(self) -> int:
        return len(self.points) - 1


@dataclass(slots=True)
class History:
    """Every series, and what could not be read: broken files of old commits are left out.

    ``commits`` are those that changed a count or a cause, in the order of the branch. ``address``
    is the URL of the page of a commit without its hash, or empty if it is not known.
    """

    series: list[Series] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    shallow: bool = False
    address: str = ""


def read(directory: Path) -> History:
    """Return the history of the baselines in ``directory``, ending with uncommitted changes.

    Raises ``HistoryError`` if there is no git, no repository, or nothing committed in it.
    """
    if not directory.is_dir():
        raise HistoryError(f"{directory}: there are no baselines here")
    reader = _HistoryReader(directory)
    try:
        for commit, changes in _commits(directory):
            reader.take(commit, changes)
        reader.take_worktree()
        shallow = git(directory, "rev-parse", "--is-shallow-repository")
    except GitError as error:
        raise HistoryError(str(error)) from None
    reader.history.shallow = shallow == b"true\n"
    reader.history.address = _address(directory)
    return reader.history


@dataclass(frozen=True, slots=True)
class _State:
    """The contents of a baseline for one test on one profile."""

    graphs: Mapping[str, int]
    places: Mapping[Place, int]
    ran: Mapping[Ran, int]
    complete: frozenset[str] = field(default=frozenset(), compare=False)
    """The layers for which all causes are known."""


_Said = dict[tuple[str, str], _State]
"""The contents of a file, by node id and profile."""


class _HistoryReader:
    """Walks the commits, oldest first, and keeps the contents of each baseline file."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.history = History()
        self._series: dict[tuple[str, str], Series] = {}
        self._said: dict[str, _Said] = {}

    def take(self, commit: Commit, changes: Iterable[RawChange]) -> None:
        found = [item for item in changes if item.path.endswith(SUFFIX)]
        texts = blobs(self.directory, [item.new for item in found if item.new])
        for item in found:
            if item.before is not None and item.before.endswith(SUFFIX):
                self._rename(item.before, item.path)
            if item.new is None:
                self._says(commit, item.path, {})
            elif item.new in texts:
                self._update(commit, item.path, partial(_decoded, item.path, texts[item.new]))

    def take_worktree(self) -> None:
        """Read the current contents of the files that differ from the last commit."""
        after = Commit("", int(datetime.datetime.now().timestamp()), "", "not committed")
        for path in (
            *names(self.directory, "diff", "HEAD", "--name-only", "--relative", "-z", "--", "."),
            *names(self.directory, "ls-files", "--others", "--exclude-standard", "-z", "--", "."),
        ):
            if path.endswith(SUFFIX):
                self._update(after, path, partial(self._file, path))

    def _file(self, path: str) -> str | None:
        """Return a file as it is now, or None if it is not a file inside the directory."""
        return load_text(inside(self.directory, self.directory / path))

    def _update(self, commit: Commit, path: str, load: Callable[[], str | None]) -> None:
        """Update a file that changed with this commit; ``load`` returns None if it was removed."""
        try:
            text = load()
            said = {} if text is None else self._read(path, text)
        except BaselineError as error:
            self.history.unreadable.append(f"{commit.hash[:10] or 'now'} {error}")
            return
        self._says(commit, path, said)

    def _says(self, commit: Commit, path: str, said: _Said) -> None:
        before = self._said.get(path, {})
        for key in dict.fromkeys((*before, *said)):
            was, now = before.get(key), said.get(key)
            shifts = tuple(_shifts(was, now)) if was and now else ()
            known = was.ran if was else {}
            ran = {one: (known.get(one), count) for one, count in (now.ran if now else {}).items()}
            point = Point(commit, now.graphs if now else None, shifts, ran)
            # More details of the same counts (a file that now records causes) are not a step.
            same = was and now and was.graphs == now.graphs
            if not same or shifts or point.moved_runs:
                self._add(key, point)
        self._said[path] = said

    def _read(self, path: str, text: str) -> _Said:
        full = self.directory / path
        file = mirrored_file(self.directory, full)
        if baseline_path(self.directory, file) != full:
            return {}
        found = document(text.removeprefix("\ufeff"), full, file)
        return {
            (entry.nodeid, profile): state
            for entry in found.entries()
            for profile, state in _states(entry)
        }

    def _add(self, key: tuple[str, str], point: Point) -> None:
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = Series(*key)
            self.history.series.append(series)
        series.points.append(point)
        commits = self.history.commits
        if not commits or commits[-1] is not point.commit:
            commits.append(point.commit)

    def _rename(self, before: str, after: str) -> None:
        """Continue the series of a file under its new node ids."""
        old_file, new_file = (
            mirrored_file(self.directory, self.directory / path) for path in (before, after)
        )
        said = self._said.pop(before, {})
        self._said[after] = {}
        for (nodeid, profile), state in said.items():
            new = (new_file + nodeid.removeprefix(old_file), profile)
            series = self._series.pop((nodeid, profile))
            series.nodeid = new[0]
            self._series[new] = series
            self._said[after][new] = state


def _decoded(path: str, data: bytes | None) -> str:
    """Return the text of a blob; ``data`` is None if it is too large. Raises ``BaselineError``."""
    if data is None:
        raise BaselineError("is too large to read", path=path)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise BaselineError("is not UTF-8", path=path) from None


def _states(entry: Entry) -> Iterator[tuple[str, _State]]:
    """Yield the profiles for which an entry has values, with what it allows there."""
    profiles = [entry.profile] if entry.values is not None else []
    for profile in dict.fromkeys((*profiles, *entry.overrides)):
        expected = entry.expected(profile)
        if expected is not None:
            values = expected.values
            graphs = {layer: n for layer, n in values.graphs.items() if n}
            known = frozenset(name for name in LAYERS if values.causes_of(name) is not None)
            yield profile, _State(graphs, dict(_places(values)), _ran(values), known)


def _ran(values: Values) -> dict[Ran, int]:
    """Return the executions and reads of the layers for which a baseline knows them."""
    return {
        (what, layer): counts.get(layer, 0)
        for what, counts in (("executions", values.executions), ("reads", values.reads))
        for layer in LAYERS
        if values.knows_runs(layer)
    }


def _places(values: Values) -> Iterator[tuple[Place, int]]:
    """Yield the causes in a baseline. The number of breaks at one place is ignored and given as 1.

    Graphs that follow a break are reported with it.
    """
    for kind, items in (("break", values.breaks), ("eager", values.eager)):
        for item in items:
            name = "  ".join(part for part in (item.id, item.reason) if part)
            yield Place(kind, *item.key, name), 1
    for cause in values.causes:
        known = BY_NAME.get(cause.cause)
        if known is not None and known.explained_by != "break":
            layer, kind, *place = cause.place
            yield Place(kind, layer, *place), cause.count


def _shifts(before: _State, after: _State) -> Iterator[Shift]:
    """Yield the causes that changed.

    A frame skipped at a break that comes or goes with it is omitted.
    """
    moved = {
        place: Shift(place, before.places.get(place, 0), after.places.get(place, 0))
        for place in dict.fromkeys((*after.places, *before.places))
        if before.places.get(place) != after.places.get(place)
        and all(_would_name(state, place) for state in (before, after))
    }
    for place, shift in moved.items():
        head = moved.get(replace(place, kind="break")) if place.kind == "eager" else None
        if head is None or head.before != shift.before:
            yield shift


def _would_name(state: _State, place: Place) -> bool:
    """Return whether a baseline would have named this cause if it had been there.

    Baselines of an earlier version name only breaks, and the only entry of a test is never named.
    """
    if place.kind in ("break", "eager"):
        return True
    if BY_NAME[place.kind].is_plain:
        return any((one.kind, one.layer) == (place.kind, place.layer) for one in state.places)
    return place.layer in state.complete


_REMOTE: Final = re.compile(
    r"(?:https?://(?:[^@/\s]{0,200}@)?|ssh://(?:[\w.-]{1,80}@)?|[\w.-]{1,80}@)"
    r"([\w.-]{1,200})(?::\d{1,5})?[:/]([\w.~/-]{1,400})",
    re.ASCII,
)


def _address(directory: Path) -> str:
    """Return the URL of commits on the host of the repository, from the address of ``origin``.

    The address comes from the checkout's own configuration: only a host and a path are taken from
    it, without a name or password. Returns "" if there is none.
    """
    try:
        remote = git(directory, "config", "--get", "remote.origin.url").decode("utf-8", "replace")
    except GitError:
        return ""
    found = _REMOTE.fullmatch(remote.strip())
    return f"https://{found[1]}/{found[2].removesuffix('.git').strip('/')}/commit/" if found else ""


def _commits(directory: Path) -> Iterator[tuple[Commit, list[RawChange]]]:
    output = git(
        directory,
        *("log", "-m", "--first-parent", "--reverse", "-M", "--relative", "--raw", "-z"),
        *("--no-abbrev", "--no-ext-diff", f"--format={_START}%H{_FIELD}%ct{_FIELD}%an{_FIELD}%s"),
        *("--", "."),
    ).decode("utf-8", "surrogateescape")
    tokens = iter(output.split("\0"))
    commit: Commit | None = None
    changes: list[RawChange] = []
    for token in tokens:
        if token.startswith(_START):
            if commit is not None:
                yield commit, changes
            hash, time, author, subject = token[1:].split(_FIELD, 3)
            commit, changes = Commit(hash, _seconds(time), author, subject), []
        elif change := raw_change(token, tokens):
            changes.append(change)
    if commit is not None:
        yield commit, changes


def _seconds(time: str) -> int:
    """Return the time of a commit. git keeps whatever was written there, up to 20 digits."""
    return min(max(int(time), 0), _LATEST) if time.isdecimal() else 0
