"""The meaning of an exit (A-2)."""

import pytest

from interlock.ports.agent import ProcessExit
from interlock.runner.process.exits import ExitKind, exit_from_status, kind_of, sentence_of, signal_of

CODES = {
    0: (ExitKind.OK, None),
    1: (ExitKind.ERROR, None),
    127: (ExitKind.ERROR, None),
    128: (ExitKind.ERROR, None),
    129: (ExitKind.SIGNAL, 1),
    137: (ExitKind.SIGNAL, 9),
    143: (ExitKind.SIGNAL, 15),
    192: (ExitKind.SIGNAL, 64),
    193: (ExitKind.ERROR, None),
    255: (ExitKind.ERROR, None),
}


@pytest.mark.req("A-2")
@pytest.mark.parametrize("code", CODES)
def test_a_code_is_ok_an_error_or_a_signal(code: int) -> None:
    ended = exit_from_status(code << 8)
    assert ended == ProcessExit(code, None)
    assert (kind_of(ended), signal_of(ended)) == CODES[code]


@pytest.mark.req("A-2")
@pytest.mark.parametrize("number", [1, 9, 15, 64])
def test_death_by_a_signal_is_reported_as_a_signal(number: int) -> None:
    ended = exit_from_status(number)
    assert ended == ProcessExit(None, number)
    assert (kind_of(ended), signal_of(ended)) == (ExitKind.SIGNAL, number)


@pytest.mark.req("A-2")
def test_an_exit_has_a_sentence() -> None:
    assert sentence_of(ProcessExit(3, None)) == "The agent ended with exit code 3."
    assert sentence_of(ProcessExit(137, None)) == "The agent was ended by SIGKILL."
    assert sentence_of(ProcessExit(None, 45)) == "The agent was ended by signal 45."
