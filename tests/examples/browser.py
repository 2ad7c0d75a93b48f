"""A headless Chromium, driven over its own pipe: DevTools messages, one JSON text each, ended by a zero byte."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")

#: The process becomes Chromium's; the two ends of the pipes become the descriptors that it looks for.
_START = """
import os, sys
inside, outside, program = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
os.dup2(inside, 3)
os.dup2(outside, 4)
os.execv(program, sys.argv[3:])
"""


def found_browser() -> str | None:
    """Chromium's path, where there is one."""
    return next(filter(None, map(shutil.which, NAMES)), None)


#: Milliseconds after which a page that is well would have changed.
PATIENCE = 60_000


class Browser:
    """One browser with one page. It ends with the ``with`` block, together with every process that it started."""

    def __init__(self, program: str, folder: Path) -> None:
        inside, self._commands = os.pipe()
        self._messages, outside = os.pipe()
        options = [
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-first-run",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            f"--user-data-dir={folder}",
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
            "about:blank",
        ]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _START, str(inside), str(outside), program, *options],
            pass_fds=(inside, outside),
            env={**os.environ, "HOME": str(folder)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(inside)
        os.close(outside)
        self._read = os.fdopen(self._messages, "rb", buffering=0)
        self._rest = b""
        self._number = 0
        self._loads = 0
        self._session: str | None = None
        self.problems: list[str] = []

    def __enter__(self) -> Browser:
        try:
            self._attach()
        except BaseException:
            self._end()
            raise
        return self

    def _attach(self) -> None:
        pages = self._send("Target.getTargets")["targetInfos"]
        page = next(found["targetId"] for found in pages if found["type"] == "page")
        self._session = self._send("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._send(f"{domain}.enable")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        try:
            self._session = None
            self._send("Browser.close")
            self._process.wait(timeout=20)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            # Its own process group holds nothing but the browser and its children.
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._read.close()
        os.close(self._commands)

    def forget(self) -> None:
        """Leave the page, and forget who was signed in and what went wrong."""
        self._load("Page.navigate", url="about:blank")
        self._send("Network.clearBrowserCookies")
        self.problems.clear()

    def open(self, url: str) -> None:
        """Go to a page and return when it is loaded."""
        self._load("Page.navigate", url=url)

    def reload(self) -> None:
        self._load("Page.reload")

    def _load(self, method: str, **params: Any) -> None:
        before = self._loads
        self._send(method, **params)
        while self._loads == before:
            self._note(self._next())

    def run(self, expression: str) -> Any:
        """The value of an expression of JavaScript in the page; a promise is awaited."""
        found = self._send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise AssertionError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def until(self, condition: str) -> None:
        """Return when a condition holds. The page looks at each change of itself; AssertionError when none comes."""
        watch = f"""new Promise((done, fail) => {{
            const holds = () => {{ try {{ return {condition}; }} catch {{ return false; }} }};
            if (holds()) return done();
            const look = () => {{ if (holds()) {{ watcher.disconnect(); done(); }} }};
            const watcher = new MutationObserver(look);
            setTimeout(() => fail(new Error("it never holds")), {PATIENCE});
            watcher.observe(document, {{ subtree: true, childList: true, characterData: true, attributes: true }});
        }})"""
        self.run(watch)

    def text(self, selector: str) -> str:
        return str(self.run(f"document.querySelector({json.dumps(selector)}).innerText"))

    def click(self, selector: str) -> None:
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def screenshot(self, path: Path) -> None:
        """For a person who wants to see the page."""
        path.write_bytes(b64decode(self._send("Page.captureScreenshot", captureBeyondViewport=True)["data"]))

    def size(self, width: int, height: int, *, dark: bool = False) -> None:
        self._send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._send("Emulation.setEmulatedMedia", features=[scheme])

    def _send(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while (found := self._next()).get("id") != self._number:
            self._note(found)
        if "error" in found:
            raise AssertionError(f"{method}: {found['error']}")
        return dict(found["result"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            piece = self._read.read(65536)
            if not piece:
                raise AssertionError("the browser has ended")
            self._rest += piece
        text, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(text))

    def _note(self, event: dict[str, Any]) -> None:
        """What a developer would see in red."""
        params = event.get("params", {})
        self._loads += event.get("method") == "Page.loadEventFired"
        if event.get("method") == "Runtime.exceptionThrown":
            self.problems.append(str(params["exceptionDetails"]))
        if event.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.problems.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
