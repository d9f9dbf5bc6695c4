"""A case measured in a forked child, so that no case sees what another left."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

Answer = dict[str, Any]


def in_child(measure: Callable[[str], Answer], name: str) -> Answer:
    """What ``measure`` says of a case; what the case prints goes to standard error."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(2, 1)
        try:
            answer = measure(name)
        except BaseException as fault:
            answer = {"error": f"{type(fault).__name__}: {fault}"}
        with os.fdopen(writer, "w") as pipe:
            json.dump(answer, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answer = json.loads(pipe.read() or "{}")
    os.waitpid(child, 0)
    return answer
