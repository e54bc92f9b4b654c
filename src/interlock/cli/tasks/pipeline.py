"""A job of a pipeline, from its submission to its files: summary, proof, outputs (O-10)."""

from __future__ import annotations

import asyncio
import secrets
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from interlock.cli import short_ids
from interlock.cli.config.place import Where
from interlock.cli.display.terminal import write
from interlock.cli.display.values import between
from interlock.cli.exit_status import ExitStatus
from interlock.cli.link import trust
from interlock.cli.link.gateway_link import locate, renewed_key
from interlock.cli.link.gateway_url import checked_url
from interlock.cli.tasks.outcome import denied_lines, exit_of, interrupted_line, remedy
from interlock.cli.verb_error import Trouble, usage
from interlock.doors.ci.evidence import AUDIT_ROLES, TaskEvidence, evidence_of
from interlock.doors.ci.job import PipelineJob
from interlock.doors.ci.log_lines import LogWriter, phrase
from interlock.doors.ci.pipeline_run import PipelineRun, run_of, style_of
from interlock.doors.ci.summary import JobFacts, summary
from interlock.protocol.answers import StagedChanges
from interlock.protocol.problems import full_sentence
from interlock.protocol.resources import Approval, Command, Session
from interlock.sdk import AsyncInterlock, InterlockError, RetryPolicy, problems
from interlock.sdk.requests import commands

AWAY_S = 600.0
"""Time without a gateway after which the job fails."""
ATTEMPTS = 160
"""Requests are sent again about as long."""
EVIDENCE_S = 60.0
"""Maximum time for the gateway to prove the records: one that cannot sign its log asks for a retry each time."""
LEAVE_S = 6.0
"""GitHub ends a canceled step 7.5 s after its first signal."""
CANCEL_REASON = "the pipeline's job was canceled"
NO_ROLE = "the key has none of the roles auditor, admin and owner, so it may not read the audit log"


class JobOptions(NamedTuple):
    """The options of a job. `summary` is written, `added_summary` is appended to."""

    agent: str
    prompt: str
    workspace: str
    runner: str | None
    timeout_ms: int | None
    approval_limit_s: float
    summary: Path | None
    added_summary: Path | None
    proof: Path | None
    link: str | None
    run_key: str | None
    rerun: bool
    on_cancel: Literal["cancel", "detach"]


async def drive(options: JobOptions, where: Where, environ: Mapping[str, str]) -> int:
    """Run the job; a signal ends it as `on_cancel` says. Returns the exit status. Raises Trouble."""
    address = locate(where)
    writer = LogWriter(style_of(environ))
    link = checked_url(options.link) if options.link is not None else address.url
    tls = trust.tls(address.url, where.directory(), address.ca)
    try:
        client = AsyncInterlock(address.url, renewed_key(address, where), in_clear=True, tls=tls or True,
                                retries=RetryPolicy(attempts=ATTEMPTS, stream_give_up_s=AWAY_S))
        first = AsyncInterlock(address.url, renewed_key(address, where), in_clear=True, tls=tls or True)
    except ValueError as error:
        raise usage(f"{error}.", "Give the URL with --url and the key in $INTERLOCK_KEY.") from None
    async with client, first:
        job = PipelineJob(client, link, writer, lambda line: write(sys.stdout, line + "\n"),
                          approval_limit_s=options.approval_limit_s)
        return await _Started(options, client, first, job, environ).run()


