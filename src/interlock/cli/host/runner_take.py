"""`interlock runner take` and `unpair`: decisions about its gateways on the runner's host (D-5, L-3)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from interlock.cli.config.pairings import drop, homes, pairings
from interlock.cli.config.place import OnHost
from interlock.cli.display.terminal import result, say
from interlock.cli.exit_status import ExitStatus
from interlock.cli.verb_error import Trouble, usage

StateOption = Annotated[Path | None, Parameter(help="State directory of the runner (else $INTERLOCK_STATE, else the "
                                                    "platform's own).")]


def take(
    session: Annotated[str, Parameter(name="SESSION", help="The session's id, as `interlock sessions` shows it.")],
    /,
    *,
    to: Annotated[str, Parameter(help="Id of the gateway that shall control it, as shown by `interlock doctor` "
                                      "there.")],
    state: StateOption = None,
) -> int:
    """Let another gateway control a session of the runner that runs here."""
    from interlock.runner.local import NoRunner, Take, ask

    directory = OnHost(state).directory()
    for home in homes(directory):
        try:
            answer = asyncio.run(ask(home, Take(session_id=session, to=to)))
        except NoRunner:
            continue
        except TimeoutError:
            raise Trouble("Timeout", "The runner did not answer in time.", "Look at its log, and try again.") from None
        if not answer.ok:
            raise Trouble("Conflict", answer.sentence, "A gateway's `interlock doctor` shows its id.")
        result(session)
        say(f"gateway {to} controls it now; questions that wait are asked there again")
        return ExitStatus.DONE
    raise Trouble("Unreachable", f"No runner runs on {directory}.", "Start it with: interlock runner")


def unpair(
    gateway: Annotated[str, Parameter(name="GATEWAY", help="The gateway's URL, or the id that this runner has there.")],
    /,
    *,
    state: StateOption = None,
) -> int:
    """Forget a gateway that this host's runner is paired with."""
    directory = OnHost(state).directory()
    found = pairings(directory)
    for one in found:
        if gateway.rstrip("/") in (one.paired.url, one.paired.runner_id):
            drop(directory, one)
            result(one.paired.runner_id)
            say(f"forgotten. At {one.paired.url}: interlock runners revoke {one.paired.runner_id}; then start the "
                "runner again", "green", "forgotten.")
            return ExitStatus.DONE
    known = ", ".join(one.paired.url for one in found) or "none"
    raise usage(f"This host is not paired with {gateway!r}; it is paired with: {known}.", "Name one of these.")
