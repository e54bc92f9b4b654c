"""The door as a process: its login methods name the verb, and its reports go to standard error only."""

from __future__ import annotations

import pytest

from interlock.doors.acp.surface import PROCESS


@pytest.mark.req("O-1")
def test_it_logs_in_by_a_terminal_and_speaks_to_its_operator_only_on_standard_error(
        capsys: pytest.CaptureFixture[str]) -> None:
    (method,) = PROCESS.auth_methods
    PROCESS.report("the gateway is away")
    out, err = capsys.readouterr()

    assert (method["type"], method["args"]) == ("terminal", ["doctor"])
    assert (out, err) == ("", "interlock acp: the gateway is away\n")
    assert PROCESS.is_local
