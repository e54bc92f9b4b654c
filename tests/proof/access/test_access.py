"""The proofs of tenants, hostile input and secrets, in a size that the ordinary suite can bear."""

from __future__ import annotations

import random

import pytest

from proof.access import hostile_requests, secret_canaries, tenant_isolation

pytestmark = pytest.mark.anyio


@pytest.mark.req("K-1", "F-1")
async def test_a_role_has_its_declared_rights_in_its_own_tenant_and_sees_no_other() -> None:
    trial = tenant_isolation.Trial()
    await trial.run()
    assert trial.leaks == []
    assert trial.seen_by_rival > 40
    assert trial.asked > 1_400
    assert trial.by_role > 800
    assert trial.repeated > 100


@pytest.mark.req("F-1", "K-3")
async def test_hostile_input_is_refused_fast_beside_slow_senders_in_constant_memory() -> None:
    trial = hostile_requests.Trial()
    await trial.run(1)
    assert trial.wrong == []


@pytest.mark.req("K-4")
async def test_no_secret_reaches_logs_audit_refusals_or_the_ledger() -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"repeat with: python -m proof S7 --rounds 200 --seed {seed}")
    trial = secret_canaries.Trial(seed, 200)
    await trial.run()
    assert trial.found == []
    assert len(trial.canaries) >= 200
