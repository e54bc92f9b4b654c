"""`interlock status` in lines: what waits for a person comes first, and what keeps work from starting is said (G-7)."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.cli.gateway_status import LABEL_CELLS, _Status, status_lines  # pyright: ignore[reportPrivateUsage]
from interlock.protocol.drains import Drain
from interlock.protocol.limits import PAGE_MAX

pytestmark = pytest.mark.req("G-7")


def lines(**fields: Any) -> list[str]:
    return list(status_lines(_Status(**fields), [], "http://127.0.0.1:8642", starting=False))


def test_what_waits_for_a_person_is_the_first_line() -> None:
    assert lines()[0] == "waiting for you  nothing"
    assert lines(approvals_pending=1)[0] == "waiting for you  1 approval (interlock approvals)"
    assert lines(approvals_pending=PAGE_MAX)[0] == f"waiting for you  {PAGE_MAX}+ approvals (interlock approvals)"


def test_each_label_has_its_width() -> None:
    drain = Drain(scope="runner", id="box", at="2026-01-01T00:00:00.000Z", by="user:kim", reason=None)
    shown = lines(commands={"running": 2, "pending_approval": 1}, unsigned="it was rolled back", drains=[drain],
                  state_dir="/state", store_path="/state/ledger.db", version="1", role="owner")

    assert all(line[LABEL_CELLS - 1] == " " and line[LABEL_CELLS] != " " for line in shown)
    assert "tasks            1 pending approval, 2 running" in shown
    assert any(line.startswith("audit log        cannot be signed") and "rolled back" in line for line in shown)
    assert any(line.startswith("drain            draining runner box") for line in shown)
    assert shown[-1] == "store            /state/ledger.db"


def test_a_gateway_without_runners_and_paths_of_its_own_says_what_to_do() -> None:
    shown = lines()

    assert "runner           none is paired; start one with: interlock up" in shown
    assert not any(line.startswith("state directory") for line in shown)
