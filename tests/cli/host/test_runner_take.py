"""Decisions on the runner's host: where a runner may listen, and which gateway it forgets (D-5, L-3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.cli.config.pairings import Paired, keep, pairings
from interlock.cli.host.runner_take import take, unpair
from interlock.cli.verb_error import Trouble

pytestmark = pytest.mark.req("L-3", "D-5")
URL = "https://g.example"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    tmp_path.chmod(0o700)
    return tmp_path


def test_a_session_is_taken_only_from_a_running_runner(state: Path) -> None:
    with pytest.raises(Trouble, match="No runner runs on"):
        take("s1", to="gw_2", state=state)


@pytest.mark.parametrize("named", [URL, URL + "/", "run_1"])
def test_a_gateway_is_forgotten_by_its_url_or_its_runner_id(
        named: str, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(state, Paired(URL, "run_1"), "token")

    assert unpair(named, state=state) == 0
    assert pairings(state) == []
    out, err = capsys.readouterr()
    assert out == "run_1\n"
    assert "interlock runners revoke run_1" in err


def test_an_unpaired_gateway_gives_a_sentence_with_the_paired_ones(state: Path) -> None:
    with pytest.raises(Trouble, match="paired with: none"):
        unpair("https://other.example", state=state)
    keep(state, Paired(URL, "run_1"), "token")
    with pytest.raises(Trouble, match=r"paired with: https://g\.example"):
        unpair("https://other.example", state=state)
