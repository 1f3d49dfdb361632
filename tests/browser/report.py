"""Opens a report in headless Chromium as a reader would, and says as JSON what happened.

    report.py CHROMIUM PAGE.html OUT_DIR

It speaks the DevTools protocol itself: the alternative, Playwright, brings 45 MB for the ten commands
that are needed. Screenshots and the print go into OUT_DIR. What comes back:

    errors    messages of the console above "info", exceptions, and violations of the page's policy
    requests  every address the page asked for but itself
    …         what each step saw
"""

import base64
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

from websockets.sync.client import connect

chromium, page, out = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3])
out.mkdir(parents=True, exist_ok=True)
address = page.as_uri()


class Tab:
    """One tab; events are kept until somebody asks."""

    def __init__(self, socket):
        self.number = 0
        self.socket = connect(socket, max_size=None, open_timeout=60, legacy=True)
        self.errors, self.requests = [], []

    def call(self, method, **parameters):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv(timeout=120))
            if message.get("id") == self.number:
                assert "error" not in message, (method, message["error"])
                return message["result"]
            self.event(message.get("method"), message.get("params", {}))

    def event(self, method, about):
        if method == "Runtime.consoleAPICalled" and about["type"] not in ("log", "info", "debug"):
            self.errors.append(" ".join(str(one.get("value", one.get("description"))) for one in about["args"]))
        elif method == "Runtime.exceptionThrown":
            details = about["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and about["entry"]["level"] in ("warning", "error"):
            self.errors.append(about["entry"]["text"])
        elif method == "Network.requestWillBeSent" and about["request"]["url"] != address:
            self.requests.append(about["request"]["url"])

    def value(self, script):
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def key(self, name, code):
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code)

    def screen(self, width, height, dark, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if phone else 1, mobile=phone)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self):
        self.call("Page.navigate", url=address)
        for _ in range(600):
            if self.value("document.readyState === 'complete' && document.querySelectorAll('svg').length > 0"):
                break
            time.sleep(0.1)
        self.settle()

    def shot(self, name):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 9000), "scale": 1}
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        (out / name).write_bytes(base64.b64decode(answer["data"]))

    def centre(self, selector):
        return self.value(
            f"(() => {{ const one = document.querySelector({json.dumps(selector)}); one.scrollIntoView({{block: 'center'}});"
            " const box = one.getBoundingClientRect(); return [box.left + box.width / 2, box.top + box.height / 2]; })()"
        )

    def click(self, selector):
        x, y = self.centre(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def settle(self):
        # What a click causes may come a task later: the event of an opened <details>, a new drawing.
        self.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 50))))")

    def hover(self, selector):
        x, y = self.centre(selector)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        return self.value("document.getElementById('tip').hidden ? null : document.getElementById('tip').textContent")


