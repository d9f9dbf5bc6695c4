"""Reads JSON reports from elsewhere: an artifact, a fork, an untrusted source.

Nothing in such a file is trusted. Its size is bounded here, and every value that is used later has
the type and the range that ``model.report`` requires; errors are reported with their place in the
file. Unknown keys are dropped.
"""

from __future__ import annotations

import json
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from msgspec import Struct
from msgspec.structs import replace

from pytest_graphbreak.model.forms import BadValue
from pytest_graphbreak.model.json import report_of
from pytest_graphbreak.model.report import RunReport
from pytest_graphbreak.text.errors import UserError, reason
from pytest_graphbreak.text.files import without_collector

# The JSON files in a directory or a zip archive, as CI keeps reports; bounded and not trusted.
#
# No member of an archive is written to disk, so its names cannot do harm. Unpacked bytes are
# counted while they are read; the sizes that an archive declares are not trusted.

MOST_BYTES: Final = 100 * 2**20
"""Size of one report, and of one archive. A test with twenty graphs takes about 10 kB."""
MOST_UNPACKED: Final = 2**30
"""The total number of bytes that one archive may hold."""
MOST_FILES: Final = 10_000
"""The number of reports in one directory or archive."""
MOST_SEEN: Final = 200_000
"""The number of files of any kind below one directory."""
_MOST_LISTED: Final = 8 * 2**20
"""The size of an archive's own list of files in bytes; Python reads all of it at once."""

_END: Final = struct.Struct("<4s4H2LH")
"""The "end of central directory record" of a zip archive (APPNOTE.TXT of PKWARE, 4.3.16)."""
_LIST_SIZE: Final = 5
"""The field of it that has the size of the list of files."""
_LONGEST_COMMENT: Final = 0xFFFF
"""Bytes that may follow it."""
_END_MARK: Final = b"PK\5\6"
"""The bytes that it begins with."""
_LARGE_MARK: Final = b"PK\6\7"
_LARGE_SIZE: Final = 20
"""Of the record before it in a large archive ("Zip64"), which has the sizes elsewhere (4.3.15)."""


class ReportFile(Struct, frozen=True):
    """A report: ``name`` for messages, and ``read`` for its bytes, which may raise ``OSError``."""

    name: str
    read: Callable[[], bytes]


def sources(path: str, shown: str | None = None) -> Iterator[ReportFile]:
    """Yield the reports that a path means: the file itself, or all in a directory or an archive.

    ``shown`` replaces the path in names. Raises ``OSError`` for a directory or an archive that
    cannot be read, or contains no report.
    """
    name = path if shown is None else shown
    if os.path.isdir(path):
        yield from _read_directory(path, name)
    elif path.lower().endswith(".zip"):
        yield from _read_archive(path, name)
    else:
        yield ReportFile(name, lambda: read(path))


def read(path: str) -> bytes:
    """Return the contents of a regular file. Raises ``OSError``, also if it is too large."""
    with _open(path) as file:
        return _read_bounded(file)


