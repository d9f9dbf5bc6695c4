"""Runs of one profile, made of reports."""

from __future__ import annotations

from pytest_graphbreak.report.view import ProfileRun, runs
from pytest_graphbreak.runs import incoming
from tests.reports import Data


def as_runs(*reports: Data) -> list[ProfileRun]:
    return runs([incoming.parse(str(number), data) for number, data in enumerate(reports)])
