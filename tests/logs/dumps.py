"""Writes dumps of MLIR modules as the TT compiler does with ``export_path``."""

from __future__ import annotations

from pathlib import Path

from tests.logs.writer import NINE as STAGES

MODULE = 'module @SyncTensorsGraph.{number} {{\n  %0 = vhlo.add loc("{file}":12:0)\n}}\n'


def dump(
    directory: Path, graphs: int, stages: tuple[str, ...] = STAGES, *, name: str = "", at: int = 0
) -> None:
    """What ``ModuleBuilder::printModule`` writes for some graphs, three milliseconds a stage."""
    holder = directory / "irs"
    holder.mkdir(parents=True, exist_ok=True)
    time = 1_755_000_000_000 + at
    for number in range(graphs):
        graph = f"_{name}_g{number}" if name else ""
        for stage in stages:
            text = MODULE.format(number=number, file=f"/src/model_{number}.py")
            (holder / f"{stage}{graph}_{time}.mlir").write_text(text)
            time += 3
