"""Pairing of runners by a one-time code, rotation of their tokens, and revocation (L-3)."""

from __future__ import annotations

import base64
import hashlib
import math
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import msgspec

from interlock.command.audit.register import bound
from interlock.engine.lanes.rows import RowAudit
from interlock.gateway.access.credentials import digest
from interlock.gateway.access.exclusive_changes import ExclusiveChanges, Lanes
from interlock.ports.clock import Clock, Entropy
from interlock.ports.entities import PAIRINGS
from interlock.ports.ledger import AuditAppend, Expire, Ledger, Put, PutIdempotency, Redeem, Spent, WriteBatch
from interlock.ports.signals import Signal
from interlock.protocol.access import is_current
from interlock.protocol.clock import iso
from interlock.protocol.identifiers import crockford, read_crockford, ulid
from interlock.protocol.problems import Problem
from interlock.protocol.records import AuditDraft, IdempotencyRecord, PairingRecord, Principal, RunnerRecord
from interlock.protocol.resources import PairingCode, RunnerToken

TOKEN_PREFIX = "ilr_"
TOKEN_BYTES = 32
CODE_CHARS = 10
"""50 bits. With TRIES_TOTAL and CODE_LIFE_MS a guess of one of CODES_OPEN codes succeeds once in 10^9 tries of a whole
code's life."""
CODE_LIFE_MS = 10 * 60 * 1000
CODES_OPEN = 100
"""Valid codes of a tenant at one time; a further one is answered 429 QuotaExceeded."""
TRIES_WINDOW_MS = 60_000
TRIES_SOURCE = 10
"""Wrong codes from one address within TRIES_WINDOW_MS; beyond it that address is answered 429 RateLimited, unread."""
TRIES_TOTAL = 600
"""Wrong codes from all addresses within TRIES_WINDOW_MS; beyond it every address is."""
SOURCES = 4_096
"""Addresses that are counted separately; beyond it the least recently used one is reset."""

Remember = Callable[[Any], IdempotencyRecord]
Drop = Callable[[str, str], None]
"""Closes the live link of a runner, with a sentence."""


class Tries:
    """Counts wrong codes, so that guessing is slow for each address, and for all together."""

    def __init__(self) -> None:
        self._all: deque[int] = deque(maxlen=TRIES_TOTAL)
        self._sources: OrderedDict[str, deque[int]] = OrderedDict()

    def wait_ms(self, source: str, now_ms: int) -> int:
        """Return how long an address must wait before its next try; 0 if it need not."""
        full = [times for times in (self._sources.get(source, deque[int]()), self._all) if len(times) == times.maxlen]
        return max(0, *(times[0] + TRIES_WINDOW_MS - now_ms for times in full), 0)

    def wrong(self, source: str, now_ms: int) -> None:
        """Count a wrong code."""
        own = self._sources.pop(source, None) or deque[int](maxlen=TRIES_SOURCE)
        own.append(now_ms)
        self._all.append(now_ms)
        self._sources[source] = own
        if len(self._sources) > SOURCES:
            self._sources.popitem(last=False)


