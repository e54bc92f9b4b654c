"""`interlock config reload`: make gateway and runner read the config again (G-1)."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from interlock.backends.sqlite.lock import LOCK_NAME
from interlock.cli.config.config_mistakes import mistakes_of
from interlock.cli.config.pairings import homes
from interlock.cli.config.place import LOGS, UP_LOCK, Where, holder
from interlock.cli.display.terminal import print_sentence, say
from interlock.cli.exit_status import ExitStatus
from interlock.cli.options import State
from interlock.cli.verb_error import Trouble, usage


def reload(*, state: State = None) -> int:
    """Make gateway and runner read the config again; a file with mistakes is reported, and the old settings stay."""
    where = Where(state=state)
    directory = where.directory()
    mistakes = mistakes_of(directory)
    if mistakes:
        raise usage(mistakes[0], "See all with: interlock config check; the old settings stay")
    outcomes = [*_gateway(directory), *_runners(directory)]
    if not outcomes:
        raise Trouble("Unreachable", f"Neither gateway nor runner runs on {directory}.",
                      "Start both with: interlock up; they read the config then")
    for one in outcomes:
        print_sentence(one)
    say(f"where it listens, and limits of outboxes, take a new start; logs in {directory / LOGS}", "dim")
    return ExitStatus.DONE


def _gateway(directory: Path) -> list[str]:
    """Signal the gateway, or the `up` of a cluster, which signals each of its gateways."""
    for name in (LOCK_NAME, UP_LOCK):
        pid = holder(directory / name)
        if pid is not None:
            os.kill(pid, signal.SIGHUP)
            return [f"the gateway (process {pid}) reads the config again"]
    return []


def _runners(directory: Path) -> list[str]:
    from interlock.runner.local import NoRunner, Reload, ask

    outcomes: list[str] = []
    for home in homes(directory):
        try:
            answer = asyncio.run(ask(home, Reload()))
        except NoRunner:
            continue
        except TimeoutError:
            raise Trouble("Timeout", "The runner did not answer in time.", "Look at its log, and try again.") from None
        if not answer.ok:
            raise Trouble("Conflict", answer.sentence, "The runner continues with what it had read.")
        outcomes.append("the runner has read the config again")
    return outcomes
