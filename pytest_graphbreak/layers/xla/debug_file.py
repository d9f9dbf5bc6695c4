"""The file that torch_xla reports each compilation to, while a window is open.

torch_xla reads ``PT_XLA_DEBUG_FILE`` and its relatives once, at the first compilation of the
process, and keeps to what they said then. So they are set in the C environment while a window is
open, and given back as soon as something was compiled. The file has no name: it is
``/proc/self/fd/N`` of an open descriptor, which no child process finds, and nothing is left behind
whatever happens. A forked child gets a file of its own under the same number.

What the user asked of these variables is respected: a file of theirs is read where it is, output
that they want on stderr stays there (and the causes that only it reports stay unknown).
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import Final

from pytest_graphbreak.layers.xla import private as native
from pytest_graphbreak.layers.xla.reports import CompileReport, Reader

VARIABLES: Final = {"PT_XLA_DEBUG_LEVEL": "1", "PT_XLA_DEBUG_MAX_FRAME": "200"}
"""The variables to set: level 1 reports compilations, 2 every execution too."""
FILE: Final = "PT_XLA_DEBUG_FILE"
_OURS: Final = "/proc/self/fd/"
"""How our own value of that variable begins."""

TOO_LATE: Final = (
    "torch_xla had compiled before it was observed, and it reads PT_XLA_DEBUG_FILE only once: "
    "compile nothing at import"
)


class DebugFile:
    """The report file of this process. ``off`` says why there is none; empty if there is one.

    ``arm`` is called with the first window that explains graphs, ``read`` by the recorder whenever
    something may have been compiled, ``disarm`` with the last window.
    """

    def __init__(self) -> None:
        self.off = TOO_LATE  # so it is not armed: what is compiled now is not reported to us
        self._fd = -1
        self._users_file = ""
        """The path of the user's own file, if that is read."""
        self._taken = False
        """Whether torch_xla has read our variables, and goes on writing to our file."""
        self._lent = False
        """Whether our variables are in the C environment."""
        self._offset = 0
        self._reader = Reader()

    def arm(self) -> None:
        """Have compilations reported from now on, if that is possible."""
        self._reader = Reader()
        self._users_file = ""
        self.off = self._conflict()
        if self.off:
            return
        if path := _users_path():
            self._users_file = path
        elif native.has_compiled() and not self._taken:
            self.off = TOO_LATE
            return
        elif not os.path.isdir(_OURS):
            self.off = "there is no /proc here, by which torch_xla could report to an open file"
            return
        else:
            self._lend()
        self._offset = self._size()

    def disarm(self) -> None:
        """Stop reading. A file of ours stays open: torch_xla goes on writing to it."""
        self._give_back()
        self.off = TOO_LATE  # until ``arm`` looks again

    def has_grown(self) -> bool:
        """Return whether something was written since the last ``read``. Costs a system call."""
        return not self.off and self._size() != self._offset

    def read(self) -> list[CompileReport]:
        """Return the compilations reported since the last call, in order."""
        if not self.has_grown():
            return []
        if self._size() < self._offset:  # the user emptied a file of theirs, or put another there
            self._offset = 0
        data = self._read()
        self._offset += len(data)
        reports = self._reader.feed(data.decode("utf-8", "replace"))
        if not self._users_file:
            self._taken = True
            self._give_back()
            # ``torch_xla.compile(full_graph=True)`` refuses to run: the user is to see why.
            for text in self._reader.refused:
                with contextlib.suppress(OSError):
                    os.write(2, text.encode())  # torch_xla itself would have written it there
        self._reader.refused.clear()
        return reports

    def forget_unpaired(self) -> None:
        """Note that no compilation is under way in any thread."""
        self._reader.forget_unpaired()

    def _conflict(self) -> str:
        """Return why the user's own settings keep the reports from us; empty if they do not."""
        if os.environ.get("PJRT_LOCAL_PROCESS_RANK", "0") != "0":
            return "torch_xla reports compilations in the process of rank 0 only"
        level = os.environ.get("PT_XLA_DEBUG_LEVEL", "")
        is_asked = _positive(level) or (not level and _positive(os.environ.get("PT_XLA_DEBUG", "")))
        if _users_path() and not is_asked:
            return f"{FILE} is set and PT_XLA_DEBUG_LEVEL is not: set it to 1"
        if is_asked and not os.environ.get(FILE):
            return f"PT_XLA_DEBUG_LEVEL sends torch_xla's reports to stderr: set {FILE} too"
        return ""

    def _size(self) -> int:
        try:
            return (os.stat(self._users_file) if self._users_file else os.fstat(self._fd)).st_size
        except FileNotFoundError:
            return 0

    def _read(self) -> bytes:
        if not self._users_file:
            return os.pread(self._fd, self._size() - self._offset, self._offset)
        with open(self._users_file, "rb") as file:
            file.seek(self._offset)
            return file.read()

    def _lend(self) -> None:
        """Empty our file, and pass it to torch_xla if it has not read the variable yet."""
        if self._fd < 0:
            # Imported here, since Windows has neither, nor a torch_xla.
            import fcntl
            import resource

            # A high number: it must not be one that the user's code closes and opens by habit.
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            with tempfile.TemporaryFile() as file:
                lowest = max(3, min(limit, 1024) - 100)
                self._fd = fcntl.fcntl(file.fileno(), fcntl.F_DUPFD_CLOEXEC, lowest)
            os.register_at_fork(after_in_child=self._after_fork)
        os.ftruncate(self._fd, 0)
        if not self._taken:
            self._lent = True
            for name, value in {**VARIABLES, FILE: f"{_OURS}{self._fd}"}.items():
                native.set_variable(name, value)

    def _give_back(self) -> None:
        """Restore the user's variables: torch_xla has read ours, or is not going to."""
        if not self._lent:
            return
        self._lent = False
        for name in (*VARIABLES, FILE):
            native.set_variable(name)

    def _after_fork(self) -> None:
        """Open a file for a forked child: its compilations must not go to the parent's file."""
        try:
            with tempfile.TemporaryFile() as file:
                os.dup2(file.fileno(), self._fd, inheritable=False)
        except OSError:
            os.close(self._fd)
            self._fd, self.off = -1, "a forked process could not open a file of its own"
        self._offset = 0
        self._reader = Reader()


def _users_path() -> str:
    """Return the file that the user had reports written to; empty if there is none."""
    path = os.environ.get(FILE, "")
    return "" if path.startswith(_OURS) else path


def _positive(text: str) -> bool:
    try:
        return int(text) > 0
    except ValueError:
        return text.lower() in ("true", "yes", "on")
