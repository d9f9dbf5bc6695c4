"""A real Chromium, driven over its own protocol through two pipes.

``--remote-debugging-pipe`` needs no driver and no package: messages are JSON,
each ended by a zero byte, in on file descriptor 3 and out on 4
(content/browser/devtools/devtools_pipe_handler.cc of Chromium).
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 60.0
"""Seconds for one answer: a loaded CI machine starts a browser slowly."""

_LAUNCH = """
import fcntl, os, sys
# Moved up first, so that the one is not overwritten when the other becomes 3.
ends = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 100) for number in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def find() -> str | None:
    """The path of a Chromium on this machine, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One headless browser with one page. A context manager."""

    def __init__(self, path: str) -> None:
        self._profile = tempfile.mkdtemp(prefix="chromium-")
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-c", _LAUNCH, str(theirs_in), str(theirs_out)),
                *(path, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run"),
                *("--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe"),
                *("--disable-background-networking", "--disable-component-update"),
                *(f"--user-data-dir={self._profile}", "about:blank"),
            ],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        targets = self.send("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attached = self.send("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self._profile, ignore_errors=True)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol and wait for its answer."""
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _receive(self) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                raise TimeoutError(f"the browser did not answer within {PATIENCE:.0f} seconds")
            data = os.read(self._in, 1 << 20)
            if not data:
                raise RuntimeError(f"the browser ended (exit {self._process.wait()})")
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def open(self, page: Path, fragment: str = "") -> None:
        """Load a file and wait until its script has run."""
        self._go("about:blank")  # else a new fragment of the same file would load nothing
        self.events.clear()
        self._go(page.as_uri() + (f"#{fragment}" if fragment else ""))

    def _go(self, url: str) -> None:
        self.send("Page.navigate", url=url)
        here = f"location.href === {json.dumps(url)} && document.readyState === 'complete'"
        end = time.monotonic() + PATIENCE
        while not self.run(here):
            if time.monotonic() > end:
                raise TimeoutError(f"{url} did not load within {PATIENCE:.0f} seconds")
            time.sleep(0.01)

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression in the page; a promise is waited for."""
        answer = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def settle(self) -> None:
        """Let events that the page has queued (``toggle``) be handled, and a frame be drawn."""
        self.run("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 20)))")

    def choose(self, id: str, value: str) -> None:
        """Choose an option of a ``<select>``."""
        self.run(
            f"(() => {{ const select = document.getElementById({json.dumps(id)});"
            f" select.value = {json.dumps(value)};"
            " select.dispatchEvent(new Event('change')); })()"
        )

    def type(self, text: str) -> None:
        """Text into what has the focus."""
        self.send("Input.insertText", text=text)

    def key(self, key: str, code: int, text: str = "") -> None:
        """Press a key, such as ``Tab`` (9) or ``Enter`` (13, with text ``\\r``)."""
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def looks(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """The size of the window and the colour scheme."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def screenshot(self, to: Path) -> None:
        data = self.send("Page.captureScreenshot", format="png")["data"]
        to.write_bytes(base64.b64decode(data))

    def faults(self) -> list[str]:
        """Everything that went wrong or went out since the page was opened.

        Script errors, entries of the browser's own log (violations of the
        page's security policy among them), dialogs, and requests for anything
        but the page itself.
        """
        self.run("new Promise((done) => setTimeout(done, 50))")
        found = []
        for event in self.events:
            method, params = event.get("method", ""), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"]["text"])
            elif method == "Log.entryAdded":
                found.append(params["entry"]["text"])
            elif method == "Page.javascriptDialogOpening":
                found.append(f"dialog: {params['message']}")
            elif method == "Network.requestWillBeSent":
                url = params["request"]["url"]
                if params["type"] != "Document":
                    found.append(f"request: {url}")
        return found
