"""A scope around an agent's processes: beyond it they signal no one, if the kernel supports scopes (H-15)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from interlock.box import scope

pytestmark = [pytest.mark.req("H-15"), pytest.mark.skipif(sys.platform != "linux", reason="Landlock is Linux's")]
PROGRAM = """
import os, signal, sys
from interlock.box import scope
scope.raise_scope()
try:
    os.kill(int(sys.argv[1]), 0)
    os.kill(int(sys.argv[1]), signal.SIGCONT)
    print("signalled")
except PermissionError:
    print("refused")
child = os.fork()
if child == 0:
    os._exit(0)
os.kill(child, 0)
os.waitpid(child, 0)
print("own child reached")
"""


def test_a_process_in_the_scope_signals_its_own_children_only() -> None:
    outside = subprocess.Popen(["sleep", "60"])
    try:
        run = subprocess.run([sys.executable, "-c", PROGRAM, str(outside.pid)], capture_output=True, text=True,
                             check=True, timeout=60)
    finally:
        outside.send_signal(signal.SIGKILL)
        outside.wait()

    expected = "refused" if scope.is_there() else "signalled"
    assert run.stdout.split("\n") == [expected, "own child reached", ""]


def test_a_kernel_without_scopes_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> int:
        raise OSError(os.strerror(38))

    monkeypatch.setattr(scope, "abi", missing)
    assert not scope.is_there()
    scope.raise_scope()
    monkeypatch.setattr(scope, "abi", lambda: scope.SCOPED_FROM - 1)
    assert not scope.is_there()
    monkeypatch.setattr(scope, "abi", lambda: scope.SCOPED_FROM)
    assert scope.is_there()
