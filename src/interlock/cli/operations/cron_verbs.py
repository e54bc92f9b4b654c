"""`interlock cron`: the jobs of the config, their due times, and one run by hand (R-4)."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from interlock.cli.config.place import NOWHERE, Here
from interlock.cli.display.columns import Layout
from interlock.cli.display.terminal import one_line, print_sentence, say
from interlock.cli.display.values import ago, until
from interlock.cli.link.gateway_link import GatewayLink
from interlock.cli.options import Json
from interlock.cli.verb_answer import ListTable, print_answer
from interlock.cli.verb_error import Trouble
from interlock.protocol.api.messages import LIST_CRON_JOBS
from interlock.protocol.inbound import CronJobs, CronJobShown, Received
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests import cron
from interlock.sdk.requests.base import read

JOBS = ListTable[CronJobs](
    header=("JOB", "AGENT", "SCHEDULE", "ZONE", "DUE IN", "LAST", "MISSED", "COMMAND OR WHY NOT"),
    rows=lambda answer: [_row(one) for one in answer.items],
    layout=Layout(text=("COMMAND OR WHY NOT",), extra=("ZONE", "MISSED", "LAST"), drop=("AGENT", "SCHEDULE")),
    empty="no cron jobs; give some as [cron.ID] in the gateway's config")


def jobs(*, json: Json = False, where: Here = NOWHERE) -> int:
    """List cron jobs: when each ran, when it is due next, and what it missed."""
    return print_answer(where, read(LIST_CRON_JOBS), JOBS.show, json=json)


def run(job: Annotated[str, Parameter(name="JOB", help="The job's id, or a unique beginning of it.")], /, *,
        json: Json = False, where: Here = NOWHERE) -> int:
    """Run a job now; its next due time stays as it is."""
    async def request(link: GatewayLink) -> RequestSpec[Received]:
        nonlocal job
        job = await _id_of(link, job)
        return cron.run(job)

    def show(received: Received) -> None:
        if received.denied:
            print_sentence(f"{job}: sendPolicy keeps silent there; it is in the transcript of {received.session_id}")
        else:
            print_sentence(f"{job}: {received.command_id} in {received.session_key}")
            say(f"follow it with: interlock attach {received.command_id}", "dim")

    return print_answer(where, request, show, json=json)


def _row(job: CronJobShown) -> list[str]:
    due = until(job.next_at) if job.next_at is not None else "off" if not job.enabled else "never"
    return [job.id, job.agent_id, job.schedule, job.time_zone, due, ago(job.last_at) if job.last_at else "never",
            str(job.missed or ""), job.error or job.command_id or ""]


async def _id_of(link: GatewayLink, named: str) -> str:
    known = [one.id for one in (await link.ask(read(LIST_CRON_JOBS))).items]
    hits = [one for one in known if one == named] or [one for one in known if named and one.startswith(named)]
    if len(hits) != 1:
        raise Trouble("NotFound", f"{one_line(named)!r} names {len(hits) or 'no'} cron job{'s' if hits else ''}.",
                      f"Known: {', '.join(known) or 'none; give some as [cron.ID] in the config'}.")
    return hits[0]
