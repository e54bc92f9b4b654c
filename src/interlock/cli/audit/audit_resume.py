"""`interlock audit resume`: accept an audit log that cannot be joined to an earlier checkpoint (U-3)."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import Parameter

from interlock.cli.config.place import NOWHERE, Here
from interlock.cli.display.progress import agreed
from interlock.cli.display.terminal import is_terminal, one_line, print_sentence, say
from interlock.cli.display.values import count
from interlock.cli.exit_status import ExitStatus
from interlock.cli.verb_answer import ask
from interlock.cli.verb_error import usage
from interlock.protocol.answers import SigningState
from interlock.protocol.api.audit import SHOW_SIGNING
from interlock.sdk.requests.audit import resume_signing
from interlock.sdk.requests.base import read


def resume(
    *,
    accept: Annotated[str | None, Parameter(
        help="The state to accept, as SIZE:ROOT (default: show it and ask).")] = None,
    reason: Annotated[str | None, Parameter(help="The reason, for the audit log.")] = None,
    where: Here = NOWHERE,
) -> int:
    """Resume signing an audit log, as it is now, that no kept checkpoint leads up to.

    Earlier checkpoints are set aside, and a record of the log names who accepted it. Before that, run
    `interlock audit verify`, and compare with a witness or an earlier export: what was lost or rewritten since
    then cannot be found afterwards.
    """
    if accept is not None and (":" not in accept or not accept.partition(":")[0].isdigit()):
        raise usage(f"{accept} is not SIZE:ROOT.", "`interlock audit resume` prints what there is to accept.")
    if accept is None:
        now = ask(where, read(SHOW_SIGNING)).value()
        if now.unsigned is None:
            print_sentence("the audit log can be signed: there is nothing to resume")
            return ExitStatus.DONE
        accept = f"{now.size}:{now.root}"
        if not _is_accepted(now, accept):
            say("nothing was accepted")
            return ExitStatus.FAILED
    size, _, root = accept.partition(":")
    done = ask(where, resume_signing(int(size), root.lower(), reason=reason or None)).value()
    print_sentence(f"the log is signed again; it names who accepted the {count(done.accepted, 'record')} before")
    return ExitStatus.DONE


def _is_accepted(now: SigningState, offered: str) -> bool:
    """Show what is to be accepted, and ask. Raises Trouble if no one can answer."""
    say(f"the audit log cannot be signed: {one_line(now.unsigned or '', 1_000)}")
    for one in now.kept:
        say(f"kept in the {one.where}: a checkpoint of {count(one.size, 'record')}, root {one.root}")
    say(f"there now: {count(now.size, 'record')}, root {now.root}")
    if not is_terminal(sys.stdin):
        raise usage("Accepting the log as it is cannot be undone.",
                    f"Compare it with what was kept elsewhere, then: interlock audit resume --accept {offered}")
    say("Accept these records as the log, and sign from here on? What was signed before is set aside.")
    return agreed()
