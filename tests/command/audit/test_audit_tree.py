"""Proofs out of hashes that are read side by side: as few reads as there are places to read at, and the same proof."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.command.audit.audit_tree import (
    SubtreeHashes,
    answer,
    beside,
    consistency,
    continues,
    cut,
    includes,
    inclusion,
    root_of,
    subtree,
)

LEAVES = [hashlib.sha256(b"%d" % number).digest() for number in range(1_500)]


def stored(span: SubtreeHashes) -> list[bytes]:
    size = 1 << span.level
    return [root_of(LEAVES[at * size : (at + 1) * size]) for at in range(span.start, span.end)]


@pytest.mark.req("U-2")
@given(st.integers(1, len(LEAVES)), st.data())
def test_parallel_reads_give_the_same_proof(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    reads: list[list[SubtreeHashes]] = []

    def read_all(spans: Sequence[SubtreeHashes]) -> list[Sequence[bytes]]:
        reads.append(beside(spans))
        return cut(spans, reads[-1], [stored(span) for span in reads[-1]])

    wanted = inclusion(index, size)
    try:
        spans = next(wanted)
        while True:
            spans = wanted.send(read_all(spans))
    except StopIteration as done:
        proof: list[bytes] = done.value
    root = root_of(LEAVES[:size])
    assert proof == answer(inclusion(index, size), stored)
    assert includes(LEAVES[index], index, size, proof, root)
    # Once, and at no more places of each level than the leaf's own neighbourhood and the tree's right edge.
    assert len(reads) == 1
    assert len(reads[0]) <= 4


@pytest.mark.req("U-2")
@given(st.integers(1, len(LEAVES)), st.integers(1, len(LEAVES)))
def test_a_smaller_tree_is_proved_to_be_the_beginning_of_a_larger_one(one: int, other: int) -> None:
    first, second = sorted((one, other))
    roots = [answer(subtree(0, size), stored) for size in (first, second)]
    assert roots == [root_of(LEAVES[:first]), root_of(LEAVES[:second])]
    assert continues(first, roots[0], second, roots[1], answer(consistency(first, second), stored))