def visit(tab):
    for domain in ("Page", "Runtime", "Log", "Network"):
        tab.call(f"{domain}.enable")
    seen = {}
    tab.screen(1280, 900, dark=False)
    tab.open()
    tab.shot("desktop-light.png")
    seen["title"] = tab.value("document.title")
    seen["charts"] = tab.value("[...document.querySelectorAll('figure:not([hidden]) figcaption b')].map((one) => one.textContent)")
    seen["empty_charts"] = tab.value("[...document.querySelectorAll('figure:not([hidden]) svg')].filter((one) => !one.querySelector('path, circle') && !one.parentElement.querySelector('canvas')).length")
    seen["not_a_number"] = tab.value("(document.querySelector('main').innerHTML.match(/NaN|undefined|Infinity/g) || []).length")
    seen["unnamed"] = tab.value("[...document.querySelectorAll('svg, button, [role=region], [role=group]')].filter((one) => !(one.getAttribute('aria-label') || one.textContent.trim())).length")
    seen["injected"] = tab.value("window.injected === undefined ? 0 : 1") + tab.value("document.querySelectorAll('main img, main script, main iframe').length")
    # A wide page must not scroll sideways, and no label may lie on another.
    overlaps = """
      [...document.querySelectorAll('figure:not([hidden]) svg')].flatMap((svg) => {
        const boxes = [...svg.querySelectorAll('text')].filter((one) => one.textContent.length > 1).map((one) => [one.textContent, one.getBoundingClientRect()]);
        return boxes.flatMap(([one, a], i) => boxes.slice(i + 1).filter(([, b]) =>
          a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2).map(([other]) => `${one} / ${other}`));
      })"""
    sideways = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    seen["overlaps"], seen["sideways"] = tab.value(overlaps), tab.value(sideways)
    # Values under the mouse, and with arrow keys.
    seen["hover"] = tab.hover("figure svg")
    seen["heat"] = tab.hover("figure:has(canvas) svg") if tab.value("!!document.querySelector('figure canvas')") else None
    # The keyboard: from the top through everything that can be used.
    tab.value("document.activeElement.blur(); scrollTo(0, 0)")
    reached, unmarked = [], []
    for _ in range(80):
        tab.key("Tab", 9)
        if tab.value("document.activeElement !== document.body && getComputedStyle(document.activeElement).outlineStyle === 'none'"):
            unmarked.append(tab.value("document.activeElement.outerHTML.slice(0, 100)"))
        reached.append(tab.value("document.activeElement.tagName.toLowerCase() + (document.activeElement.id ? '#' + document.activeElement.id : '')"))
        if reached[-1] == "svg" and "keys" not in seen:
            before = tab.value("document.getElementById('tip').textContent")
            tab.key("ArrowRight", 39)
            after = tab.value("document.getElementById('tip').hidden ? null : document.getElementById('tip').textContent")
            seen["keys"] = [before, after]
    seen["reached"] = sorted(set(reached))
    seen["focus_unmarked"] = unmarked
    # Clicks.
    paper = "getComputedStyle(document.body).backgroundColor"
    seen["themes"] = []
    for _ in range(3):
        tab.click("#theme")
        seen["themes"].append([tab.value("document.getElementById('theme').textContent"), tab.value(paper)])
    paths = "document.querySelector('figure svg').querySelectorAll('path').length"
    if tab.value("!!document.querySelector('[data-run-toggle]')"):
        before = tab.value(paths)
        tab.click("[data-run-toggle]")
        seen["toggle"] = [before, tab.value(paths), tab.value("document.querySelector('[data-run-toggle]').getAttribute('aria-pressed')")]
        tab.click("[data-run-toggle]")
    if tab.value("document.querySelectorAll('[data-choice^=\"op:\"]').length > 1"):
        tab.value("document.querySelectorAll('[data-choice^=\"op:\"]')[1].id = 'second-op'")
        tab.click("#second-op")
        seen["op"] = tab.value("document.querySelector('figure figcaption span').textContent")
    tab.click("figure details summary")
    for _ in range(100):
        if tab.value("document.querySelectorAll('figure details[open] tbody tr').length"):
            break
        time.sleep(0.1)
    seen["table_rows"] = tab.value("document.querySelectorAll('figure details[open] tbody tr').length")
    # The same in the dark, on a phone, on paper.
    tab.screen(1280, 900, dark=True)
    tab.open()
    seen["dark"] = tab.value(paper)
    tab.shot("desktop-dark.png")
    for dark in (False, True):
        tab.screen(390, 844, dark=dark, phone=True)
        tab.open()
        tab.shot("phone-dark.png" if dark else "phone.png")
    seen["phone_overlaps"], seen["phone_sideways"] = tab.value(overlaps), tab.value(sideways)
    tab.screen(1280, 900, dark=True)
    tab.open()
    pdf = tab.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
    (out / "print.pdf").write_bytes(base64.b64decode(pdf["data"]))
    seen["print_bytes"] = (out / "print.pdf").stat().st_size
    return seen | {"errors": tab.errors, "requests": tab.requests}


with tempfile.TemporaryDirectory() as profile:
    browser = subprocess.Popen(
        [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--no-first-run", "--no-default-browser-check", "--disable-dev-shm-usage",
         "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        known = pathlib.Path(profile) / "DevToolsActivePort"
        for _ in range(1200):
            if known.exists() and known.read_text().count("\n") >= 1:
                break
            assert browser.poll() is None, f"{chromium} ended with {browser.returncode}"
            time.sleep(0.1)
        port = known.read_text().split()[0]
        tabs = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=60))
        json.dump(visit(Tab(next(tab for tab in tabs if tab["type"] == "page")["webSocketDebuggerUrl"])), sys.stdout, ensure_ascii=False)
    finally:
        browser.terminate()
        browser.wait(30)
