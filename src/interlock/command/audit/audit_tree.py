"""The Merkle tree over an audit log (RFC 6962): roots, growth, and proofs of inclusion and consistency (U-2).

A proof needs only O(log n) hashes, but which ones depends on where they are stored. So the computations are generators:
they yield the spans of hashes that they need, all at once, are sent them, and return the result. `answer` drives them
from memory, a gateway from its ledger.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple, TypeVar

TILE_BITS = 8
"""Stored are the leaves, and the roots of complete subtrees of 2^8, 2^16 … leaves: 1/255 of the tree's nodes."""
HASH_BYTES = 32
EMPTY_ROOT = hashlib.sha256(b"").digest()

T = TypeVar("T")


class SubtreeHashes(NamedTuple):
    """Hashes of complete subtrees of 2^level leaves: those numbered `start` up to, but excluding, `end`. `level` is a
    multiple of TILE_BITS, and a span has less than 2^TILE_BITS hashes."""

    level: int
    start: int
    end: int


Hashes = Sequence[Sequence[bytes]]
"""The requested hashes, a sequence for each span."""
Wanted = Generator[Sequence[SubtreeHashes], Hashes, T]
"""A computation that requests all the spans of hashes that it needs at once, so that they are read once."""
Piece = tuple[int, int]
"""The leaves from one up to, but excluding, another: a subtree of the tree's own."""


class Grown(NamedTuple):
    """A complete subtree of 2^level leaves that a leaf has completed, the `place`-th of its level."""

    level: int
    place: int
    hash: bytes


def leaf(body: bytes) -> bytes:
    """Hash a record's bytes as a leaf."""
    return hashlib.sha256(b"\x00" + body).digest()


def node(left: bytes, right: bytes) -> bytes:
    """Hash two subtrees into their parent."""
    return hashlib.sha256(b"\x01" + left + right).digest()


class Frontier:
    """The roots of the complete subtrees that form a tree of `size` leaves, largest first: all that its growth needs.

    There are as many as `size` has bits set; one leaf more costs one hash on average.
    """

    def __init__(self, size: int = 0, peaks: bytes = b"") -> None:
        self.size = size
        self._peaks = [peaks[i : i + HASH_BYTES] for i in range(0, len(peaks), HASH_BYTES)]
        if len(self._peaks) != size.bit_count():
            raise ValueError(f"A tree of {size} leaves has {size.bit_count()} peaks, not {len(self._peaks)}.")

    @property
    def peaks(self) -> bytes:
        """Return the peaks as they are stored, one after the other."""
        return b"".join(self._peaks)

    def grow(self, hash_: bytes) -> list[Grown]:
        """Add a leaf; returns the complete subtrees to store, lowest first."""
        grown: list[Grown] = []
        level, peaks = 0, self._peaks
        carried = self.size
        while carried & 1:
            hash_ = hashlib.sha256(b"\x01" + peaks.pop() + hash_).digest()
            carried >>= 1
            level += 1
            if not level % TILE_BITS:
                grown.append(Grown(level, carried, hash_))
        peaks.append(hash_)
        self.size += 1
        return grown

    def root(self) -> bytes:
        """Return the tree's root."""
        if not self._peaks:
            return EMPTY_ROOT
        root = self._peaks[-1]
        for peak in reversed(self._peaks[:-1]):
            root = node(peak, root)
        return root


def root_of(hashes: Sequence[bytes]) -> bytes:
    """Return the root over leaves, or over complete subtrees of one size of which only the last may be smaller."""
    if not hashes:
        return EMPTY_ROOT
    # Pairs are combined; an unpaired last one moves up unchanged.
    while len(hashes) > 1:
        pairs = zip(hashes[::2], hashes[1::2], strict=False)
        above = [hashlib.sha256(b"\x01" + left + right).digest() for left, right in pairs]
        hashes = above if len(hashes) % 2 == 0 else [*above, hashes[-1]]
    return hashes[0]


def subtree(start: int, end: int) -> Wanted[bytes]:
    """Compute the root over the leaves from `start` up to, but excluding, `end`, one of the tree's own subtrees."""
    return (yield from _roots([(start, end)]))[0]


def inclusion(index: int, size: int) -> Wanted[list[bytes]]:
    """Compute the proof that leaf `index` (from 0) is in the tree of `size` leaves (RFC 6962, 2.1.1)."""
    return (yield from _roots(_path(index, 0, size)))


def consistency(first: int, second: int) -> Wanted[list[bytes]]:
    """Compute the proof that the tree of `first` leaves is the beginning of that of `second` (RFC 6962, 2.1.2)."""
    if not 0 < first < second:
        return []
    return (yield from _roots(_subproof(first, 0, second, known=True)))


