"""Errors that end a verb: one sentence, the remedy, and the exit status of the code."""

import pytest

from interlock.cli.exit_status import ExitStatus
from interlock.cli.verb_error import Trouble, usage

pytestmark = pytest.mark.req("G-7")


@pytest.mark.parametrize(("trouble", "line", "status"), [
    (Trouble("NotFound", "There is none"), "error[NotFound]: There is none.", ExitStatus.NOT_FOUND),
    (Trouble("NotFound", "There is none.", "List them."), "error[NotFound]: There is none. List them.",
    ExitStatus.NOT_FOUND),
    (Trouble("Unheard", "What?"), "error[Unheard]: What?", ExitStatus.FAILED),
    (Trouble("HTTP 502", "No.", status=ExitStatus.UNREACHABLE), "error[HTTP 502]: No.", ExitStatus.UNREACHABLE),
    (usage(f"'{'x' * 5_000}' is long.", "Cut it."), f"error[Usage]: '{'x' * 199}… is long. Cut it.", ExitStatus.USAGE),
    (usage("だめ" * 500), "error[Usage]: " + "だめ" * 500 + ".", ExitStatus.USAGE),
    (usage("It is wrong.", "Write it so."), "error[Usage]: It is wrong. Write it so.", ExitStatus.USAGE),
])
def test_an_error_has_a_line_and_a_status(trouble: Trouble, line: str, status: ExitStatus) -> None:
    assert (trouble.line(), trouble.status) == (line, status)
    assert line.startswith(trouble.label)
    assert str(trouble) == trouble.sentence
