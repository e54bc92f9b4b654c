"""Viewers that follow sessions over SSE through everything, and keep the text that they were shown."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import httpx2

from proof.processes.stack import Stack

NOTED_TOGETHER = 16
"""Events that a viewer was shown before it notes them; when its stream ends, it notes the rest."""


class Viewers:
    """One thread a session; each resumes from its cursor until it is stopped."""

    def __init__(self, stack: Stack, note: Callable[..., None] | None = None) -> None:
        """`note` is given lines `session n message_id` of the events that a viewer was shown, some at a time."""
        self._stack = stack
        self._note = note
        self._stopping = threading.Event()
        self._texts: dict[str, dict[str, str]] = defaultdict(dict)
        self._threads: dict[str, threading.Thread] = {}
        self._lock = threading.Lock()
        self._cursors: dict[str, str] = {}
        self._streams: dict[str, socket.socket] = {}
        self._http = httpx2.Client(limits=httpx2.Limits(max_connections=None, max_keepalive_connections=0),
                                   timeout=httpx2.Timeout(5, read=20))

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
        for stream in list(self._streams.values()):
            with contextlib.suppress(OSError):  # One that is over by now needs no end.
                stream.shutdown(socket.SHUT_RDWR)
        for thread in self._threads.values():
            thread.join(5)

    def texts(self, session_id: str) -> dict[str, str]:
        """Text by block as this session's viewer saw it."""
        return dict(self._texts[session_id])

    def _follow(self, session_id: str, one_opening: bool) -> None:
        while not self._stopping.is_set():
            try:
                ended = self._stream(session_id, self._cursors.get(session_id))
            except (httpx2.TransportError, FileNotFoundError):
                ended = False
            if ended and (one_opening or self._stopping.is_set()):
                return
            self._stopping.wait(0.05)

    def _stream(self, session_id: str, last_id: str | None) -> bool:
        headers = {**self._stack.headers, "Accept": "text/event-stream"}
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        url = f"{self._stack.url}/v1/sessions/{session_id}/frames?view=raw"
        with self._http.stream("GET", url, headers=headers) as answer:
            if answer.status_code != 200:
                return False
            self._streams[session_id] = answer.extensions["network_stream"].get_extra_info("socket")
            return self._read(session_id, answer.iter_lines())

    def _read(self, session_id: str, lines: Iterator[str]) -> bool:
        """Take events until the stream breaks; the cursor is kept also of one that breaks in the middle."""
        event_id: str | None = None
        shown: list[str] = []
        try:
            for line in lines:
                if self._stopping.is_set():
                    return True
                if line.startswith("id:"):
                    event_id = line[3:].strip()
                elif line.startswith("data:"):
                    item = json.loads(line[5:])
                    ended = self._see(session_id, item)
                    if event_id is not None:
                        shown.append(f"{session_id} {item['n']} {item.get('frame', {}).get('message_id', '-')}")
                        self._cursors[session_id], event_id = event_id, None
                    if self._note is not None and len(shown) >= NOTED_TOGETHER:
                        self._note(*shown)
                        shown.clear()
                    if ended:
                        return True
        finally:
            if self._note is not None and shown:
                self._note(*shown)
        return False

    def _see(self, session_id: str, item: dict[str, Any]) -> bool:
        frame: dict[str, Any] = item.get("frame") or {}
        payload: dict[str, Any] = frame.get("payload", {})
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
