"""Viewers that follow sessions over SSE through everything, and keep the text that they were shown."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from typing import Any

import httpx2

from proof.house import House


class Watcher:
    """One thread a session; each resumes from its cursor until it is stopped."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._stopping = threading.Event()
        self._texts: dict[str, dict[str, str]] = defaultdict(dict)
        self._threads: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()

    def watch(self, session_id: str, *, one_opening: bool = True) -> None:
        """Begin to follow a session; `one_opening`: only until its agent is closed, since none opens there again."""
        with self._lock:
            if session_id in self._threads:
                return
            thread = threading.Thread(target=self._follow, args=(session_id, one_opening), daemon=True)
            self._threads[session_id] = thread
        thread.start()

    def stop(self) -> None:
        """End all viewers."""
        self._stopping.set()
        for thread in self._threads.values():
            thread.join(5)

    def texts(self, session_id: str) -> dict[str, str]:
        """Text by block as this session's viewer saw it."""
        return dict(self._texts[session_id])

    def _follow(self, session_id: str, one_opening: bool) -> None:
        last_id: str | None = None
        while not self._stopping.is_set():
            try:
                last_id, over = self._stream(session_id, last_id)
            except (httpx2.TransportError, FileNotFoundError):
                over = False
            if over and (one_opening or self._stopping.is_set()):
                return
            self._stopping.wait(0.05)

    def _stream(self, session_id: str, last_id: str | None) -> tuple[str | None, bool]:
        headers = {**self._house.headers, "Accept": "text/event-stream"}
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        url = f"{self._house.url}/v1/sessions/{session_id}/frames?view=raw"
        with httpx2.stream("GET", url, headers=headers, timeout=httpx2.Timeout(5, read=20)) as answer:
            if answer.status_code != 200:
                return last_id, False
            event_id: str | None = None
            for line in answer.iter_lines():
                if self._stopping.is_set():
                    return last_id, True
                if line.startswith("id:"):
                    event_id = line[3:].strip()
                elif line.startswith("data:"):
                    over = self._see(session_id, json.loads(line[5:]))
                    last_id, event_id = event_id or last_id, None
                    if over:
                        return last_id, True
        return last_id, False

    def _see(self, session_id: str, item: dict[str, Any]) -> bool:
        frame = item.get("frame") or {}
        payload = frame.get("payload", {})
        texts = self._texts[session_id]
        if frame.get("type") in ("agent.text.delta", "agent.thinking.delta"):
            write_at(texts, payload["block_id"], payload["offset"], payload["text"])
        elif frame.get("type") == "tool.invoke.stream" and payload["channel"] == "stdout":
            write_at(texts, payload["invocation_id"] + "/stdout", payload["offset"], payload["text"])
        return frame.get("type") == "session.closed"


def write_at(texts: dict[str, str], block: str, offset: int, text: str) -> None:
    """Write text at its offset: what is there is skipped (E-4)."""
    have = texts.get(block, "")
    if offset <= len(have):
        texts[block] = have + text[len(have) - offset:]
