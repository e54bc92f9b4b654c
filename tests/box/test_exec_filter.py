"""The filter that holds programs, run here as the kernel would run it (H-16)."""

from __future__ import annotations

import struct

import pytest

from interlock.box.exec_filter import ALLOW, CALLS, ERRNO, KILL_PROCESS, USER_NOTIF, X32, instructions, program

X86_64, I386, ARM64, ARM = 0xC000_003E, 0x4000_0003, 0xC000_00B7, 0x4000_0028
EPERM, ENOSYS = ERRNO | 1, ERRNO | 38


def answer(machine: str, arch: int, number: int) -> int:
    """Run the filter for one call, as classic BPF is defined."""
    steps = instructions(CALLS[machine])
    at, held = 0, 0
    while True:
        code, yes, no, value = steps[at]
        if code == 0x06:
            return value
        if code == 0x20:
            held = {0: number, 4: arch}[value]
            at += 1
        else:
            met = held == value if code == 0x15 else held >= value
            at += 1 + (yes if met else no)


@pytest.mark.req("H-16")
@pytest.mark.parametrize(("machine", "arch", "number", "expected"), [
    ("x86_64", X86_64, 59, USER_NOTIF), ("x86_64", X86_64, 322, USER_NOTIF),
    ("aarch64", ARM64, 221, USER_NOTIF), ("aarch64", ARM64, 281, USER_NOTIF),
    ("x86_64", X86_64, 0, ALLOW), ("x86_64", X86_64, 221, ALLOW), ("aarch64", ARM64, 59, ALLOW),
    ("x86_64", I386, 11, EPERM), ("x86_64", I386, 358, EPERM), ("x86_64", I386, 59, ALLOW),
    ("aarch64", ARM, 11, EPERM), ("aarch64", ARM, 387, EPERM), ("aarch64", ARM, 4, ALLOW),
    ("x86_64", X86_64, X32 | 520, ENOSYS), ("x86_64", X86_64, X32 | 59, ENOSYS), ("x86_64", X86_64, X32, ENOSYS),
    ("x86_64", X86_64, 520, ENOSYS), ("x86_64", X86_64, 545, ENOSYS), ("x86_64", X86_64, 0xFFFF_FFFF, ENOSYS),
    ("x86_64", ARM64, 221, KILL_PROCESS), ("aarch64", X86_64, 59, KILL_PROCESS),
])
def test_each_way_to_start_a_program_is_held_or_refused(machine: str, arch: int, number: int, expected: int) -> None:
    assert answer(machine, arch, number) == expected


@pytest.mark.req("H-16")
@pytest.mark.parametrize("machine", CALLS)
def test_the_filter_has_eight_bytes_per_instruction_and_no_jump_leaves_it(machine: str) -> None:
    steps = instructions(CALLS[machine])
    code = program(CALLS[machine])

    assert [struct.unpack_from("=HBBI", code, at) for at in range(0, len(code), 8)] == steps
    assert all(at + 1 + max(yes, no) < len(steps) for at, (kind, yes, no, _) in enumerate(steps) if kind != 0x06)