@contextmanager
def _open(path: str) -> Iterator[IO[bytes]]:
    # A FIFO would block the open itself until somebody writes to it.
    flags = getattr(os, "O_NONBLOCK", 0)
    with open(path, "rb", opener=lambda name, mode: os.open(name, mode | flags)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("it is not a regular file")
        yield file


def _read_bounded(file: IO[bytes]) -> bytes:
    data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(f"it is larger than {MOST_BYTES // 2**20} MiB")
    return data


def _read_directory(path: str, name: str) -> Iterator[ReportFile]:
    reports: list[str] = []
    seen = 0
    for folder, folders, files in os.walk(path, onerror=_raise):
        folders.sort()
        seen += len(files)
        if seen > MOST_SEEN:
            raise OSError(f"more than {MOST_SEEN:,} files are below it: name the reports")
        reports += [
            os.path.join(folder, file)
            for file in sorted(files)
            if file.lower().endswith((".json", ".zip"))
        ]
    if not reports:
        raise OSError("no *.json and no *.zip is below this directory")
    if len(reports) > MOST_FILES:
        raise OSError(f"more than {MOST_FILES:,} reports are below it: name a part of them")
    for file in reports:
        if os.path.islink(file):  # an unpacked archive may contain one
            raise OSError(f"{os.path.relpath(file, path)} is a symbolic link: name its target")
        yield from sources(file, str(Path(name) / os.path.relpath(file, path)))


def _raise(error: OSError) -> None:
    raise error


def _read_archive(path: str, name: str) -> Iterator[ReportFile]:
    with _open(path) as file:
        if os.fstat(file.fileno()).st_size > MOST_BYTES:
            raise OSError(f"it is larger than {MOST_BYTES // 2**20} MiB")
        _check_list(file)
        try:
            archive = zipfile.ZipFile(file)
            members = [item for item in archive.infolist() if _is_report(item)]
        except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
            raise OSError(f"not a zip archive: {error}") from None
        if not members:
            raise OSError("no *.json is in this archive")
        if len(members) > MOST_FILES:
            raise OSError(f"more than {MOST_FILES:,} reports are in it")
        remaining = MOST_UNPACKED
        for member in members:
            data = _unpack(archive, member)
            remaining -= len(data)
            if remaining < 0:
                raise OSError(f"more than {MOST_UNPACKED // 2**20} MiB are in it")
            # The default binds the data of this member.
            yield ReportFile(f"{name}/{member.filename}", lambda data=data: data)  # type: ignore[misc]


def _is_report(member: zipfile.ZipInfo) -> bool:
    parts = member.filename.split("/")
    # macOS adds a second file of the same name.
    return parts[-1].lower().endswith(".json") and parts[0] != "__MACOSX"


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    try:
        with archive.open(member) as file:
            return _read_bounded(file)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        # RuntimeError: it is encrypted. NotImplementedError: unknown compression.
        raise OSError(f"{member.filename}: cannot be unpacked: {error}") from None


def _check_list(file: IO[bytes]) -> None:
    """Refuse a list of files that would take more memory than any archive of reports."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - (_END.size + _LONGEST_COMMENT + _LARGE_SIZE)))
    tail = file.read()
    file.seek(0)
    at = tail.rfind(_END_MARK)
    if at < 0 or at + _END.size > len(tail):
        raise OSError("not a zip archive: its end is missing")
    listed = _END.unpack_from(tail, at)[_LIST_SIZE]
    if tail[max(0, at - _LARGE_SIZE) :].startswith(_LARGE_MARK) or listed > _MOST_LISTED:
        raise OSError("it lists more files than reports need: unpack it, and name the directory")


MOST_TESTS: Final = 250_000
"""The number of tests in all reports of a command; docs/reference/commands.md has the cost."""
MOST_VALUES: Final = 8_000_000
"""The number of values in a report: 100 MiB of empty lists would take gigabytes of memory."""


class ReportError(UserError):
    """Raised if a report cannot be used.

    The message names the file, the place and the next step.
    """


def load(path: str | os.PathLike[str]) -> RunReport:
    """Read one report. Raises ``ReportError`` for anything that is not a report of version 1."""
    name = os.fspath(path)
    return _load(ReportFile(name, lambda: read(name)), name)


def _load(source: ReportFile, path: str) -> RunReport:
    name = source.name
    try:
        text = source.read()
        if text.count(b",") > MOST_VALUES:  # about one for each value; nothing is parsed yet
            raise ReportError(f"{name}: it holds more than {MOST_VALUES:,} values; split the run")
        return replace(parse(name, text), path=path)
    except RecursionError:
        raise ReportError(f"{name}: not a report: nested too deeply") from None
    except ReportError:
        raise
    except (OSError, ValueError) as error:
        raise ReportError(f"{name}: cannot be read as a JSON report: {reason(error)}") from None


def parse(name: str, data: object) -> RunReport:
    """Return a report from JSON bytes, or from decoded JSON; messages call it ``name``.

    Raises ``ReportError`` for a value that no report has, and ``ValueError`` for text that is not
    JSON.
    """
    try:
        return report_of(data, name)
    except BadValue as fault:
        raise ReportError(
            f"{name}: {fault.place or 'the report'}: {fault.message}; is this a file that "
            "--graph-budget-report wrote, and this graphbreak new enough?"
        ) from None


def load_all(
    paths: Iterable[str], shown: str | None = None, note: Callable[[str], object] = str
) -> list[RunReport]:
    """Return all reports, in order, including all those in directories and zip archives.

    ``shown`` replaces a path in names. A JSON file of another program in a directory or an archive
    is skipped, and ``note`` is called with a line about it. Raises ``ReportError`` that names every
    report that cannot be used.
    """
    reports: list[RunReport] = []
    faults: list[str] = []
    with without_collector():
        for path in paths:
            try:
                loaded, skipped = _load_below(path, shown, faults)
            except OSError as error:
                faults.append(f"{shown or path}: cannot be read: {reason(error)}")
                continue
            reports += loaded
            for name, fault in skipped.items():
                if loaded:
                    note(f"{name} is skipped: it is no report of --graph-budget-report")
                else:
                    faults.append(fault)
    if faults:
        raise ReportError("\n".join(faults))
    tests = sum(len(report.tests) for report in reports)
    if tests > MOST_TESTS:
        raise ReportError(
            f"{tests:,} tests are more than the {MOST_TESTS:,} that one command takes: "
            "give it the reports of one profile, or of some files, at a time"
        )
    return reports


def _load_below(
    path: str, shown: str | None, faults: list[str]
) -> tuple[list[RunReport], dict[str, str]]:
    """Return the reports that a path means, and why each foreign JSON file beside them is none.

    What cannot be used is added to ``faults``. Raises ``OSError`` as ``sources`` does.
    """
    reports: list[RunReport] = []
    skipped: dict[str, str] = {}
    for source in sources(path, shown):
        try:
            reports.append(_load(source, path))
        except ReportError as error:
            if source.name != (shown or path) and _is_foreign(source):
                skipped[source.name] = str(error)
            else:
                faults.append(str(error))
    return reports, skipped


def _is_foreign(source: ReportFile) -> bool:
    """Return whether a file that is no report is complete JSON without the keys of a report."""
    try:
        text = source.read()
        data = json.loads(text) if text.count(b",") <= MOST_VALUES else {}
    except (OSError, ValueError, RecursionError):
        return False
    return not (isinstance(data, dict) and {"environment", "session", "tests"} <= data.keys())


def by_profile(reports: Iterable[RunReport]) -> Mapping[str, list[RunReport]]:
    """Return reports by profile, both in order of appearance."""
    by_name: dict[str, list[RunReport]] = {}
    for report in reports:
        by_name.setdefault(report.profile, []).append(report)
    return by_name
