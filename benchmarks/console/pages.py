"""The console in real Chromium on a gateway with long lists: bytes, time to the first screen, frames while scrolling, a
fast stream, and the audit log verified in the browser (J-2, J-3, J-4, J-7). The browser shares the machine with the
gateway."""

from __future__ import annotations

import asyncio
import gzip
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.console import text_stream
from benchmarks.control_plane.audit_log import draft
from benchmarks.harness.scripted_runner import ScriptedRunner
from interlock.app.place import SystemClock
from interlock.backends.sqlite.ledger import LEDGER_NAME, open_ledger
from interlock.engine.bridge.lane_state import LaneState
from interlock.ports.ledger import Append, AuditAppend, LedgerWrite, PutSession, WriteBatch
from interlock.protocol.identifiers import session_stream
from interlock.protocol.records import SessionRecord
from interlock.session.store.entry import SessionFields
from proof.processes.stack import Stack

SESSIONS, ENTRIES, RECORDS = 10_000, 100_000, 100_000
BATCH = 5_000
FIRST_LOAD_BYTES, APPROVAL_BYTES = 120_000, 40_000
FIRST_SCREEN_MS, FRAME_MS, VERIFIED_MS, GONE_MS = 1_000, 50, 5_000, 1_000
BUSY_PERCENT = 50
"""How much of the time the main thread may run tasks while a thousand pieces of text a second arrive."""
SLOWED = 4
"""How many times slower the processor is made for the first approval."""
PATIENCE_MS = 60_000
SCROLL_MS = 10_000
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
PHONE = {"width": 360, "height": 740}
LONG = "00000000-0000-4000-8000-999999999999"
SHOWN = "(selector) => document.querySelector(selector)?.textContent ? performance.now() : null"
"""Milliseconds from the beginning of the navigation, once an element is there."""
WATCHED = """() => {
  window.gone = new Promise((done) => {
    const watch = () => document.querySelector('.cards a') ? requestAnimationFrame(watch) : done(Date.now());
    watch();
  });
}"""
"""Notes when the list of what waits is empty."""
SCROLLED = """async ([to, limit_ms]) => {
  const frames = [];
  const began = performance.now();
  let [before, still, at] = [began, 0, -1];
  while (performance.now() - began < limit_ms && still < 60) {
    scrollBy(0, to * innerHeight);
    const now = await new Promise(requestAnimationFrame);
    frames.push(now - before);
    before = now;
    still = scrollY === at ? still + 1 : 0;
    at = scrollY;
  }
  frames.sort((one, other) => one - other);
  return {frames: frames.length, p95_ms: frames[Math.floor(frames.length * 0.95)],
    elements: document.querySelectorAll('main *').length};
}"""


EARLIER = """() => {
  const found = [...document.querySelectorAll('main > button')].find((one) => one.textContent === 'Show earlier');
  if (found === undefined) return null;
  const height = document.body.scrollHeight;
  found.click();
  return height;
}"""
"""Ask for earlier events, and return how high the page was; null if there are none. It is one step of the page, which
loads them of itself as well when its beginning is near the screen."""

GROWN = """(before) => document.body.scrollHeight > before
  || ![...document.querySelectorAll('main > button')].some((one) => one.textContent === 'Show earlier')"""
"""Whether earlier events have come, or there are none."""


class Figure(msgspec.Struct, frozen=True):
    """One measured value beside its limit, if there is one."""

    name: str
    value: float
    unit: str
    limit: float | None = None


class Measured(msgspec.Struct, frozen=True):
    """What `--json` prints. `load` is that of the machine at the end."""

    figures: list[Figure]
    load: float


def run(most: int) -> Measured:
    """Fill a ledger, start a gateway and a runner on it, and drive the page. Raises RuntimeError without Chromium."""
    from playwright.sync_api import sync_playwright

    named = os.environ.get("INTERLOCK_TEST_CHROMIUM") or shutil.which("chromium")
    if named is None:
        raise RuntimeError("There is no Chromium on the PATH, and INTERLOCK_TEST_CHROMIUM names none.")
    with tempfile.TemporaryDirectory() as place:
        stack = Stack(Path(place))
        try:
            stack.up()  # It signs the beginning of its audit log, and continues from there.
            stack.down()
            asyncio.run(_filled(stack.state, most))
            stack.up()
            _accepted(stack)
            with sync_playwright() as driver:
                browser = driver.chromium.launch(executable_path=named, args=ARGUMENTS)
                figures = [*_approval(browser, stack), *_sessions(browser, stack), *_transcript(browser, stack),
                           *_stream(browser, stack), *_audit(browser, stack)]
                browser.close()
        finally:
            stack.down()
    return Measured(figures, os.getloadavg()[0])


