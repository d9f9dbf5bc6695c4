"""Counting graphs in logs of the TT plugin: true counts of any log, cut anywhere."""

from __future__ import annotations

import gzip
import random
import re
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_graphbreak.logs.markers import TTLog
from pytest_graphbreak.text.lines import LONGEST, Source
from tests.examples import examples
from tests.logs import writer
from tests.logs.tools import counted, read
from tests.logs.writer import Style, Write, Writer, interleave, join, truth

pytestmark = pytest.mark.pure


def count(path: str) -> TTLog:
    with Source(path) as source:
        return read(source)


def graphs(seen: TTLog) -> tuple[int, int]:
    return seen.programs.attempted, seen.programs.completed


styles = st.builds(
    Style,
    colour=st.booleans(),
    crlf=st.booleans(),
    ends=st.booleans(),
    bodies=st.booleans(),
    dialects=st.booleans(),
    junk=st.sampled_from(
        [b"", b"\xff\xfe\x00 no utf-8", b"0123456789ABCDEF" * 700, b"print('MLIR Module vhlo:')"]
    ),
)


@st.composite
def threads(draw: st.DrawFn, headers: bool = True) -> tuple[list[list[Write]], bool]:
    """Writes of one to three threads, each of its own version and style."""
    ranked = draw(st.booleans())
    style = draw(styles)
    made = []
    number = 0
    for index in range(draw(st.integers(1, 3))):
        own = Style(**{**vars(style), "thread": f"{0x421D1300 + index:X}", "headers": headers})
        if ranked:
            own.rank = f"1,{index}"
        plugin = Writer(own)
        writes: list[Write] = []
        stages = draw(st.sampled_from(writer.VERSIONS))
        for _ in range(draw(st.integers(0, 5))):
            number += 1
            fails = draw(st.none() | st.sampled_from(stages[:-2]))
            writes += plugin.graph(number, stages, fails_after=fails, says=draw(st.booleans()))
        made.append(writes)
    return made, ranked


@given(threads(), st.randoms(use_true_random=False), st.floats(0, 1))
@examples(150)
def test_any_log_cut_anywhere(
    made: tuple[list[list[Write]], bool], rng: random.Random, where: float
) -> None:
    writes = interleave(made[0], rng)
    data = join(writes)
    end = int(len(data) * where)
    seen = counted(data[:end])
    assert graphs(seen) == truth(writes, end)
    programs = seen.programs
    assert programs.attempted - programs.completed == (
        programs.failed.total() + programs.unfinished.total()
    )
    assert not programs.headless
    assert not programs.overlapped


@given(threads(), st.randoms(use_true_random=False))
@examples(60)
def test_the_parts_of_long_lines_do_not_matter(
    made: tuple[list[list[Write]], bool], rng: random.Random
) -> None:
    data = join(interleave(made[0], rng))
    whole, parts = (counted(data, longest=longest) for longest in (LONGEST, 1100))
    for name in ("ends", "headers", "damaged"):
        assert getattr(whole, name) == getattr(parts, name), name
    assert whole.copies.count == parts.copies.count
    for name in ("attempted", "completed", "resharding", "failed", "unfinished", "shapes"):
        assert getattr(whole.programs, name) == getattr(parts.programs, name), name
    for of in (lambda program: program.name, lambda program: program.error):
        assert list(map(of, whole.programs.list)) == list(map(of, parts.programs.list))


@pytest.mark.parametrize("stages", writer.VERSIONS, ids=len)
def test_a_failure_has_its_stage_and_its_words(stages: tuple[str, ...]) -> None:
    plugin = Writer()
    writes = [
        *plugin.graph(1, stages),
        *plugin.graph(2, stages, fails_after="shlo_compiler"),
        *plugin.graph(3, stages),
    ]
    seen = counted(join(writes))
    assert graphs(seen) == (3, 2)
    assert dict(seen.programs.failed) == {"shlo_compiler": 1}
    failed = seen.programs.list[1]
    assert failed.ended == "failed"
    assert failed.stages == stages[: stages.index("shlo_compiler") + 1]
    assert failed.error == (
        "Failed to set proper sdy.mesh attribute in SPMD mode: "
        "failed to legalize operation 'stablehlo.x'"
    )
    assert [program.ended for program in seen.programs.list] == ["completed", "failed", "completed"]


