"""The log of a link's states: a failure that repeats is logged once, with its attempts when it ends."""

from __future__ import annotations

from typing import Any

import structlog

from interlock.runner.link.link import LinkState

log = structlog.get_logger()


class LinkLog:
    """Logs the states of the link to one gateway."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._last: LinkState | None = None
        self._unlogged = 0

    def note(self, state: LinkState, attached: str) -> None:
        """Log a state, unless it repeats the last one: on loopback a runner dials several times a second. `attached` is
        how many of the runner's links are attached."""
        if state == self._last and state.kind == "detached":
            self._unlogged += 1
            return
        fields: dict[str, Any] = {"repeated": self._unlogged} if self._unlogged else {}
        if state.error_code:
            fields["error_code"] = state.error_code
        log.info("link", state=state.kind, sentence=state.sentence, gateway_id=state.gateway_id, url=self._url,
                 attached=attached, **fields)
        self._last, self._unlogged = state, 0
