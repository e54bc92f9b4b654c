"""Notify approvers on their phones by ntfy: one POST per approval, which opens the console's page (O-11)."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit

from interlock.channels.notice import TEST_TEXT, TEST_TITLE, TITLE, link_to, text_of
from interlock.channels.notice_post import post
from interlock.ports.channel import ApprovalNotice, Channel, NotAsked
from interlock.ports.outbound_http import Outgoing

MESSAGE_BYTES = 4_096
"""A longer message would become an attachment, which stays on the server as a file."""
REJECTED = frozenset({400, 410, 413})
"""The same message would be rejected again."""
_TOPIC = re.compile(r"[-_A-Za-z0-9]{1,64}")


class Topic(NamedTuple):
    """The destination of notices: a topic's URL, the access token if it needs one, and the console's address, if other
    machines can reach it. `priority` is 1 (min) to 5 (max)."""

    url: str
    token: str | None
    priority: int
    details: bool
    public_url: str | None


class NtfyChannel(Channel):
    """Publishes to one topic. An approval sent again replaces its first notice, by its sequence id."""

    def __init__(self, topic: Topic, outgoing: Outgoing) -> None:
        self._topic = topic
        self._outgoing = outgoing

    async def ask(self, delivery_id: str, at_ms: int, asking: ApprovalNotice) -> None:
        """Publish a notice. Raises NotAsked."""
        link = link_to(self._topic.public_url, asking.approval_id)
        text = text_of(asking, link, details=self._topic.details, max_bytes=MESSAGE_BYTES)
        headers = {"title": TITLE, "priority": str(self._topic.priority), "tags": "raised_hand",
                   "x-sequence-id": asking.approval_id}
        await self._publish(text, headers if link is None else {**headers, "click": link})

    async def test(self, delivery_id: str, at_ms: int) -> None:
        """Publish a notice that names no approval. Raises NotAsked."""
        await self._publish(TEST_TEXT, {"title": TEST_TITLE, "priority": str(self._topic.priority)})

    async def _publish(self, text: str, headers: dict[str, str]) -> None:
        headers["content-type"] = "text/plain; charset=utf-8"
        if self._topic.token is not None:
            headers["authorization"] = f"Bearer {self._topic.token}"
        reply = await post(self._outgoing, self._topic.url, headers, text.encode())
        if reply.status in (401, 403):
            raise NotAsked(f"ntfy answered with status {reply.status}: it needs a token that may publish to the topic")
        if not 200 <= reply.status < 300:
            raise NotAsked(f"ntfy answered with status {reply.status}", final=reply.status in REJECTED)


def check_topic(url: str) -> None:
    """Check that a URL names a topic and nothing else. Raises ValueError with one sentence."""
    parts = urlsplit(url)
    if parts.query or parts.fragment or parts.username is not None or _TOPIC.fullmatch(parts.path[1:]) is None:
        raise ValueError("url: a topic's address, such as https://ntfy.sh/TOPIC, with nothing after the topic; its "
                         "name has letters, digits, - and _, at most 64")


def read_token(text: str) -> str:
    """Read an access token: one line of visible ASCII. Raises ValueError with one sentence."""
    token = text.strip()
    if not token or not all("!" <= char <= "~" for char in token):
        raise ValueError("is not an access token, which is one word without spaces")
    return token