class Pairings:
    """One-time codes and runners' tokens. Everything returned is durable and audited; refusals are `Problem`s."""

    def __init__(self, ledger: Ledger, clock: Clock, entropy: Entropy, drop: Drop, own_runner: str = "") -> None:
        """Create the service; `own_runner` is paired by a token file at every start, so it gets no other token here
        (G-3)."""
        self._ledger = ledger
        self._clock = clock
        self._entropy = entropy
        self._drop = drop
        self.on_shut_out = Signal[[str, str]]()
        """Sent with a runner's id and the reason, so that other gateways close its link."""
        self._own_runner = own_runner
        self._rows = RowAudit(ledger, clock)
        self._tries = Tries()
        self._changes = ExclusiveChanges(ledger, "runners")

    async def offer(self, principal: Principal, device_name: str, remember: Remember) -> PairingCode:
        """Create a code. Raises Problem QuotaExceeded."""
        now = self._clock.now_ms()
        tenant = principal.tenant_id
        if await self._ledger.pairings(tenant, now) >= CODES_OPEN:
            raise Problem("QuotaExceeded", f"{CODES_OPEN} pairing codes are waiting to be used already.",
                          hint="Use one, or wait until the oldest is over: 10 minutes at most.")
        code = crockford(self._entropy(8), CODE_CHARS)
        record = PairingRecord(code_sha256=_hash(code), tenant_id=tenant, by=principal.who, created_ms=now,
                               expires_ms=now + CODE_LIFE_MS, device_name=device_name)
        shown = PairingCode(code=f"{code[:5]}-{code[5:]}", expires_at=iso(record.expires_ms),
                            device_name=device_name or None)
        audit = self._draft(tenant, principal.who, "pair", {"step": "code", **bound(record)}, device_name)
        await self._ledger.commit(WriteBatch([Expire(PAIRINGS, now), Put(record), AuditAppend(audit),
                                              PutIdempotency(remember(shown))]))
        return shown

    async def pair(self, code: str, device_name: str, source: str) -> RunnerToken:
        """Exchange a code for a runner's token. `device_name` is the runner's name, unless the code was created with
        one (Y-10). Raises Problem Unauthorized for every fault of the code, and RateLimited."""
        wait = self._tries.wait_ms(source, self._clock.monotonic_ms())
        if wait:
            raise Problem("RateLimited", "Too many wrong pairing codes came from there.",
                          headers={"Retry-After": str(math.ceil(wait / 1000))})
        hashed = _hash(read_crockford(code))
        record = await self._ledger.pairing(hashed)
        now = self._clock.now_ms()
        if record is not None:
            record = await self._rows.genuine(record.tenant_id, record, lambda: self._ledger.pairing(hashed))
        if record is None or record.code_sha256 != hashed or not is_current(
                record.created_ms, record.expires_ms, now):
            raise self._wrong(source)
        token = self._token()
        runner = RunnerRecord(
            runner_id="rnr_" + ulid(now, self._entropy(10)), tenant_id=record.tenant_id, token_sha256=digest(token),
            device_name=record.device_name or device_name, created_ms=now, last_seen_ms=now,
        )
        audit = self._draft(record.tenant_id, record.by, "pair",
                            {"step": "paired", "runner_id": runner.runner_id, **bound(runner)}, runner.device_name)
        try:
            await self._ledger.commit(WriteBatch([Redeem(PAIRINGS, record.tenant_id, hashed, now), Put(runner),
                                                  AuditAppend(audit)]))
        except Spent:
            raise self._wrong(source) from None
        return RunnerToken(runner_id=runner.runner_id, token=token)

    def _shut_out(self, runner_id: str, sentence: str) -> None:
        self._drop(runner_id, sentence)
        self.on_shut_out(runner_id, sentence)

    async def rotate(self, principal: Principal, runner_id: str, remember: Remember) -> RunnerToken:
        """Replace a runner's token; the old one is refused from now on, and its link closed. Raises Problem."""
        paired = await self._changes.make(lambda lanes: self._rotate(principal, runner_id, remember, lanes))
        self._shut_out(runner_id, "the runner's token was changed")
        return paired

    async def _rotate(self, principal: Principal, runner_id: str, remember: Remember, lanes: Lanes) -> RunnerToken:
        record = await self._runner(principal, runner_id)
        if record.revoked:
            raise Problem("Conflict", f"The runner {runner_id} is revoked.", hint="Pair it again with a new code.")
        if runner_id == self._own_runner:
            raise Problem("Conflict", f"The runner {runner_id} has the token in this gateway's state directory.",
                          hint="End `interlock up`, remove runner/token there, and start it again.")
        token = self._token()
        paired = RunnerToken(runner_id=runner_id, token=token)
        found = await self._rows.genuine(record.tenant_id, record,
                                         lambda: self._ledger.runner(runner_id, record.tenant_id))
        if found is None:
            raise Problem("Conflict", f"The stored row of the runner {runner_id} is not the one in the audit "
                          "record of its last change, so the runner is refused.", hint="Revoke it, and pair again.")
        changed = msgspec.structs.replace(record, token_sha256=digest(token))
        audit = self._draft(record.tenant_id, principal.who, "pair",
                            {"step": "rotated", "runner_id": runner_id, **bound(changed)})
        await self._ledger.commit(WriteBatch([Put(changed), AuditAppend(audit), PutIdempotency(remember(paired))],
                                             lanes))
        return paired

    async def revoke(self, principal: Principal, runner_id: str, remember: Callable[[RunnerRecord], IdempotencyRecord]
                     ) -> RunnerRecord:
        """Revoke a runner's token permanently and close its link. A revoked one stays so. Raises Problem."""
        async def change(lanes: Lanes) -> RunnerRecord:
            record = await self._runner(principal, runner_id)
            revoked = msgspec.structs.replace(record, revoked=True)
            audit = self._draft(record.tenant_id, principal.who, "revoke",
                                {"runner_id": runner_id, **bound(revoked)})
            changes = [] if record.revoked else [Put(revoked), AuditAppend(audit)]
            await self._ledger.commit(WriteBatch([*changes, PutIdempotency(remember(revoked))], lanes))
            return revoked

        revoked = await self._changes.make(change)
        self._shut_out(runner_id, "the runner was revoked")
        return revoked

    async def take_own(self, runner_id: str, tenant_id: str, token: str, device_name: str) -> bool:
        """Pair the gateway's own runner by the token in its file; False if that token was revoked (G-3)."""
        now = self._clock.now_ms()

        async def change(lanes: Lanes) -> bool:
            known = await self._ledger.runner(runner_id, tenant_id)
            if known is not None and known.token_sha256 == digest(token):
                return not known.revoked
            record = RunnerRecord(runner_id=runner_id, tenant_id=tenant_id, token_sha256=digest(token),
                                  device_name=device_name, created_ms=known.created_ms if known else now,
                                  last_seen_ms=known.last_seen_ms if known else now)
            audit = self._draft(tenant_id, {"id": "gateway", "role": "system"}, "pair",
                                {"step": "paired", "runner_id": runner_id, **bound(record)}, device_name)
            await self._ledger.commit(WriteBatch([Put(record), AuditAppend(audit)], lanes))
            return True

        return await self._changes.make(change)

    async def _runner(self, principal: Principal, runner_id: str) -> RunnerRecord:
        record = await self._ledger.runner(runner_id, principal.tenant_id)
        if record is None:
            raise Problem("NotFound", f"There is no runner {runner_id}.")
        return record

    def _wrong(self, source: str) -> Problem:
        self._tries.wrong(source, self._clock.monotonic_ms())
        return Problem("Unauthorized", "This pairing code is not known, was used, or is over.",
                       hint="Ask for another with `interlock runners code` at the gateway.")

    def _token(self) -> str:
        return TOKEN_PREFIX + base64.urlsafe_b64encode(self._entropy(TOKEN_BYTES)).rstrip(b"=").decode()

    def _draft(self, tenant_id: str, who: dict[str, str], action: str, meta: dict[str, Any], device_name: str = ""
               ) -> AuditDraft:
        return AuditDraft(tenant_id=tenant_id, at=iso(self._clock.now_ms()), who=who, action=action, meta=meta,
                          personal={"device_name": device_name} if device_name else {})


def _hash(code: str) -> str:
    return hashlib.sha256(b"pairing code\n" + code.encode()).hexdigest()
