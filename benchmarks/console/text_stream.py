"""A thousand pieces of text a second in a page of the console: how busy its main thread is, and what is lost (J-4).

A scripted runner sends them, one message each and by the clock, and leaves its block open: nothing but the pieces is in
the page. An agent and a real runner would use a part of the processors, and merge the pieces that wait for them.
"""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple

from benchmarks.harness.scripted_runner import ScriptedRunner, Session, delta_message

RATE, SECONDS = 1_000, 10
WARM_S = 1
"""The first second is not measured: the page loads the module that reads Markdown then."""
WORDS = ("The ", "agent ", "reads ", "`a.py`", ", ", "and ", "**writes** ", "what ", "it ", "found.\n")
"""Pieces as models send them: a few characters each."""
PARAGRAPH = 200
LAST = "\n\nend-of-stream"
BEHIND_S = 0.1
"""A sender that was kept from its work for longer than this does not send all that it missed at once."""
POLL_MS = 250
WAIT_MS = 60_000
COUNTED = """
window.pieces = 0;
window.WebSocket = class extends WebSocket {
  constructor(...given) {
    super(...given);
    this.addEventListener('message', (one) => { window.pieces += one.data.split('"agent.text.delta"').length - 1; });
  }
};"""
"""Counts in the page, as a part of the measurement."""
SHOWN = "[...document.querySelectorAll('.block.prose, .block.markup')].at(-1)?.textContent ?? ''"
ENDED = f"({SHOWN}).endsWith('{LAST.strip()}')"


class Streamed(NamedTuple):
    """What one stream was to the page. `busy` is the share of the time in which its main thread ran tasks."""

    pieces_s: float
    busy: float
    lost_chars: int


def pieces(count: int) -> list[str]:
    """Return the pieces of a stream, without its last."""
    return [f"{n} " + WORDS[n % len(WORDS)] + ("\n" if n % PARAGRAPH == PARAGRAPH - 1 else "") for n in range(count)]


def measured(page: Any, runner: ScriptedRunner, session: Session) -> Streamed:
    """Send to a session that the page shows, and watch its main thread meanwhile."""
    sent = [*pieces(RATE * SECONDS), LAST]
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable", {"timeDomain": "timeTicks"})
    sender = threading.Thread(target=_send, args=(runner, session, sent))
    sender.start()
    _until(page, f"window.pieces >= {RATE * WARM_S}")
    first, counted = _metrics(devtools), page.evaluate("window.pieces")
    _until(page, f"window.pieces >= {RATE * (SECONDS - 1)} || {ENDED}")
    last, counted_last = _metrics(devtools), page.evaluate("window.pieces")
    sender.join()
    _until(page, ENDED)
    whole, shown = "".join(sent), page.evaluate(SHOWN)
    wall_s = last["Timestamp"] - first["Timestamp"]
    lost = abs(len(whole) - len(shown)) + sum(one != other for one, other in zip(whole, shown, strict=False))
    return Streamed((counted_last - counted) / wall_s, (last["TaskDuration"] - first["TaskDuration"]) / wall_s, lost)


def _until(page: Any, condition: str) -> None:
    page.wait_for_function(f"() => {condition}", polling=POLL_MS, timeout=WAIT_MS)


def _metrics(devtools: Any) -> dict[str, float]:
    return {one["name"]: one["value"] for one in devtools.send("Performance.getMetrics")["metrics"]}


def _send(runner: ScriptedRunner, session: Session, texts: list[str]) -> None:
    offset, due = 0, time.monotonic()
    for text in texts:
        due = max(due + 1 / RATE, time.monotonic() - BEHIND_S)
        time.sleep(max(due - time.monotonic(), 0))
        runner.sock.sendall(delta_message(session, offset, text))
        offset += len(text)
