"""Random bytes for ids: each is used once, and the system is called seldom."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

from interlock.engine.entropy_pool import POOL_BYTES, EntropyPool


class Source:
    """A source that knows what it gave."""

    def __init__(self) -> None:
        self._random = random.Random(1)
        self.given: list[bytes] = []

    def __call__(self, count: int, /) -> bytes:
        self.given.append(self._random.randbytes(count))
        return self.given[-1]


def test_each_byte_is_drawn_once_and_in_order() -> None:
    source = Source()
    pool = EntropyPool(source)
    drawn = [pool(16) for _ in range(2 * POOL_BYTES // 16)]
    assert b"".join(drawn) == b"".join(source.given)
    assert len(source.given) == 2


def test_a_draw_is_never_made_from_a_too_short_remainder() -> None:
    source = Source()
    pool = EntropyPool(source)
    pool(POOL_BYTES - 5)
    assert pool(10) == source.given[1][:10]
    assert len(pool(POOL_BYTES)) == POOL_BYTES
    assert len(pool(POOL_BYTES + 1)) == POOL_BYTES + 1
    assert pool(0) == b""


def test_threads_never_draw_the_same_bytes() -> None:
    pool = EntropyPool(Source())
    with ThreadPoolExecutor(8) as threads:
        drawn = list(threads.map(lambda _: pool(16), range(20_000)))
    assert len(set(drawn)) == len(drawn)
