"""Session keys: one function makes every key canonical, at the boundary, for every verb (R-1, R-2)."""

from __future__ import annotations

import re

from interlock.protocol.identifiers import AGENT_ID

MAIN_KEY = "main"
KEY_MAX_CHARS = 512
TOPIC = "-topic-"
"""Separates session and topic in the name of a transcript's file."""
SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""Characters allowed in a file's name, which cannot lead to another directory."""


class BadKey(ValueError):
    """Raised if a session key cannot be parsed; the text is one sentence."""


def canonical_key(text: str, default_agent: str) -> str:
    """Return `text` as the stored key: lower-case scheme and agent, `main` and a bare name under the agent (R-2).

    `main` → `agent:<default>:main`; `cron:x` and `hook:x` → under the default agent; `agent:A:…` keeps its rest
    unchanged. A stored key is its own canonical form. Raises BadKey.
    """
    key = text.strip()
    scheme, _, rest = key.partition(":")
    agent, name = default_agent, key
    if scheme.lower() == "agent":
        agent, _, name = rest.partition(":")
    written = f"agent:{canonical_agent(agent or default_agent)}:{_name(name)}"
    # Invisible characters would make two keys of what a person reads as one.
    if not key or len(written) > KEY_MAX_CHARS or " " in key or not key.isprintable():
        raise BadKey(f"a session key has 1 to {KEY_MAX_CHARS} characters without spaces or control characters")
    return written


def canonical_agent(text: str) -> str:
    """Write an agent id in its stored form. Raises BadKey."""
    agent = text.strip().lower()
    if not AGENT_ID.fullmatch(agent):
        raise BadKey(f"{text!r} is not an agent id: use a-z, 0-9, - and _, at most 64 characters")
    return agent


def run_key(agent_id: str, session_id: str) -> str:
    """Return the key of a session that a single command opened (racp section 1)."""
    return f"agent:{agent_id}:run:{session_id}"


def agent_of(key: str) -> str:
    """Read the agent of a canonical key."""
    return key.split(":", 2)[1]


def topic_of(key: str) -> str:
    """Return the topic of a canonical key; "" if it has none."""
    head, _, topic = key.rpartition(":")
    return topic if head.endswith(":topic") else ""


def transcript_name(session_id: str, topic: str = "") -> str:
    """Return the name of a session's file, with the key's topic if a file name may contain it."""
    return f"{session_id}{TOPIC}{topic}.jsonl" if SAFE_NAME.fullmatch(topic) else f"{session_id}.jsonl"


def _name(text: str) -> str:
    name = text.rstrip(":")  # An empty last part is ignored: `work:` is `work`.
    if not name or name.lower() == MAIN_KEY:
        return MAIN_KEY
    head, _, rest = name.partition(":")
    return f"{head.lower()}:{rest}" if rest else head
