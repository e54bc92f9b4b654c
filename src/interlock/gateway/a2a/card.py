"""The agent card: its public part, and the part for authenticated clients (O-9). Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import msgspec

from interlock.gateway.a2a.wire import PROTOCOL_VERSION
from interlock.protocol.resources import Node

PUSH_SIGNATURES = "https://www.standardwebhooks.com/"
"""The extension in which the card declares how push notifications are signed."""
CARD_MAX_AGE_S = 300
"""How long a client may cache a card."""


def card_of(agent_id: str, origin: str, runners: Sequence[Node] | None = None, push_key: str | None = None
            ) -> dict[str, Any]:
    """Return the card of an agent. Without `runners` it is the public one, which states only what its URL shows: it is
    the same whether the agent exists or not. `push_key` verifies push notifications; None if there are none."""
    url = f"{origin}/a2a/{agent_id}"
    hosts = "" if runners is None else f" It runs on {', '.join(sorted(one.device_name for one in runners))}."
    return {
        "name": agent_id,
        "description": f"The coding agent {agent_id} behind an Interlock gateway. Its tools run under policy, people's "
                       f"approval and an audit log; a task that waits for an approval is AUTH_REQUIRED.{hosts}",
        "version": version("interlock"),
        "supportedInterfaces": [
            {"url": url, "protocolBinding": binding, "protocolVersion": PROTOCOL_VERSION}
            for binding in ("JSONRPC", "HTTP+JSON")],
        "capabilities": {"streaming": True, "pushNotifications": push_key is not None, "extendedAgentCard": True,
                         **({"extensions": [_signed(push_key)]} if push_key is not None else {})},
        "securitySchemes": {"key": {"httpAuthSecurityScheme": {
            "scheme": "Bearer", "description": "A key of the gateway, made with `interlock keys create`."}}},
        "securityRequirements": [{"schemes": {"key": {"list": []}}}],
        "defaultInputModes": ["text/plain", "application/json", "image/*", "audio/*"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "prompt", "name": "Work on a prompt",
                    "description": "Reads and changes files and runs commands in a workspace, as its prompt asks.",
                    "tags": ["coding", "shell"]}],
    }


def _signed(push_key: str) -> dict[str, Any]:
    return {"uri": PUSH_SIGNATURES, "required": False, "params": {"publicKey": push_key},
            "description": "Push notifications carry a signature of Standard Webhooks (v1a, Ed25519) by this key."}


def etag_of(card: dict[str, Any]) -> str:
    """Return the entity tag of a card."""
    return f'"{hashlib.sha256(msgspec.json.encode(card)).hexdigest()[:32]}"'
