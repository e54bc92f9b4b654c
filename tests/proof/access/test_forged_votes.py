"""Forged votes of every kind, in a size that the ordinary suite can bear (S3)."""

from __future__ import annotations

import pytest

from proof.access.forged_votes import trial


@pytest.mark.req("P-3", "P-4", "K-1")
@pytest.mark.anyio
async def test_no_forged_vote_is_counted() -> None:
    figures = await trial(seed=6, votes=150)
    assert (figures["wrong"], figures["counted"]) == ([], 0)
    assert figures["honest"] > 0
