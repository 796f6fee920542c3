"""A headless Chromium, spoken to over its DevTools pipe: no driver, no port, nothing to install beside the browser.

It counts what a page must not do: every console message of weight, every exception and every request that is not the file.
"""

import json
import os
import select
import shutil
import subprocess
import sys
from contextlib import suppress

# The browser reads commands from descriptor 3 and answers on 4; copies above them keep either from being overwritten.
LAUNCH = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-extensions", "--mute-audio"),
    *("--hide-scrollbars", "--disable-dev-shm-usage", "--remote-debugging-pipe"),
)
SECONDS = 180  # for what never comes, not for slow machines
KEYS = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowRight": 39, "ArrowDown": 40, " ": 32}

# The contrast of some texts with the page's background, by the rule of the web's accessibility guidelines.
CONTRASTS = """
(() => {
  const light = (colour) => {
    const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((c) => c / 255);
    const [r, g, b] = parts.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const page = light(getComputedStyle(document.body).backgroundColor);
  const texts = ["body", "nav a", ".caption", ".badge.reproduced", ".badge.contradicted", ".badge.inconclusive", ".empty"];
  const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  return texts.map((t) => contrast(light(getComputedStyle(document.querySelector(t)).color), page));
})()
"""


def executable() -> str | None:
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page of one browser; use it as a context manager."""

    def __init__(self, profile):
        (to_read, self._commands), (self._answers, to_write) = os.pipe(), os.pipe()
        launch = [sys.executable, "-c", LAUNCH, str(to_read), str(to_write)]
        self._process = subprocess.Popen(
            [*launch, executable(), *FLAGS, f"--user-data-dir={profile}"],
            pass_fds=(to_read, to_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_read)
        os.close(to_write)
        self._unread, self._number, self._session = b"", 0, None
        self.complaints, self.requests = [], []
        try:
            self._attach()
        except BaseException:
            self.__exit__()
            raise

    def _attach(self) -> None:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with suppress(OSError):
            self._session = None
            self._send("Browser.close")
        os.close(self._commands)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._answers)

    def call(self, method: str, **params) -> dict:
        """A command, and its answer."""
        number = self._send(method, **params)
        while True:
            message = self._next()
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]

    def open(self, path, width=1200, height=900, dark=False) -> None:
        """Load a file as a person would, by double click, and wait for it."""
        self.requests.clear()
        self.complaints.clear()
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        motion = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.call("Emulation.setEmulatedMedia", features=[scheme, motion])
        self.call("Page.navigate", url="about:blank")
        self._send("Page.navigate", url=path.as_uri())
        while self._next().get("method") != "Page.loadEventFired":
            pass
        while self.js("location.href") == "about:blank":  # that was the blank page's own event
            self._next()
        assert self.js(
            "document.readyState === 'complete' || new Promise(r => addEventListener('load', () => r(true)))"
        )

    def js(self, expression: str):
        """The value of an expression in the page; promises are waited for."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def becomes(self, expression: str) -> bool:
        """Whether the expression turns true within some hundred frames: links and details act a moment after the click."""
        look = f"(({expression}) ? done(true) : ++frames > 500 ? done(false) : requestAnimationFrame(look))"
        return self.js(f"new Promise(done => {{ let frames = 0; const look = () => {look}; look(); }})")

    def press(self, *keys: str) -> None:
        for key in keys:
            code = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
            text = {"text": {"Enter": "\r", " ": " "}[key]} if key in ("Enter", " ") else {}
            self.call("Input.dispatchKeyEvent", type="keyDown", **code, **text)
            self.call("Input.dispatchKeyEvent", type="keyUp", **code)

    def click(self, selector: str) -> None:
        """With the mouse, in the middle of the element, so that what covers it is noticed."""
        place = self.js(
            f"(e => (e.scrollIntoView({{block: 'center'}}), (r => [r.x + r.width / 2, r.y + r.height / 2])"
            f"(e.getBoundingClientRect())))(document.querySelector({json.dumps(selector)}))"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def _send(self, method: str, **params) -> int:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        content = json.dumps(message).encode() + b"\0"
        while content:
            content = content[os.write(self._commands, content) :]
        return self._number

    def _next(self) -> dict:
        while b"\0" not in self._unread:
            assert select.select([self._answers], [], [], SECONDS)[0], f"the browser has said nothing for {SECONDS} s"
            more = os.read(self._answers, 1 << 20)
            assert more, "the browser has ended"
            self._unread += more
        raw, self._unread = self._unread.split(b"\0", 1)
        message = json.loads(raw)
        self._notice(message.get("method"), message.get("params", {}))
        return message

    def _notice(self, event: str | None, params: dict) -> None:
        if event == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(params["exceptionDetails"])
        elif event == "Runtime.consoleAPICalled":
            self.complaints.append(params["args"])
        elif event == "Log.entryAdded":
            self.complaints.append(params["entry"])
