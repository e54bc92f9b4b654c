"""The door as a process: its login methods name the verb, and its reports go to standard error only."""

from __future__ import annotations

import pytest

from interlock.doors.acp.surface import PROCESS


@pytest.mark.req("O-1")
def test_the_door_logs_in_at_a_terminal_and_writes_messages_to_standard_error_only(
        capsys: pytest.CaptureFixture[str]) -> None:
    (method,) = PROCESS.auth_methods
    PROCESS.report("the gateway is away")
    out, err = capsys.readouterr()

    assert (method["type"], method["args"]) == ("terminal", ["doctor"])
    assert (out, err) == ("", "interlock acp: the gateway is away\n")
    assert PROCESS.is_local
