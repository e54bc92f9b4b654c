"""The deadline clock: jumps and restarts change nothing, a boot or a clock's first setting begins again."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.app.place import DeadlineClock, Sources

pytestmark = pytest.mark.req("C-1", "C-4")
NOW = 1_800_000_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class Machine(Sources):
    """A machine whose clock a test sets."""

    def __init__(self) -> None:
        self.up_ms, self.set_ms, self.boot = 5_000, NOW - 5_000, "first"

    def wall_ms(self) -> int:
        return self.up_ms + self.set_ms

    def since_boot_ms(self) -> int:
        return self.up_ms

    def boot_id(self) -> str:
        return self.boot


def test_the_clock_starts_at_the_wall_time_and_ignores_its_jumps(tmp_path: Path) -> None:
    machine = Machine()
    clock = DeadlineClock(tmp_path / "clock.json", machine)
    assert clock.now_ms() == NOW
    for jump_ms in (HOUR_MS, -HOUR_MS):
        machine.set_ms += jump_ms
        machine.up_ms += 10
    assert clock.now_ms() == NOW + 20


@pytest.mark.parametrize("jump_ms", [HOUR_MS, -HOUR_MS])
def test_a_restart_continues_the_clock(tmp_path: Path, jump_ms: int) -> None:
    machine = Machine()
    DeadlineClock(tmp_path / "clock.json", machine)
    machine.set_ms += jump_ms
    machine.up_ms += 700
    assert DeadlineClock(tmp_path / "clock.json", machine).now_ms() == NOW + 700


def test_another_boot_starts_at_the_wall_time_again(tmp_path: Path) -> None:
    machine = Machine()
    DeadlineClock(tmp_path / "clock.json", machine)
    machine.boot, machine.up_ms, machine.set_ms = "second", 100, NOW + HOUR_MS
    assert DeadlineClock(tmp_path / "clock.json", machine).now_ms() == NOW + HOUR_MS + 100


def test_the_first_synchronisation_of_a_clock_is_accepted(tmp_path: Path) -> None:
    machine = Machine()
    machine.set_ms = 0  # 1970
    clock = DeadlineClock(tmp_path / "clock.json", machine)
    assert clock.now_ms() == machine.up_ms
    machine.set_ms = NOW
    assert clock.now_ms() == NOW + machine.up_ms
    assert DeadlineClock(tmp_path / "clock.json", machine).now_ms() == NOW + machine.up_ms


def test_an_unreadable_file_starts_over(tmp_path: Path) -> None:
    (tmp_path / "clock.json").write_text("{")
    assert DeadlineClock(tmp_path / "clock.json", Machine()).now_ms() == NOW


def test_the_hosts_own_sources_are_consistent(tmp_path: Path) -> None:
    clock = DeadlineClock(tmp_path / "clock.json")
    first, second = clock.now_ms(), clock.now_ms()
    assert first <= second
    assert abs(clock.now_ms() - Sources().wall_ms()) < DAY_MS
    assert clock.monotonic_ms() <= clock.monotonic_ms()
