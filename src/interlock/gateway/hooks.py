"""Hooks: other programs send a delivery, authenticated by a secret, and its text is sent to an agent once (R-4)."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from typing import Literal, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from interlock.channels.webhook import signature
from interlock.engine.chats import ChatInbox, SystemMessage
from interlock.ports.clock import Clock, Entropy
from interlock.ports.ledger import Ledger, LedgerWrite, PutIdempotency
from interlock.protocol.identifiers import uuid4
from interlock.protocol.inbound import Received
from interlock.protocol.problems import Problem
from interlock.protocol.records import IdempotencyRecord, Principal
from interlock.protocol.resources import Actor
from interlock.session.chat.chat_route import hook_key
from interlock.session.chat.hook_text import hook_text
from interlock.session.keys import canonical_key

SAME_MS = 10 * 60 * 1000
"""A body that is repeated within this time is the same delivery, if the sender does not number deliveries."""
STAMP_MS = 5 * 60 * 1000
"""Maximum difference between a Standard Webhook's time and the gateway's clock."""
DELIVERY_CHARS = 200
RETRY_S = 60
"""`Retry-After` of a delivery that could not start: a runner may be connected by then."""

Auth = Literal["hmac", "standard", "token"]


class ConfiguredHook(NamedTuple):
    """A hook of the config with its secret."""

    name: str
    tenant_id: str
    agent_id: str
    auth: Auth
    secret: bytes
    message: str
    key: str | None = None
    workspace: str | None = None
    signature_header: str = "x-hub-signature-256"
    token_header: str | None = None
    delivery_header: str | None = None


class Hooks:
    """The receiver of deliveries. `hooks` is by name, and may be replaced at run time."""

    def __init__(self, hooks: Mapping[str, ConfiguredHook], ledger: Ledger, chats: ChatInbox, clock: Clock,
                 entropy: Entropy, line: Clock | None = None) -> None:
        """Create the entry point. `clock` is compared with the senders' times; `line`, which is unaffected by jumps of
        it, with earlier deliveries."""
        self._hooks = hooks
        self._ledger = ledger
        self._chats = chats
        self._clock = clock
        self._line = line or clock
        self._entropy = entropy
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def configure(self, hooks: Mapping[str, ConfiguredHook]) -> None:
        """Apply other hooks, by name."""
        self._hooks = hooks

    def known(self, name: str, headers: Mapping[str, str], body: bytes) -> ConfiguredHook | None:
        """Return the hook if the delivery is authenticated by its secret; None also if there is no such hook, so that
        guessed names reveal nothing."""
        hook = self._hooks.get(name)
        return hook if hook is not None and proves(hook, headers, body, self._clock.now_ms()) else None

    def principal(self, hook: ConfiguredHook) -> Principal:
        """Return the principal of a hook's commands."""
        return Principal(tenant_id=hook.tenant_id, actor=Actor(type="agent", id=f"hook:{hook.name}"), role="operator",
                         key_id="")

    async def take(self, hook: ConfiguredHook, headers: Mapping[str, str], body: bytes, *, guess: bool = False
                   ) -> tuple[IdempotencyRecord, bool]:
        """Submit a delivery to its agent, once; returns the response, and whether it is a repeated one. Raises Problem;
        Unavailable if it cannot start now, and then nothing is stored: the sender must repeat it. With `guess` it
        raises Elsewhere if the runner is known to be attached to another gateway."""
        delivery = _delivery(hook, headers)
        fingerprint = hashlib.sha256(body).hexdigest()
        now_ms = self._line.now_ms()
        # Unnumbered bodies are the same within ten minutes: those of this span of ten, and the later ones of the last.
        spans = [""] if delivery else [str(now_ms // SAME_MS), str(now_ms // SAME_MS - 1)]
        scopes = [_scope(hook, delivery or fingerprint, span) for span in spans]
        turn = self._turns.setdefault(f"{hook.name}/{delivery or fingerprint}", asyncio.Lock())
        async with turn:
            for scope in scopes:
                before = await self._ledger.idempotency(scope, hook.tenant_id)
                if before is not None and (delivery or now_ms - before.created_ms < SAME_MS):
                    if before.fingerprint != fingerprint:
                        raise Problem("IdempotencyKeyReused", f"The delivery {delivery} came before with another body.")
                    return before, True
            try:
                message = self._message(hook, delivery, body)
                if guess:
                    await self._chats.seek(self.principal(hook), message)
                return await self._submit(hook, message, scopes[0], fingerprint), False
            except Problem as problem:
                if problem.code != "Conflict":
                    raise
                # No runner is attached yet, or its session is elsewhere: a 4xx would make the sender give up.
                raise Problem("Unavailable", problem.detail, hint=problem.hint,
                              headers={"Retry-After": str(RETRY_S)}) from None

    def _message(self, hook: ConfiguredHook, delivery: str, body: bytes) -> SystemMessage:
        key = (canonical_key(hook.key, hook.agent_id) if hook.key is not None
               else hook_key(hook.agent_id, uuid4(self._entropy(16))))
        return SystemMessage(key, hook.agent_id, hook_text(hook.message, hook.name, delivery, body), "hook",
                             hook.workspace)

    async def _submit(self, hook: ConfiguredHook, message: SystemMessage, scope: str,
                    fingerprint: str) -> IdempotencyRecord:
        kept: list[IdempotencyRecord] = []

        def writes(received: Received) -> list[LedgerWrite]:
            location = {"Location": f"/v1/commands/{received.command_id}"} if received.command_id else {}
            kept.append(IdempotencyRecord(tenant_id=hook.tenant_id, scope=scope,
                                          fingerprint=fingerprint, status=202, headers=location,
                                          body=msgspec.json.encode(received), created_ms=self._line.now_ms(),
                                          command_id=received.command_id))
            return [PutIdempotency(kept[-1])]

        await self._chats.system(self.principal(hook), message, writes)
        return kept[-1]


def _delivery(hook: ConfiguredHook, headers: Mapping[str, str]) -> str:
    """Return the sender's own number of a delivery; "" if it has none. Raises Problem."""
    named = hook.delivery_header or ("webhook-id" if hook.auth == "standard" else "")
    number = headers.get(named.lower(), "").strip() if named else ""
    if len(number) > DELIVERY_CHARS or not number.isprintable():
        raise Problem("InvalidPayload", f"The header {named} has 1 to {DELIVERY_CHARS} visible characters.")
    return number


def _scope(hook: ConfiguredHook, name: str, span: str) -> str:
    named = msgspec.json.encode(["hook", hook.tenant_id, hook.name, name, span])
    return hashlib.sha256(named).hexdigest()


def proves(hook: ConfiguredHook, headers: Mapping[str, str], body: bytes, now_ms: int) -> bool:
    """Return whether a delivery is authenticated by the hook's secret. `headers` by lower-case name, without duplicated
    ones."""
    if hook.auth == "token":
        bearer = headers.get("authorization", "")
        shown = (headers.get(hook.token_header.lower(), "") if hook.token_header is not None
                 else bearer[7:].strip() if bearer[:7].lower() == "bearer " else "")
        return _same(shown.encode(), hook.secret)
    if hook.auth == "standard":
        return _standard(hook.secret, headers, body, now_ms)
    signature = headers.get(hook.signature_header.lower(), "").strip().removeprefix("sha256=")
    return _same(_bytes(signature), hmac.digest(hook.secret, body, hashlib.sha256))


def _standard(secret: bytes, headers: Mapping[str, str], body: bytes, now_ms: int) -> bool:
    number, seconds = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not number or not seconds.isdecimal() or abs(int(seconds[:15]) * 1000 - now_ms) > STAMP_MS:
        return False
    wanted = signature(secret, number, seconds, body).encode()
    return any(_same(one.encode(), wanted) for one in headers.get("webhook-signature", "").split(" "))


def _same(received: bytes, wanted: bytes) -> bool:
    # Hashed first, so that the duration reveals neither length nor content.
    return bool(received) and hmac.compare_digest(hashlib.sha256(received).digest(), hashlib.sha256(wanted).digest())


def _bytes(text: str) -> bytes:
    """Decode a signature, written in hex or base64; b"" for neither."""
    try:
        return bytes.fromhex(text) if len(text) == 64 else base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return b""
