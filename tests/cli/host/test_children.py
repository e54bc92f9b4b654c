"""The processes that `up` starts (G-3): restarted with increasing delays, until one dies too often."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.cli.host.children import (
    DEATHS_MAX,
    DEATHS_WINDOW_S,
    RESTART_DELAY_MAX_S,
    RESTART_DELAY_S,
    Child,
    Deaths,
)
from interlock.cli.verb_error import Trouble

pytestmark = pytest.mark.req("G-3")


def test_a_process_that_dies_is_restarted_with_growing_delays_and_finally_given_up(tmp_path: Path) -> None:
    log = tmp_path / "gateway.log"
    log.write_text("it broke\n")
    deaths = Deaths(Child("gateway", list, log))
    pauses = [deaths.pause(100.0 + n) for n in range(DEATHS_MAX - 1)]
    assert pauses == [min(RESTART_DELAY_MAX_S, RESTART_DELAY_S * 2**n) for n in range(DEATHS_MAX - 1)]
    with pytest.raises(Trouble, match=f"The gateway ended {DEATHS_MAX} times within 60 s: it broke") as caught:
        deaths.pause(110.0)
    assert caught.value.remedy == f"See {log}"


def test_old_deaths_do_not_count(tmp_path: Path) -> None:
    deaths = Deaths(Child("runner", list, tmp_path / "none.log"))
    for n in range(3 * DEATHS_MAX):
        assert deaths.pause(n * (DEATHS_WINDOW_S + 1)) == RESTART_DELAY_S


def test_a_process_that_is_given_up_without_a_log_is_reported_too(tmp_path: Path) -> None:
    deaths = Deaths(Child("runner", list, tmp_path / "none.log"))
    for _ in range(DEATHS_MAX - 1):
        deaths.pause(1.0)
    with pytest.raises(Trouble, match="The runner ended"):
        deaths.pause(1.0)


@pytest.mark.anyio
async def test_the_last_words_of_a_process_are_not_those_of_the_one_before(tmp_path: Path) -> None:
    """The log of a state directory has yesterday's error, too."""
    log = tmp_path / "gateway.log"
    log.write_text("error[ConfigInvalid]: yesterday's mistake\n")
    child = Child("gateway", lambda: ["--no-such-option"], log)
    await child.start()
    await child.wait()
    assert "--no-such-option" in child.last_words()
    await child.start()
    child.kill()
    await child.wait()
    assert child.last_words() == "it printed nothing"
