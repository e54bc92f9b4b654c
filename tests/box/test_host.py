"""The survey's findings equal what the kernel allows with other tools: every test of the walls is skipped by the
survey's result, so a fault in it would skip all of them (H-15, H-16, H-17, H-19)."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from installed import CI_VARIABLE
from interlock.box.host import Host, survey

PATIENCE_S = 20.0
USER_NAMESPACE = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
GET_NOTIF_SIZES = 3
LANDLOCK_VERSION = 1
SYS_SECCOMP = {"x86_64": 317, "aarch64": 277}
SYS_LANDLOCK_CREATE_RULESET = 444
_libc = ctypes.CDLL(None, use_errno=True)


def kernel() -> tuple[int, ...]:
    """Major and minor version."""
    return tuple(map(int, re.findall(r"\d+", platform.release())[:2]))


def unshared(script: str, *words: str) -> bool:
    """Whether util-linux's `unshare` can run a shell script in a mount namespace of its own."""
    ran = subprocess.run(["unshare", *USER_NAMESPACE, "--mount", *words, "sh", "-ec", script], capture_output=True,
                         check=False, timeout=PATIENCE_S)
    return ran.returncode == 0


def namespace(place: Path) -> bool:
    return kernel() >= (5, 12) and unshared(f"mount -t tmpfs none {place}")


def network(place: Path) -> bool:
    return namespace(place) and unshared("true", "--net")


def overlay(place: Path) -> bool:
    for name in ("lower", "upper", "work"):
        (place / name).mkdir()
    try:
        os.setxattr(place, "user.probe", b"1")
    except OSError:
        return False
    layers = f"lowerdir={place}/lower,upperdir={place}/upper,workdir={place}/work,userxattr"
    return namespace(place) and unshared(f"mount -t overlay -o {layers} none {place}/lower; touch {place}/lower/file")


def landlock(_place: Path) -> bool:
    return _libc.syscall(SYS_LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), LANDLOCK_VERSION) >= 1


def programs(place: Path) -> bool:
    number = SYS_SECCOMP.get(platform.machine())
    sizes = ctypes.create_string_buffer(16)
    return (number is not None and kernel() >= (5, 9) and (namespace(place) or landlock(place))
            and _libc.syscall(number, GET_NOTIF_SIZES, 0, sizes) == 0)


Ability = tuple[Callable[[Path], bool], Callable[[Host], str]]
ABILITIES: dict[str, Ability] = {
    "a mount namespace": (namespace, lambda host: host.missing.get("namespace", "")),
    "Landlock": (landlock, lambda host: host.missing.get("landlock", "")),
    "a network namespace": (network, lambda host: host.network or ""),
    "an overlay": (overlay, lambda host: host.no_overlay),
    "holding programs": (programs, lambda host: host.programs or ""),
}


@pytest.mark.req("H-15", "H-16", "H-17", "H-19")
@pytest.mark.needs("unshare")
@pytest.mark.parametrize("ability", ABILITIES)
def test_wall_tests_are_skipped_only_if_the_kernel_forbids_walls(ability: str, tmp_path: Path) -> None:
    allowed, missing = ABILITIES[ability]
    if not allowed(tmp_path):
        pytest.skip(f"this kernel does not allow {ability}")
    why = missing(survey())
    if why and os.environ.get(CI_VARIABLE) != "1":
        pytest.skip(f"this kernel allows {ability}, and its tests are skipped: {why}")
    assert why == "", f"this kernel allows {ability}, and its tests are skipped"