def beside(spans: Sequence[SubtreeHashes]) -> list[SubtreeHashes]:
    """Return a minimal list of spans that contains these: of one level, those that overlap or have a gap of at most one
    hash are read together."""
    found: list[SubtreeHashes] = []
    for span in sorted(spans):
        last = found[-1] if found else None
        if last is not None and last.level == span.level and span.start <= last.end + 1:
            found[-1] = last._replace(end=max(last.end, span.end))
        else:
            found.append(span)
    return found


def cut(spans: Sequence[SubtreeHashes], read: Sequence[SubtreeHashes], hashes: Hashes) -> list[Sequence[bytes]]:
    """Return the hashes of each span, from what was read for `beside`; fewer if the log is shorter."""
    taken: list[Sequence[bytes]] = []
    for span in spans:
        place = next(at for at, one in enumerate(read)
                     if one.level == span.level and one.start <= span.start and span.end <= one.end)
        first = read[place].start
        taken.append(hashes[place][span.start - first : span.end - first])
    return taken


def _roots(pieces: Sequence[Piece]) -> Wanted[list[bytes]]:
    """Compute the root of each piece."""
    spans = [_spans(*piece) for piece in pieces]
    hashes = iter((yield [span for each in spans for span in each]))
    return [_folded([next(hashes) for _ in each]) for each in spans]


def _spans(start: int, end: int) -> list[SubtreeHashes]:
    """Return the stored complete subtrees that form a piece, largest first."""
    spans: list[SubtreeHashes] = []
    while start < end:
        level = ((end - start).bit_length() - 1) // TILE_BITS * TILE_BITS
        whole, first = (end - start) >> level, start >> level
        spans.append(SubtreeHashes(level, first, first + whole))
        start += whole << level
    return spans


def _folded(hashes: Hashes) -> bytes:
    rest: list[bytes] = []
    for each in reversed(hashes):
        rest = [root_of([*each, *rest])]
    return rest[0] if rest else EMPTY_ROOT


def _path(index: int, start: int, end: int) -> list[Piece]:
    if end - start == 1:
        return []
    middle = start + _split(end - start)
    if index < middle:
        return [*_path(index, start, middle), (middle, end)]
    return [*_path(index, middle, end), (start, middle)]


def _subproof(first: int, start: int, end: int, *, known: bool) -> list[Piece]:
    if first == end:
        return [] if known else [(start, end)]
    middle = start + _split(end - start)
    if first <= middle:
        return [*_subproof(first, start, middle, known=known), (middle, end)]
    return [*_subproof(first, middle, end, known=False), (start, middle)]


def _split(count: int) -> int:
    """Return the largest power of two below `count`."""
    return 1 << ((count - 1).bit_length() - 1)


def answer(wanted: Wanted[T], read: Callable[[SubtreeHashes], Sequence[bytes]]) -> T:
    """Drive a computation with hashes in memory."""
    try:
        spans = next(wanted)
        while True:
            spans = wanted.send([read(span) for span in spans])
    except StopIteration as done:
        return done.value


def includes(leaf_hash: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Check a proof of inclusion (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    place, last, hash_ = index, size - 1, leaf_hash
    for sibling in proof:
        if last == 0:
            return False
        if place & 1 or place == last:
            hash_ = node(sibling, hash_)
            while not place & 1 and place:
                place >>= 1
                last >>= 1
        else:
            hash_ = node(hash_, sibling)
        place >>= 1
        last >>= 1
    return last == 0 and hash_ == root


def continues(first: int, first_root: bytes, second: int, second_root: bytes, proof: Sequence[bytes]) -> bool:
    """Check a proof of consistency (RFC 9162, 2.1.4.2); an empty log is a prefix of every log."""
    if first == second:
        return not proof and first_root == second_root
    if first == 0:
        return not proof and first_root == EMPTY_ROOT
    if not 0 < first < second or not proof:
        return False
    path = list(proof) if first & (first - 1) else [first_root, *proof]
    place, last = first - 1, second - 1
    while place & 1:
        place >>= 1
        last >>= 1
    old = new = path[0]
    for sibling in path[1:]:
        if last == 0:
            return False
        if place & 1 or place == last:
            old, new = node(sibling, old), node(sibling, new)
            while not place & 1 and place:
                place >>= 1
                last >>= 1
        else:
            new = node(new, sibling)
        place >>= 1
        last >>= 1
    return last == 0 and old == first_root and new == second_root
