"""The proofs A1, A2 and A3 in a size that fits the ordinary suite."""

from __future__ import annotations

import pytest

from proof.audit.completeness import complete
from proof.audit.interoperability import interop
from proof.audit.log_tampering import tamper


@pytest.mark.req("U-5")
def test_every_mutation_is_found_by_both_verifiers_without_false_alarms() -> None:
    counted = tamper(seed=4, rounds=42)
    assert (counted["found"], counted["false_alarms"], counted["disagreements"]) == (42, 0, 0)
    assert len({kind.split(" → ")[0] for kind in counted["by_kind"]}) >= 14


@pytest.mark.req("U-1")
@pytest.mark.anyio
async def test_every_transition_has_exactly_one_record() -> None:
    counted = await complete(seed=4, rounds=200)
    assert counted["wrong"] == []
    assert counted["transitions"] > 100


@pytest.mark.req("U-2", "U-3")
def test_written_proofs_are_read_by_other_verifiers() -> None:
    assert interop(seed=4, rounds=60) == {"rounds": 60, "vectors": 0, "json": 0, "trees": 0, "notes": 0}