class _Started:
    """A running job. `first` is the client with few retries: a gateway that was never reachable is reported soon."""

    def __init__(self, options: JobOptions, gateway: AsyncInterlock, first: AsyncInterlock, job: PipelineJob,
                 environ: Mapping[str, str]) -> None:
        self._options = options
        self._gateway = gateway
        self._first = first
        self._job = job
        self._environ = environ
        self._may_prove = False
        self._submission: asyncio.Task[Command] | None = None

    async def run(self) -> int:
        """Run to the end, or until a signal."""
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        try:
            return await self._whole()
        except asyncio.CancelledError:
            task.uncancel()
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                asyncio.get_running_loop().add_signal_handler(number, lambda: None)
            return await self._left()
        except InterlockError as error:
            trouble = _trouble(error)
            if (done := self._submission) is not None and done.done() and not done.cancelled() \
                    and done.exception() is None:
                self._job.say(interrupted_line(done.result().id))
            if not self._job.annotates:
                raise trouble from None
            # The log has standard error too: only the annotation reports the outcome.
            self._job.annotate("error", trouble.code, f"{full_sentence(trouble.sentence)} {trouble.remedy}".rstrip())
            return trouble.status

    async def _whole(self) -> int:
        roles = (await self._first.whoami()).roles
        self._may_prove = not AUDIT_ROLES.isdisjoint(roles)
        if self._options.proof is not None and not self._may_prove:
            raise Trouble("Forbidden", f"--proof cannot be written: {NO_ROLE}.",
                          "Make a key with --role operator --role auditor.")
        if self._options.runner is not None:
            nodes = (await self._first.runners.nodes()).nodes
            runner = short_ids.pick_runner(self._options.runner, nodes).node_id
            self._options = self._options._replace(runner=runner)
        self._submission = asyncio.create_task(self._submit())
        command = await asyncio.shield(self._submission)
        self._job.say(f"task {command.id} · session {command.target.session_id}")
        ended = await self._job.follow(command)
        return await self._close(ended)

    async def _submit(self) -> Command:
        options = self._options
        request = commands.submit(
            options.prompt, agent=options.agent, runner_id=options.runner, workspace=options.workspace,
            timeout_ms=options.timeout_ms, close_session=True)
        run = run_of(self._environ, options.run_key)
        if run is None:
            run = PipelineRun(("once", secrets.token_hex(16)), ("",))
            self._job.say("this job has no name, so a repeated one runs the prompt again; name it with --run-key")
        return await self._job.submit(request, run.keys(request.body or b"", rerun=options.rerun))

    async def _left(self) -> int:
        """End the job as `on_cancel` says, within LEAVE_S."""
        command = None
        try:
            async with asyncio.timeout(LEAVE_S):
                command = await self._submission if self._submission is not None else None
                if command is None:
                    self._job.say("canceled before anything was submitted")
                    return ExitStatus.INTERRUPTED
                if self._options.on_cancel == "detach":
                    self._job.say(interrupted_line(command.id))
                    return ExitStatus.INTERRUPTED
                await self._gateway.commands.cancel(command.id, reason=CANCEL_REASON)
                ended = await self._gateway.commands.wait(command.id)
                return await self._close(ended)
        except (TimeoutError, InterlockError) as error:
            why = "the gateway did not confirm it in time" if isinstance(error, TimeoutError) else str(error)
            what = command.id if command is not None else "The task"
            self._job.annotate("error", "Not canceled", f"{what} was not canceled: {why}; the work may continue")
            return ExitStatus.INTERRUPTED

    async def _close(self, ended: Command) -> int:
        """Write summary, proof and outputs, and the last line."""
        evidence, why = await self._evidence(ended)
        self._write_files(await self._facts(ended, evidence, why))
        if evidence is not None and self._options.proof is not None:
            _written(self._options.proof, evidence.proof)
        for line in denied_lines(ended):
            self._job.say(phrase(line))
        overdue = self._job.overdue is not None and ended.state == "canceled"
        status = ExitStatus.REJECTED if overdue else exit_of(ended)
        self._job.say(f"{ended.state.replace('_', ' ')} · {between(ended.started_at, ended.ended_at) or 'not started'} "
                      f"· {ended.id}")
        if ended.error is not None and ended.state != "succeeded":
            self._job.annotate("error", ended.error.code, f"{ended.error.message.rstrip('.')}. {remedy(ended)}")
        if evidence is None and self._options.proof is not None:
            self._job.annotate("error", "No proof", why)
            return status or ExitStatus.FAILED
        return status

    async def _evidence(self, ended: Command) -> tuple[TaskEvidence | None, str]:
        if not self._may_prove:
            return None, NO_ROLE
        try:
            async with asyncio.timeout(EVIDENCE_S):
                return await evidence_of(self._gateway, ended), ""
        except TimeoutError:
            return None, f"the gateway did not prove the records within {EVIDENCE_S:.0f} s"
        except InterlockError as error:
            return None, str(error)

    async def _facts(self, ended: Command, evidence: TaskEvidence | None, why: str) -> JobFacts:
        session: Session | None = None
        changes: StagedChanges | None = None
        session_id = ended.target.session_id or ""
        try:
            session = await self._gateway.sessions.get(session_id)
            changes = await self._gateway.sessions.changes(session_id)
        except InterlockError as error:
            self._job.annotate("warning", "The summary is not whole", str(error))
        host = (session.runner_id if session is not None else None) or ended.target.runner_id or "?"
        try:
            named = (await self._gateway.runners.list()).runners
            host = next((one.device_name for one in named if one.runner_id == host and one.device_name), host)
        except InterlockError:
            pass  # An operator may not list the runners; the id names the host, too.
        return JobFacts(ended, await self._approvals(ended), self._job.link_to("").removesuffix("/a/"),
                        self._options.prompt, host, self._job.progress.answer, session, changes, evidence, why,
                        self._job.overdue)

    async def _approvals(self, ended: Command) -> list[Approval]:
        """Read the current state of the approvals: votes were cast after the events that named them."""
        names = [*self._job.approvals]
        if ended.approval_id is not None and ended.approval_id not in names:
            names.insert(0, ended.approval_id)
        return [await self._gateway.approvals.get(one) for one in names]

    def _write_files(self, facts: JobFacts) -> None:
        text = summary(facts)
        if self._options.summary is not None:
            _written(self._options.summary, text.encode())
        elif self._options.added_summary is not None:
            self._add(self._options.added_summary, text)
        if outputs := self._environ.get("GITHUB_OUTPUT"):
            values = {"command-id": facts.command.id, "session-id": facts.command.target.session_id or "",
                    "state": facts.command.state, "proof": str(self._options.proof or "")}
            self._add(Path(outputs), "".join(f"{name}={phrase(value)}\n" for name, value in values.items()))

    def _add(self, file: Path, text: str) -> None:
        """Append to a file of the CI system; a failure does not change the job's outcome."""
        try:
            with file.open("a", encoding="utf-8") as opened:
                opened.write(_gap(file) + text)
        except OSError as error:
            self._job.annotate("warning", "Not written", f"{file}: {error.strerror}")


def _trouble(error: InterlockError) -> Trouble:
    if isinstance(error, problems.Refused):
        return Trouble(error.problem, error.detail or str(error),
                       problems.for_people(error.hint, error.retry_after_s))
    return Trouble(type(error).__name__, str(error), "Check --url, or $INTERLOCK_URL, and that the gateway runs.")


def _written(file: Path, content: bytes) -> None:
    try:
        file.write_bytes(content)
    except OSError as error:
        raise usage(f"{file} cannot be written: {error.strerror}.", "Name another file.") from None


def _gap(file: Path) -> str:
    """Return the end that the last line of a file lacks."""
    last = file.read_bytes()[-1:] if file.stat().st_size else b"\n"
    return "" if last == b"\n" else "\n"