async def _filled(state: Path, most: int) -> None:
    clock = SystemClock()
    ledger = await open_ledger(state / LEDGER_NAME, clock)
    stream = session_stream(LONG)
    rows: list[LedgerWrite] = [PutSession(_row(number, f"00000000-0000-4000-8000-{number:012d}"))
                               for number in range(min(SESSIONS, most) - 1)]
    rows.append(PutSession(_row(SESSIONS, LONG)))
    rows += [Append("default", stream, "M", clock.now_ms(), _spoken(number)) for number in range(min(ENTRIES, most))]
    rows += [AuditAppend(draft(number)) for number in range(min(RECORDS, most))]
    for first in range(0, len(rows), BATCH):
        await ledger.commit(WriteBatch(rows[first:first + BATCH]))
    await ledger.close()


def _accepted(stack: Stack) -> None:
    """Have a log signed that another process than the gateway has made longer: here the owner decides it."""
    found = stack.get("/v1/audit/signing")
    if found["unsigned"] is not None:
        body = {"size": found["size"], "root": found["root"], "reason": "Records to measure with."}
        answer = stack.post("/v1/audit/resume", body, "measure-console-resume")
        answer.raise_for_status()


def _row(number: int, session_id: str) -> SessionRecord:
    key = f"agent:shell:run:{number}"
    entry = SessionFields(display_name=f"Session {number}", session_started_at=1, last_interaction_at=number + 1)
    lane = LaneState(session_id=session_id, tenant_id="default", session_key=key, agent_id="shell",
                     runner_id="elsewhere", workspace="/w", created_ms=number + 1, entry=entry)
    return SessionRecord(session_id=session_id, tenant_id="default", session_key=key, agent_id="shell",
                         runner_id="elsewhere", workspace="/w", state="idle", created_ms=number + 1,
                         updated_ms=number + 1, deadline_ms=None, machine=msgspec.json.encode(lane), usage={})


def _spoken(number: int) -> bytes:
    text = f"Line {number} of what the agent wrote, with `code` and some more words, as answers have them."
    return msgspec.json.encode({"type": "agent.text.done", "payload": {"block_id": f"b{number}", "text": text}})


def _interlock(stack: Stack, *words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "interlock", *words, "--state", str(stack.state), "--url", stack.url],
                          cwd=stack.workspace, capture_output=True, text=True, check=True)
    return done.stdout


@contextmanager
def _page(browser: Any, stack: Stack) -> Generator[tuple[Any, list[Any]]]:
    """A phone's page that is logged in, and what it has received since."""
    context = browser.new_context(viewport=PHONE, service_workers="block")
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(next(word for word in _interlock(stack, "console", "--no-open").split() if word.startswith("http")))
    page.get_by_role("heading", name="Waiting for you").wait_for()
    answers: list[Any] = []

    def received(one: Any) -> None:
        answers.append(one)

    page.on("response", received)
    yield page, answers
    context.close()


def _weight(answers: list[Any]) -> int:
    """Bytes of the page and its files, gzipped: those of the API are not its weight."""
    return sum(len(gzip.compress(one.body())) for one in answers if "/v1/" not in one.url and one.ok)


def _shown(page: Any, address: str, selector: str) -> float:
    page.goto(address)
    return page.wait_for_function(SHOWN, arg=selector).json_value()


