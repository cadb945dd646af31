"""A headless browser, driven by the HTTP interface of WebDriver: Chromium and its driver, and nothing else."""

import base64
import json
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--window-size=1440,900",
]
# What WebDriver calls an element, and keys that are no letters.
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Tab": "\ue004", "Enter": "\ue007", "Escape": "\ue00c", "Left": "\ue012", "Up": "\ue013", "Right": "\ue014", "Down": "\ue015",
        "Shift": "\ue008"}


class Browser:
    """A browser with one window, of its own profile; use it in `with`."""

    def __enter__(self):
        programs = {name: shutil.which(name) for name in ("chromedriver", "chromium")}
        missing = [name for name, path in programs.items() if path is None]
        if missing:
            raise RuntimeError(f"no {' and no '.join(missing)} on the PATH; Debian has the packages chromium and chromium-driver")
        self.profile = tempfile.TemporaryDirectory()
        self.driver = subprocess.Popen([programs["chromedriver"], "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            self.address = f"http://127.0.0.1:{self.port()}"
            options = {"args": [*FLAGS, f"--user-data-dir={self.profile.name}"], "binary": programs["chromium"]}
            requested = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
            made = self.call("POST", "/session", {"capabilities": {"alwaysMatch": requested}})
            self.session = f"/session/{made['sessionId']}"
            self.post("/timeouts", {"script": 60_000})
        except BaseException:
            self.driver.kill()
            raise
        return self

    def __exit__(self, *_):
        try:
            self.call("DELETE", self.session)
        finally:
            self.driver.terminate()
            self.driver.wait(20)
            self.profile.cleanup()

    def port(self):
        for line in self.driver.stdout:
            if found := re.search(r"started successfully on port (\d+)", line):
                return int(found[1])
        raise RuntimeError("chromedriver ended before it said its port")

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            said = json.load(error)["value"]
            raise RuntimeError(f"{method} {path}: {said['error']}: {said['message']}") from None

    def post(self, path, body):
        return self.call("POST", self.session + path, body)

    def open(self, page):
        """Shows a file, and forgets what was logged before."""
        self.post("/url", {"url": "about:blank"})
        self.logged("browser"), self.logged("performance")
        self.post("/url", {"url": Path(page).resolve().as_uri()})

    def js(self, script, *args):
        """Runs the body of a function in the page and returns its result."""
        return self.post("/execute/sync", {"script": script, "args": list(args)})

    def later(self, script, *args):
        """Runs the body of an asynchronous function, and returns what it passes to `done`."""
        return self.post("/execute/async", {"script": "const done = arguments[arguments.length - 1];" + script, "args": list(args)})

    def find(self, selector):
        return self.post("/element", {"using": "css selector", "value": selector})

    def click(self, selector):
        self.post(f"/element/{self.find(selector)[ELEMENT]}/click", {})

    def keys(self, *names):
        """Presses keys one after the other, whatever has the focus."""
        keys = [KEYS.get(name, name) for name in names]
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.post("/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def pointer(self, *steps):
        """Moves the pointer to points (x, y), or presses ("down") and lets go ("up")."""
        words = {"down": {"type": "pointerDown", "button": 0}, "up": {"type": "pointerUp", "button": 0}}
        to = [words[step] if isinstance(step, str) else {"type": "pointerMove", "x": int(step[0]), "y": int(step[1]), "duration": 0}
              for step in steps]
        self.post("/actions", {"actions": [{"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": to}]})

    def devtools(self, command, **params):
        return self.post("/goog/cdp/execute", {"cmd": command, "params": params})

    def size(self, width, height):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def scheme(self, name):
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def screenshot(self, path):
        Path(path).write_bytes(base64.b64decode(self.call("GET", self.session + "/screenshot")))

    def logged(self, kind):
        return self.post("/se/log", {"type": kind})

    def faults(self):
        """Errors and warnings of the page since it was opened, and what it asked for besides itself."""
        faults = [entry["message"] for entry in self.logged("browser") if entry["level"] in ("SEVERE", "WARNING")]
        page = self.call("GET", self.session + "/url")
        for entry in self.logged("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = message["params"]["request"]["url"]
                if url not in (page, "about:blank"):
                    faults.append(f"asked for {url}")
        return faults
