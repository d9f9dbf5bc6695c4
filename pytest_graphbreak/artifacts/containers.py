"""The JSON files that a path means: one file, or all in a directory or a zip archive, as CI keeps.

``incoming`` reads reports through ``report_files``. What is there comes from elsewhere, so its size
is bounded and it is not trusted: no member of an archive is written to disk, where its name could
do harm, and unpacked bytes are counted while they are read, whatever size an archive declares.
Everything that is refused here is an ``OSError`` that says why.
"""

from __future__ import annotations

import os
import stat
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import IO, Final

from msgspec import Struct

MOST_BYTES: Final = 100 * 2**20
"""Size of one report, and of one archive. A test with twenty graphs takes about 10 kB."""
MOST_UNPACKED: Final = 2**30
"""The total number of bytes that one archive may hold."""
MOST_FILES: Final = 10_000
"""The number of reports in one directory or archive."""
MOST_SEEN: Final = 200_000
"""The number of files of any kind below one directory."""


class ReportFile(Struct, frozen=True):
    """A JSON file: ``name`` for messages, and ``read`` for its bytes, which may raise ``OSError``.

    A member of an archive is called ``graphs.zip/a/graphs.json``.
    """

    name: str
    read: Callable[[], bytes]


def report_files(path: str, shown: str | None = None) -> Iterator[ReportFile]:
    """Yield the file itself, or all JSON files in a directory or an archive, sorted.

    ``shown`` replaces the path in names. Raises ``OSError`` for a directory or an archive that
    cannot be read, is too large, or contains no JSON file.
    """
    name = path if shown is None else shown
    if os.path.isdir(path):
        yield from _in_directory(path, name)
    elif path.lower().endswith(".zip"):
        yield from _in_archive(path, name)
    else:
        yield ReportFile(name, partial(_read, path))


def _read(path: str) -> bytes:
    with _open(path) as file:
        return _read_bounded(file)


@contextmanager
def _open(path: str) -> Iterator[IO[bytes]]:
    """Open a regular file; a device or a pipe might never end."""
    # A FIFO would block the open itself until somebody writes to it.
    flags = getattr(os, "O_NONBLOCK", 0)
    with open(path, "rb", opener=lambda name, mode: os.open(name, mode | flags)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("it is not a regular file")
        yield file


def _read_bounded(file: IO[bytes]) -> bytes:
    data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise _too_large()
    return data


def _too_large() -> OSError:
    return OSError(f"it is larger than {MOST_BYTES // 2**20} MiB")


def _in_directory(path: str, name: str) -> Iterator[ReportFile]:
    paths: list[str] = []
    seen = 0
    for folder, folders, files in os.walk(path, onerror=_raise):
        folders.sort()  # ``os.walk`` goes through them in this order
        seen += len(files)
        if seen > MOST_SEEN:
            raise OSError(f"more than {MOST_SEEN:,} files are below it: name the reports")
        paths += [
            os.path.join(folder, file)
            for file in sorted(files)
            if file.lower().endswith((".json", ".zip"))
        ]
    if not paths:
        raise OSError("no *.json and no *.zip is below this directory")
    if len(paths) > MOST_FILES:
        raise OSError(f"more than {MOST_FILES:,} reports are below it: name a part of them")
    for file in paths:
        relative_path = os.path.relpath(file, path)
        if os.path.islink(file):  # an unpacked archive may contain one, which leads anywhere
            raise OSError(f"{relative_path} is a symbolic link: name its target")
        yield from report_files(file, str(Path(name) / relative_path))


def _raise(error: OSError) -> None:
    """Raise what ``os.walk`` would pass over: a directory that cannot be read."""
    raise error


def _in_archive(path: str, name: str) -> Iterator[ReportFile]:
    with _open(path) as file:
        if os.fstat(file.fileno()).st_size > MOST_BYTES:
            raise _too_large()
        _check_list(file)
        try:
            archive = zipfile.ZipFile(file)
            members = sorted(filter(_is_report, archive.infolist()), key=attrgetter("filename"))
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
            yield ReportFile(f"{name}/{member.filename}", partial(bytes, data))


def _is_report(member: zipfile.ZipInfo) -> bool:
    parts = member.filename.split("/")
    # macOS adds a second file of the same name.
    return parts[-1].lower().endswith(".json") and parts[0] != "__MACOSX"


def _unpack(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    try:
        with archive.open(member) as file:
            return _read_bounded(file)
    except OSError:
        raise
    except Exception as error:  # each way of compressing has errors of its own
        raise OSError(f"{member.filename}: cannot be unpacked: {error}") from None


# The end of an archive (APPNOTE.TXT of PKWARE, 4.3.15 and 4.3.16):
#
#     list of files | [pointer, 20 bytes, of a large archive ("Zip64")] | end, 22 bytes | [comment]
#
# The end has the size of the list; in a large archive it is elsewhere. Python reads all of the list
# at once, into an object for each file.

_MOST_LISTED: Final = 8 * 2**20
"""The largest list of files in bytes."""
_END: Final = struct.Struct("<4s4H2LH")
_END_MARK: Final = b"PK\5\6"
"""The bytes that the end begins with."""
_LIST_SIZE: Final = 5
"""The field of the end that has the size of the list."""
_POINTER_MARK: Final = b"PK\6\7"
_POINTER_SIZE: Final = 20
_LONGEST_COMMENT: Final = 0xFFFF


def _check_list(file: IO[bytes]) -> None:
    """Refuse a list of files that would take more memory than any archive of reports."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - (_POINTER_SIZE + _END.size + _LONGEST_COMMENT)))
    tail = file.read()
    file.seek(0)
    at = tail.rfind(_END_MARK)
    if at < 0 or at + _END.size > len(tail):
        raise OSError("not a zip archive: its end is missing")
    listed = _END.unpack_from(tail, at)[_LIST_SIZE]
    is_large = tail[max(0, at - _POINTER_SIZE) :].startswith(_POINTER_MARK)
    if is_large or listed > _MOST_LISTED:
        raise OSError("it lists more files than reports need: unpack it, and name the directory")