def _approval(browser: Any, stack: Stack) -> list[Figure]:
    _interlock(stack, "run", "shell", "touch measured", "--detach", "--session", "measured")
    stack.until(lambda: bool(stack.get("/v1/approvals", state="pending")["items"]))
    approval = stack.get("/v1/approvals", state="pending")["items"][0]["id"]
    origin = stack.url.replace("127.0.0.1", "localhost")
    with _page(browser, stack) as (page, answers):
        page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": SLOWED})
        readable = _shown(page, f"{origin}/console/a/{approval}", "section pre")
        page.get_by_text("sha256").wait_for()
        page.wait_for_load_state("networkidle")
        of_approval = _weight(answers)
        answers.clear()
        page.goto(f"{origin}/console/")
        page.locator(".cards a").first.wait_for()
        page.wait_for_load_state("networkidle")
        first = _weight(answers)
        page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": 1})
        page.evaluate(WATCHED)
        answered = stack.post(f"/v1/approvals/{approval}/grants", {"decision": "deny"}, "the-benchmarks-own-vote")
        answered.raise_for_status()
        answered_at_ms = time.time() * 1_000
        gone = page.evaluate("window.gone") - answered_at_ms
    return [Figure("first load, gzipped", first, "bytes", FIRST_LOAD_BYTES),
            Figure("the page of one approval, gzipped", of_approval, "bytes", APPROVAL_BYTES),
            Figure(f"the first approval is readable, processor {SLOWED} times slower", readable, "ms",
                   FIRST_SCREEN_MS),
            Figure("an approval that is answered elsewhere is gone", max(gone, 0), "ms", GONE_MS)]


def _scrolled(page: Any, what: str, to: float) -> list[Figure]:
    found = page.evaluate(SCROLLED, [to, SCROLL_MS])
    return [Figure(f"{what}: frame at p95 while scrolling", found["p95_ms"], "ms", FRAME_MS),
            Figure(f"{what}: elements in the document", found["elements"], "")]


def _sessions(browser: Any, stack: Stack) -> list[Figure]:
    with _page(browser, stack) as (page, _):
        first = _shown(page, f"{stack.url.replace('127.0.0.1', 'localhost')}/console/sessions", ".cards a")
        return [Figure("sessions: first screen", first, "ms", FIRST_SCREEN_MS), *_scrolled(page, "sessions", 0.5)]


def _transcript(browser: Any, stack: Stack) -> list[Figure]:
    address = f"{stack.url.replace('127.0.0.1', 'localhost')}/console/sessions/{LONG}"
    with _page(browser, stack) as (page, _):
        first = _shown(page, address, ".block")
        while (height := page.evaluate(EARLIER)) is not None:
            page.wait_for_function(GROWN, arg=height)
        page.evaluate("scrollTo(0, 0)")
        return [Figure("transcript: first screen", first, "ms", FIRST_SCREEN_MS),
                *_scrolled(page, "transcript, all of it read", 0.5)]


def _stream(browser: Any, stack: Stack) -> list[Figure]:
    runner = ScriptedRunner.paired(stack.port, (stack.state / "owner.key").read_text().strip(), "streaming")
    session = runner.open()
    try:
        with _page(browser, stack) as (page, _):
            page.add_init_script(text_stream.COUNTED)
            page.goto(f"{stack.url.replace('127.0.0.1', 'localhost')}/console/sessions/{session.session_id}")
            page.locator(".block").first.wait_for()
            found = text_stream.measured(page, runner, session)
    finally:
        runner.close()
    return [Figure("stream: pieces of text a second that reach the page", found.pieces_s, "/s"),
            Figure("stream: main thread of the page is busy", 100 * found.busy, "%", BUSY_PERCENT),
            Figure("stream: characters lost", found.lost_chars, "", 0)]


def _audit(browser: Any, stack: Stack) -> list[Figure]:
    with _page(browser, stack) as (page, _):
        taken = _shown(page, f"{stack.url.replace('127.0.0.1', 'localhost')}/console/audit", ".verdict .good")
    return [Figure("audit: all records verified", taken, "ms", VERIFIED_MS)]


def table(measured: Measured) -> str:
    """The figures as lines of text."""
    lines = [f"{one.name:<66} {one.value:>10,.0f} {one.unit:<6}"
             + ("" if one.limit is None else f" at most {one.limit:,.0f}") for one in measured.figures]
    return "\n".join([*lines, f"{'load of the machine at the end':<66} {measured.load:>10.1f}"])
