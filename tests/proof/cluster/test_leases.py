"""What R5 counts decides whether it passed."""

from __future__ import annotations

from collections import Counter

from proof.cluster.leases import Findings

WHOLE = Findings(kills=1, stops=1, states=Counter(succeeded=8), started=Counter({1: 8}), lost=[], refused=0,
                 came_back=0, ends=Counter({1: 8}), audit=(True, 65, "whole"))


def test_a_run_without_commands_does_not_pass() -> None:
    assert WHOLE.passed
    assert not WHOLE._replace(states=Counter(), started=Counter(), ends=Counter()).passed


def test_a_lost_or_doubled_run_or_end_fails_the_proof() -> None:
    for wrong in ({"lost": ["cmd f"]}, {"started": Counter({1: 7, 2: 1})}, {"ends": Counter({1: 7, 2: 1})},
                  {"states": Counter(running=1)}, {"audit": (False, 65, "broken")}):
        assert not WHOLE._replace(**wrong).passed
