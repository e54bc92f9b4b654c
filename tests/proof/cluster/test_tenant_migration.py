"""`python -m proof moving` with two moves: there and back while people work (K-1)."""

from __future__ import annotations

import pytest

from proof.cluster import tenant_migration

pytestmark = [pytest.mark.long, pytest.mark.req("K-1", "C-4", "U-2")]


def test_nothing_is_lost_or_run_twice_while_a_tenant_moves_back_and_forth(capfd: pytest.CaptureFixture[str]) -> None:
    assert tenant_migration.run(1, 2), capfd.readouterr().out
