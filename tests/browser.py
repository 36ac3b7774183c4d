"""A real headless Chromium, driven over a pipe by the DevTools protocol: no client library, no port, no driver.

https://chromedevtools.github.io/devtools-protocol/ describes the commands; with `--remote-debugging-pipe` the browser
reads them from file descriptor 3 and writes answers and events to 4, each a JSON text that ends with a zero byte.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
"""Where it is; None where there is none."""
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
)


class Browser:
    """One tab of a running browser.

    Attributes:
        events: What the tab told, in order: requests, messages on the console, errors.
    """

    def __init__(self, into: int, out: int) -> None:
        self._into, self._out = into, out
        self._left = b""
        self._count = 0
        self._session = ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._into, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read(timeout=30)
            if answer.get("id") == self._count:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)

    def open(self, address: str) -> None:
        """Go to an address and wait until all of it has loaded; the page before is gone by then."""
        for place in ("about:blank", address):
            self.events.clear()
            self.call("Page.navigate", url=place)
            self.wait(lambda: any(event["method"] == "Page.loadEventFired" for event in self.events))

    def run(self, script: str) -> Any:
        """The value of an expression, in the page; of a promise, what it comes to."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, holds: Any, timeout: float = 20) -> None:
        """Take in events until something holds."""
        end = time.monotonic() + timeout
        while not holds():
            assert time.monotonic() < end, f"waited {timeout} s in vain"
            with suppress(TimeoutError):
                self.events.append(self._read(timeout=0.1))

    def show(self, *, width: int, height: int, dark: bool = False, mobile: bool = False, scale: float = 1) -> None:
        """Set the window and the reader's preference."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=mobile
        )
        preference = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[preference])

    def picture(self, *, height: int | None = None) -> bytes:
        """The page as PNG: what the window shows, or as much of the page as `height` says."""
        if height is None:
            return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        width = self.run("innerWidth")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        answer = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(answer["data"])

    @property
    def requests(self) -> list[str]:
        """The addresses that were asked for since `open`."""
        sent = (event for event in self.events if event["method"] == "Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in sent]

    @property
    def complaints(self) -> list[Any]:
        """Errors, warnings and uncaught exceptions since `open`."""
        wanted = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [event["params"] for event in self.events if event["method"] in wanted]

    def _read(self, timeout: float) -> dict[str, Any]:
        end = time.monotonic() + timeout
        while b"\0" not in self._left:
            if not select.select([self._out], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError
            piece = os.read(self._out, 1 << 20)
            assert piece, "the browser is gone"
            self._left += piece
        text, _, self._left = self._left.partition(b"\0")
        return json.loads(text)


@contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser whose profile lies in `folder`; it and all its processes end with the block."""
    assert CHROMIUM, "there is no Chromium"
    theirs_in, into = os.pipe()
    out, theirs_out = os.pipe()
    command = [CHROMIUM, *_FLAGS, f"--user-data-dir={folder}", "about:blank"]
    process = subprocess.Popen(
        ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", *command],
        pass_fds=(theirs_in, theirs_out),
        stdout=subprocess.DEVNULL,
        stderr=(folder / "browser.log").open("wb"),
        start_new_session=True,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Browser(into, out)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(into)
        os.close(out)
