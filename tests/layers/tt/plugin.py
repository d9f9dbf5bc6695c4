"""A small native library that prints as the TT plugin does, from inside a process.

It reads the plugin's variables once, when it is loaded; writes headers to
standard error and to ``TTXLA_LOGGER_FILE`` (append), and the text of modules and
END markers to standard error only, all below Python.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

SOURCE = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *file = NULL;
static int debug = 0;

static void line(const char *level, const char *text, const char *stage) {
    char preamble[256];
    static double clock = 12.0;
    clock += 0.007;
    snprintf(preamble, sizeof preamble, "2026-08-21 10:22:52.123 (%8.3fs) [%16X]%23s:%-5u %4s| ",
             clock, (unsigned)pthread_self(), "module_builder.cc", 1278, level);
    fprintf(stderr, "%s%s%s%s\n", preamble, text, stage, stage[0] ? ":" : "");
    if (file) {
        fprintf(file, "%s%s%s%s\n", preamble, text, stage, stage[0] ? ":" : "");
        fflush(file);
    }
}

__attribute__((constructor)) static void load(void) {
    const char *level = getenv("TTXLA_LOGGER_LEVEL");
    const char *name = getenv("TTXLA_LOGGER_FILE");
    if (!level) return;
    debug = strcmp(level, "DEBUG") == 0 || strcmp(level, "VERBOSE") == 0;
    if (name && (file = fopen(name, "a"))) {
        fprintf(file, "\n\n\n\n\nFile verbosity level: %d\n", debug);
        fprintf(file, "date       time         ( uptime  ) [ thread name/id ]  file:line   v| \n");
        fflush(file);
    }
}

/* One graph: the stages printed, separated by spaces; an error line if `error` is not empty. */
void compile_graph(const char *name, const char *stages, const char *error) {
    char all[512];
    snprintf(all, sizeof all, "%s", stages);
    for (char *stage = strtok(all, " "); stage; stage = strtok(NULL, " ")) {
        if (!debug) continue;
        line("1", "MLIR Module ", stage);
        fprintf(stderr, "module @%s attributes {} {\n} loc(#loc)\n", name);
        fprintf(stderr, "------------------ END OF MLIR MODULE ------------------\n");
    }
    if (error[0]) line("ERR", error, "");
}
"""

NINE = (
    "vhlo shlo shlo_frontend shlo_compiler shlo_set_mesh_attr shlo_compiler_cleaned "
    "ttir ttnn ttnn_runtime"
)


def build(directory: Path) -> Path:
    """The library, compiled. Named as the plugin's own is, since that is how it is known."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    source = directory / "plugin.c"
    source.write_text(SOURCE)
    library = directory / "pjrt_plugin_tt.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source)], check=True
    )
    return library


class Plugin:
    """The library, loaded into this process."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))

    def compile(
        self, name: str = "SyncTensorsGraph.12", stages: Sequence[str] | str = NINE, error: str = ""
    ) -> None:
        text = stages if isinstance(stages, str) else " ".join(stages)
        self._library.compile_graph(name.encode(), text.encode(), error.encode())
