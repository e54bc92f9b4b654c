"""Rate limits: a token bucket for each principal, each tenant, and each address with refused credentials (K-3).

The headers are those of draft-ietf-httpapi-ratelimit-headers-10: `RateLimit-Policy` states how much fits (`q`) in how
many seconds (`w`), `RateLimit` how much is left (`r`) and in how many seconds there is more (`t`).
"""

from __future__ import annotations

import ipaddress
import math
from collections import OrderedDict
from functools import lru_cache
from typing import NamedTuple

from interlock.config import RatesSection
from interlock.ports.clock import Clock
from interlock.protocol.problems import Problem
from interlock.protocol.records import Principal

MAX_BUCKETS = 10_000
"""Buckets of one kind; beyond it the least recently used one starts again, full."""
MINUTE_MS = 60_000
LIMITS_KEPT = 16
"""Limits whose policies are cached as text; a gateway has three."""
NETWORK_BITS = 64
"""An owner of one IPv6 address has its whole network: its addresses are counted together."""


class Limit(NamedTuple):
    """One policy: `burst` requests at once, and a sustained rate per minute. A rate of 0 means no limit."""

    name: str
    a_minute: int
    burst: int

    @property
    def window_s(self) -> int:
        """Seconds in which an empty bucket is full again."""
        return max(1, math.ceil(self.burst * 60 / self.a_minute)) if self.a_minute else 1


class BucketLevel(NamedTuple):
    """The rest of a bucket, and when there is one more."""

    limit: Limit
    left: int
    wait_ms: int


class Buckets:
    """The buckets of one limit, by name. Refills are computed when a bucket is read."""

    def __init__(self, limit: Limit) -> None:
        self.limit = limit
        self._levels: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def take(self, name: str, now_ms: int, *, count: int = 1) -> BucketLevel:
        """Take tokens if there are enough; `left` is below 0 if there were not, and nothing was taken."""
        level = self._level(name, now_ms)
        enough = level >= count
        level -= count if enough else 0
        self._levels.pop(name, None)
        self._levels[name] = (level, now_ms)
        if len(self._levels) > MAX_BUCKETS:
            self._levels.popitem(last=False)
        return BucketLevel(self.limit, int(level) if enough else -1, self._wait_ms(level))

    def look(self, name: str, now_ms: int) -> BucketLevel:
        """Return the level without taking."""
        level = self._level(name, now_ms)
        return BucketLevel(self.limit, int(level) if level >= 1 else -1, self._wait_ms(level))

    def __len__(self) -> int:
        return len(self._levels)

    def _level(self, name: str, now_ms: int) -> float:
        level, at_ms = self._levels.get(name, (float(self.limit.burst), now_ms))
        return min(float(self.limit.burst), level + max(0, now_ms - at_ms) * self.limit.a_minute / MINUTE_MS)

    def _wait_ms(self, level: float) -> int:
        missing = 1 - (level - math.floor(level))
        return math.ceil(missing * MINUTE_MS / self.limit.a_minute)


class Rates:
    """The rates of all callers. Raises Problem RateLimited."""

    def __init__(self, clock: Clock, section: RatesSection) -> None:
        self._clock = clock
        self._principals, self._tenants, self._refused = map(Buckets, _limits(section))

    def configure(self, section: RatesSection) -> None:
        """Apply other limits; what was taken out of a bucket stays taken."""
        for buckets, limit in zip((self._principals, self._tenants, self._refused), _limits(section), strict=True):
            buckets.limit = limit

    def take(self, principal: Principal, now_ms: int | None = None) -> dict[str, str]:
        """Count a request received at `now_ms` of the monotonic clock, or now; returns the headers of its response. A
        refused one is counted against no other bucket."""
        now = self._clock.monotonic_ms() if now_ms is None else now_ms
        own = f"{principal.tenant_id}/{principal.actor.type}:{principal.actor.id}"
        bucket_levels: list[BucketLevel] = []
        for buckets, name in ((self._principals, own), (self._tenants, principal.tenant_id)):
            if not buckets.limit.a_minute:
                continue
            bucket_level = buckets.take(name, now)
            bucket_levels.append(bucket_level)
            if bucket_level.left < 0:
                raise _limited(bucket_level, f"Too many requests of this {buckets.limit.name}.",
                               _headers(bucket_levels))
        return _headers(bucket_levels)

    def is_refusing(self, source: str) -> bool:
        """Return whether more credentials of an address were refused than `refused_a_minute`."""
        limited = bool(self._refused.limit.a_minute)
        return limited and self._refused.look(network(source), self._clock.monotonic_ms()).left < 0

    def refused(self, source: str) -> None:
        """Count a refused credential against its address. Raises Problem RateLimited instead of its refusal if there
        were too many of them; a good credential is never counted here, so none is locked out."""
        if not self._refused.limit.a_minute:
            return
        bucket_level = self._refused.take(network(source), self._clock.monotonic_ms())
        if bucket_level.left < 0:
            raise _limited(bucket_level, "Too many refused credentials came from there.", _headers([bucket_level]))


def _limits(section: RatesSection) -> tuple[Limit, Limit, Limit]:
    return (Limit("principal", section.principal_a_minute, section.principal_burst),
            Limit("tenant", section.tenant_a_minute, section.tenant_burst),
            Limit("refused", section.refused_a_minute, section.refused_a_minute))


def network(source: str) -> str:
    """Return what an address is counted as: itself, or its IPv6 network."""
    try:
        address = ipaddress.ip_address(source)
    except ValueError:
        return source
    if isinstance(address, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((address, NETWORK_BITS), strict=False))
    return source


def _limited(bucket_level: BucketLevel, sentence: str, headers: dict[str, str]) -> Problem:
    retry_s = max(1, math.ceil(bucket_level.wait_ms / 1000))
    return Problem("RateLimited", sentence, headers={**headers, "Retry-After": str(retry_s)})


def _headers(bucket_levels: list[BucketLevel]) -> dict[str, str]:
    if not bucket_levels:
        return {}
    policies, levels = list[str](), list[str]()
    for limit, left, wait_ms in bucket_levels:
        policies.append(_policy(limit))
        levels.append(f'"{limit.name}";r={max(0, left)};t={max(1, -(-wait_ms // 1000))}')
    return {"RateLimit-Policy": ", ".join(policies), "RateLimit": ", ".join(levels)}


@lru_cache(LIMITS_KEPT)
def _policy(limit: Limit) -> str:
    return f'"{limit.name}";q={limit.burst};w={limit.window_s}'