def test_the_end_of_the_log_is_no_failure() -> None:
    writes = Writer().graph(1)
    seen = counted(join(writes[: len(writes) // 2]))
    assert graphs(seen) == (1, 0)
    assert not seen.programs.failed
    assert seen.programs.unfinished.total() == 1


def test_old_headers() -> None:
    for ends in (True, False):
        plugin = Writer(Style(old=True, ends=ends))
        writes = [*plugin.graph(1, writer.SIX), *plugin.graph(2, writer.SIX, fails_after="ttir")]
        seen = counted(join(writes))
        assert graphs(seen) == (2, 1)
        assert seen.programs.list[0].stages == writer.SIX


def test_the_seconds_of_a_graph_are_from_its_first_header_to_its_last() -> None:
    plugin = Writer()
    alone = plugin.graph(3, ("vhlo",), fails_after="vhlo")
    writes = [*plugin.graph(1), *plugin.graph(2, writer.SIX, fails_after="shlo"), *alone]
    found = counted(join(writes)).programs.list
    assert [program.seconds for program in found] == [0.056, 0.007, None]


def test_headers_without_times_have_no_seconds() -> None:
    text = re.sub(rb"\d{4}-\d\d-\d\d [\d:.]+", b"", join(Writer().graph(1)))
    assert [program.seconds for program in counted(text).programs.list] == [None]
    back = join(Writer().graph(1)).replace(b"2026-08-21", b"2026-08-22", 1)
    assert [program.seconds for program in counted(back).programs.list] == [None]


def test_headers_without_preamble() -> None:
    """A log collector, or ``cut -d'|' -f2``, took the preamble away."""
    data = join([*Writer().graph(1), *Writer().graph(2)])
    for keep in (b"", b"| ", b"2026-08-21T10:22:52.1234567Z "):
        bare = b"\n".join(
            keep + line.split(b"| ", 1)[1] if b"| MLIR" in line else line
            for line in data.split(b"\n")
        )
        assert graphs(counted(bare)) == (2, 2)


def test_words_about_headers_are_no_headers() -> None:
    data = b"""
print("MLIR Module vhlo:")
log.count("MLIR Module vhlo:") == 1
grep -c 'MLIR Module vhlo:' pytest.log
module_builder.cc:1278:    VLOG_F(LOG_DEBUG, "MLIR Module %s:", stage_name.c_str());
    the line | MLIR Module vhlo: and what follows
"""
    assert graphs(counted(data)) == (0, 0)


def test_codegen_load_ends_without_ttnn() -> None:
    plugin = Writer()
    writes = []
    for number in (1, 2):
        writes += plugin.graph(number, writer.LOAD)
        writes.append(plugin.note(number, "Codegen load: graph 1a2b -> out/graph_0", "INFO"))
    seen = counted(join(writes))
    assert graphs(seen) == (2, 2)
    assert not seen.programs.failed


def test_processes_that_share_a_thread_id() -> None:
    """Two processes without a rank: counts hold, and the doubt is reported."""
    one, two = Writer().graph(1), Writer(clock=12.001).graph(2)
    mixed = [write for pair in zip(one, two, strict=True) for write in pair]
    seen = counted(join(mixed))
    assert graphs(seen) == (2, 2)
    assert seen.programs.overlapped


def test_ranks_are_read_behind_time_stamps() -> None:
    """Two ranks with one thread id, in the log of a CI that stamps and colours every line."""
    one, two = (Writer(Style(rank=f"1,{rank}", colour=True)).graph(rank + 1) for rank in (0, 1))
    mixed = join([write for pair in zip(one, two, strict=True) for write in pair])
    stamped = b"".join(
        b"2026-08-21T10:22:52.%07dZ %s" % (number, line)
        for number, line in enumerate(mixed.splitlines(keepends=True))
    )
    seen = counted(stamped)
    assert graphs(seen) == (2, 2)
    assert [program.rank for program in seen.programs.list] == ["1,0", "1,1"]
    assert not seen.programs.overlapped


def test_a_header_in_the_middle_of_another_threads_line() -> None:
    plugin = Writer()
    writes = plugin.graph(1)
    data = b"  %0 = stablehlo.const" + join(writes[:1]) + b"ant dense<1> : tensor<1xf32>\n"
    seen = counted(data + join(writes[1:]))
    assert graphs(seen) == (1, 1)
    assert seen.programs.list[0].thread == "421D1300"


def test_a_log_whose_beginning_is_lost() -> None:
    plugin = Writer()
    writes = [*plugin.graph(1), *plugin.graph(2)]
    half = next(index for index, write in enumerate(writes) if write.stage == "ttir")
    seen = counted(join(writes[half:]))
    assert graphs(seen) == (1, 1)
    assert seen.programs.headless == 3


def headers(writes: list[Write]) -> list[Write]:
    """What TTXLA_LOGGER_FILE has of a log: no text of modules, no END markers."""
    return [write for write in writes if write.stage or write.error]


_PLUGIN: Final = Writer()
GRAPHS: Final = [write for number in (1, 2, 3) for write in _PLUGIN.graph(number)]


def test_standard_error_and_the_logger_file_in_one() -> None:
    """As both are written under one lock, a line follows its equal: it counts once."""
    seen = counted(join([copy for write in GRAPHS for copy in [write] * (1 + bool(write.stage))]))
    assert graphs(seen) == (3, 3)
    assert [program.name for program in seen.programs.list] == [
        program.name for program in counted(join(GRAPHS)).programs.list
    ]
    assert (seen.copies.count, seen.unsure_copies, seen.damaged) == (len(headers(GRAPHS)), 0, 0)


def test_a_file_that_was_appended_to_the_other_is_a_doubt() -> None:
    for writes in ([*GRAPHS, *headers(GRAPHS)], [*headers(GRAPHS), *GRAPHS]):
        seen = counted(join(writes))
        assert (graphs(seen), seen.unsure_copies) == ((6, 6), len(headers(GRAPHS)))
        assert not seen.damaged


def test_a_log_that_is_there_twice_is_two_runs() -> None:
    seen = counted(join(GRAPHS * 2))
    assert (graphs(seen), seen.copies.count, seen.unsure_copies) == ((6, 6), 0, 0)


def test_equal_lines_of_one_millisecond() -> None:
    """Graphs so small that their lines are equal are graphs; without END markers: who knows."""
    still = Writer(Style(bodies=False))
    line = still.note(1, "").text
    graph = [line.replace(b"| ", b"| MLIR Module %s:" % stage.encode()) for stage in writer.NINE]
    ended = b"".join(header + writer.END.encode() for header in graph)
    two = counted(ended * 2)
    assert (graphs(two), two.unsure_copies) == ((2, 2), 0)
    appended = counted(ended * 2 + b"".join(graph * 2))
    assert (graphs(appended), appended.unsure_copies) == ((4, 4), 27)


@pytest.mark.parametrize("stage", writer.NINE)
@pytest.mark.parametrize("cut", [30, 62, 95, 105])
@pytest.mark.parametrize("fails", [None, "shlo_frontend"])
def test_a_header_that_another_writer_cut_in_two(stage: str, cut: int, fails: str | None) -> None:
    plugin = Writer()
    writes = [*plugin.graph(1, fails_after=fails), *plugin.graph(2), *plugin.graph(3)]
    torn = [
        write._replace(text=write.text[:cut] + b"[W] another\n" + write.text[cut:])
        if write.graph == 2 and write.stage == stage
        else write
        for write in writes
    ]
    seen = counted(join(torn))
    assert graphs(seen) == (3, 3 - (fails is not None))
    assert bool(seen.damaged) == (cut > 30)  # a header whose time is cut is whole


@pytest.mark.parametrize(
    ("before", "rank"),
    [
        (b"worker-1  | ", "worker-1"),
        (b"\x1b[36mtrainer_12 |\x1b[0m ", "trainer_12"),
        (b"2026-08-21T10:22:52.1234567Z worker-1  | ", "worker-1"),
        (b"[pod/train-0/main] ", "train-0/main"),
        (b" 3: ", "3"),
        (b"[1,3]<stderr>:", "1,3"),
        (b"[rank3]:", "rank3"),
        (b"2026-08-21T10:22:52.1234567Z ", ""),
        (b"INFO: a | b ", ""),
    ],
)
def test_the_rank_as_launchers_print_it(before: bytes, rank: str) -> None:
    lines = join(Writer().graph(1)).splitlines(keepends=True)
    seen = counted(b"".join(before + line for line in lines))
    assert graphs(seen) == (1, 1)
    assert [program.rank for program in seen.programs.list] == [rank]


@given(st.binary(max_size=6000))
@examples(100)
def test_any_bytes(data: bytes) -> None:
    counted(data)


TWO: Final = join([*Writer().graph(1), *Writer(clock=20).graph(2)])


@pytest.mark.parametrize(
    "data",
    [TWO, gzip.compress(TWO), gzip.compress(TWO[:5000]) + gzip.compress(TWO[5000:])],
    ids=["plain", "gz", "gz x2"],
)
def test_files_packed_or_not(data: bytes, tmp_path: Path) -> None:
    """The name does not matter."""
    path = tmp_path / "run.log"
    path.write_bytes(data)
    assert graphs(count(str(path))) == (2, 2)


def test_a_packed_file_that_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "half"
    noise = random.Random(1).randbytes(2_000_000).hex().encode()  # more than one part
    path.write_bytes(gzip.compress(TWO + noise)[:-20])
    assert graphs(count(str(path))) == (2, 2)


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        (b"\xfd7zXZ\x00", "xz -dc FILE | graphbreak analyze -"),
        (b"BZh9", "bzip2 -dc FILE | graphbreak analyze -"),
        ("x".encode("utf-16"), "iconv -f utf-16 -t utf-8 FILE | graphbreak analyze -"),
        (b"\x28\xb5\x2f\xfd", "zstd -dc FILE | graphbreak analyze -"),
        (b"PK\x03\x04", "unzip -p FILE | graphbreak analyze -"),
    ],
)
def test_another_packing_is_refused(mark: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_bytes(mark + bytes(100))
    with pytest.raises(ValueError, match=re.escape(said)):
        count(str(path))
