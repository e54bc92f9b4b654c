"""`interlock cron`: the jobs of the config, when they are due, and one run by hand (R-4)."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from cyclopts import Parameter

from interlock.cli.columns import Layout
from interlock.cli.exit_status import ExitStatus
from interlock.cli.gateway_link import GatewayLink, decoded
from interlock.cli.lists import Json
from interlock.cli.place import NOWHERE, Here, Where
from interlock.cli.terminal import one_line, print_json, print_sentence, print_table, say
from interlock.cli.values import ago, until
from interlock.cli.verb_error import Trouble
from interlock.protocol.api.messages import LIST_CRON_JOBS, RUN_CRON_JOB
from interlock.protocol.inbound import CronJobs, CronJobShown, Received

COLUMNS = Layout(text=("COMMAND OR WHY NOT",), extra=("ZONE", "MISSED", "LAST"), drop=("AGENT", "SCHEDULE"))


def jobs(*, json: Json = False, where: Here = NOWHERE) -> int:
    """List cron jobs: when each ran, when it is due next, and what it missed."""
    return asyncio.run(_jobs(where, json=json))


def run(job: Annotated[str, Parameter(name="JOB", help="The job's id, or a unique beginning of it.")], /, *,
        json: Json = False, where: Here = NOWHERE) -> int:
    """Run a job now; its next due time stays as it is."""
    return asyncio.run(_run(job, where, json=json))


async def _jobs(where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        raw = await link.get(LIST_CRON_JOBS.at())
    if json:
        print_json(raw)
        return ExitStatus.DONE
    found = decoded(raw, CronJobs, LIST_CRON_JOBS.at()).items
    if not found:
        say("no cron jobs; give some as [cron.ID] in the gateway's config", "dim")
        return ExitStatus.DONE
    print_table([_row(one) for one in found],
                ("JOB", "AGENT", "SCHEDULE", "ZONE", "DUE IN", "LAST", "MISSED", "COMMAND OR WHY NOT"), COLUMNS)
    return ExitStatus.DONE


def _row(job: CronJobShown) -> list[str]:
    due = until(job.next_at) if job.next_at is not None else "off" if not job.enabled else "never"
    return [job.id, job.agent_id, job.schedule, job.time_zone, due, ago(job.last_at) if job.last_at else "never",
            str(job.missed or ""), job.error or job.command_id or ""]


async def _run(named: str, where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        known = [one.id for one in (await link.read(LIST_CRON_JOBS.at(), CronJobs)).items]
        hits = [one for one in known if one == named] or [one for one in known if named and one.startswith(named)]
        if len(hits) != 1:
            raise Trouble("NotFound", f"{one_line(named)!r} names {len(hits) or 'no'} cron job{'s' if hits else ''}.",
                          f"Known: {', '.join(known) or 'none; give some as [cron.ID] in the config'}.")
        path = RUN_CRON_JOB.at(hits[0])
        raw = await link.send(path, {})
    received = decoded(raw, Received, path)
    if json:
        print_json(msgspec.json.encode(received))
    elif received.denied:
        print_sentence(f"{hits[0]}: sendPolicy keeps silent there; it is in the transcript of {received.session_id}")
    else:
        print_sentence(f"{hits[0]}: {received.command_id} in {received.session_key}")
        say(f"follow it with: interlock attach {received.command_id}", "dim")
    return ExitStatus.DONE
