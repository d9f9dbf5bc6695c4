"""One browser for all pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.report import browser
from tests.report.browser import Browser


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = browser.find()
    if path is None:
        pytest.skip("no Chromium here (Debian's package is chromium)")
    with Browser(path) as found:
        yield found
