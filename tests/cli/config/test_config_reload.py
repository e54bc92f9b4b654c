"""Which process holds a lock file: the one that has the lock, and not the pid that an earlier one left in it (G-1)."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from interlock.cli.config.config_reload import holder, reload
from interlock.cli.verb_error import Trouble

pytestmark = pytest.mark.req("G-1")


def test_a_pid_without_a_lock_belongs_to_no_gateway(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    assert holder(lock) is None
    lock.write_text(f"{os.getpid()}\n")
    assert holder(lock) is None


@pytest.mark.parametrize(("written", "found"), [("4711\n", 4711), ("", None), ("not a number", None)])
def test_the_process_that_holds_the_lock_is_the_named_one(written: str, found: int | None, tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    lock.write_text(written)
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert holder(lock) == found


def test_a_missing_gateway_and_an_invalid_config_give_one_sentence_each(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    with pytest.raises(Trouble, match="Neither gateway nor runner runs"):
        reload(state=tmp_path)
    (tmp_path / "interlock.toml").write_text("[gatewayy]\n")
    with pytest.raises(Trouble, match="gatewayy"):
        reload(state=tmp_path)
