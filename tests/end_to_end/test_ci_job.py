"""`interlock ci` as a pipeline starts it: a process without a terminal, against a gateway and a runner of processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from end_to_end.tasks import SubmittedTask, new_key
from interlock.cli.exit_status import ExitStatus
from interlock.command.audit.record_proof import check
from interlock.gateway.audit.signing_key import load_public_key
from proof.processes.stack import Stack

pytestmark = [pytest.mark.req("O-10"), pytest.mark.long]
ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60
SOON = ("--approval-timeout", "1s")
STARTED = re.compile(r"task (cmd_\w+) · session")


class Job:
    """A job that runs; its lines are read as they come."""

    def __init__(self, stack: Stack, process: subprocess.Popen[str]) -> None:
        self.stack = stack
        self.process = process
        self.lines: list[str] = []

    def until(self, words: str) -> str:
        """Wait for a line with these words."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if words in line:
                return self.lines[-1]
        raise AssertionError(f"no line has {words!r}: {self.lines}")

    @property
    def task(self) -> SubmittedTask:
        """The task that the job reported as started."""
        found = next(match for line in self.lines if (match := STARTED.search(line)))
        return SubmittedTask(self.stack, self.stack.get(f"/v1/commands/{found[1]}"))

    def ended(self) -> int:
        """Wait for its end; the exit status."""
        assert self.process.stdout is not None
        self.lines += [line.rstrip("\n") for line in self.process.stdout]
        return self.process.wait(PATIENCE_S)


def clean_environment() -> dict[str, str]:
    """The environment without the variables of the CI system that runs these tests."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "GITLAB_", "CI"))}


@contextmanager
def job(stack: Stack, workspace: Path, prompt: str, *options: str, key: str | None = None, **environ: str
        ) -> Generator[Job]:
    """Start a job."""
    owner = stack.headers["Authorization"].removeprefix("Bearer ")
    process = subprocess.Popen(
        [sys.executable, "-m", "interlock", "ci", "shell", prompt, "--state", str(workspace / ".state"),
         *(() if "--approval-timeout" in options else ("--approval-timeout", f"{PATIENCE_S}s")), *options],
        env={**clean_environment(), "INTERLOCK_URL": stack.url, "INTERLOCK_KEY": key or owner, **environ},
        cwd=workspace,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with process:
        try:
            yield Job(stack, process)
        finally:
            process.kill()


def github(tmp_path: Path, run: str, **more: str) -> dict[str, str]:
    return {"GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": run, "GITHUB_RUN_ATTEMPT": "1", "GITHUB_REPOSITORY": "o/r",
            "GITHUB_JOB": "build", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
            "GITHUB_OUTPUT": str(tmp_path / "output"), **more}


def test_a_job_whose_approval_is_decided_elsewhere_leaves_a_summary_and_a_proof(
    stack: Stack, workspace: Path, tmp_path: Path
) -> None:
    (tmp_path / "summary.md").write_text("# Before")
    prompt = "printf '::error::forged\\n##[error]forged\\n'"
    with job(stack, workspace, prompt, "--proof", str(tmp_path / "proof.json"), "--link", "https://gate.example",
             **github(tmp_path, "approved")) as at:
        asked = at.until("Approval needed")
        task = at.task
        approval = task.approval()
        assert asked.startswith("::notice title=Approval needed::$ printf")
        assert asked.endswith(f"answer at https://gate.example/a/{approval['id']}")
        assert task.vote("grant", approval).status_code == 200
        assert at.ended() == ExitStatus.DONE, at.lines

    log = "\n".join(at.lines)
    assert log.count(f"/a/{approval['id']}") == 1
    assert "| ::error::forged" in at.lines
    assert "| # #[error]forged" in at.lines
    assert not [line for line in at.lines if line.lstrip().startswith("::error")]
    summary = (tmp_path / "summary.md").read_text()
    assert summary.startswith("# Before\n## ✅ Interlock: succeeded\n")
    assert f"digest `{approval['digest']}`" in summary
    assert "decided by `user:owner`" in summary
    raw = (tmp_path / "proof.json").read_bytes()
    report = check(raw, load_public_key(stack.state / "gateway.pub"))
    assert report.ok, report.message
    assert {"enqueue", "tool_call", "approve", "complete"} <= {row.rpartition(" · ")[2] for row in report.rows}
    assert f"root of the Merkle tree: `{report.root}`" in summary
    outputs = dict(line.split("=", 1) for line in (tmp_path / "output").read_text().splitlines())
    assert outputs == {"command-id": task.id, "session-id": task.session_id, "state": "succeeded",
                       "proof": str(tmp_path / "proof.json")}


def test_the_documented_command_checks_the_proof_offline(stack: Stack, workspace: Path, tmp_path: Path) -> None:
    proof = tmp_path / "proof.json"
    with job(stack, workspace, "echo proven # free", "--proof", str(proof)) as at:
        assert at.ended() == ExitStatus.DONE, at.lines

    def verify(*more: str) -> subprocess.CompletedProcess[str]:
        words = ["audit", "verify", "--proof", str(proof), "--state", str(workspace), *more]
        return stack.interlock(*words)

    whole = verify("--key", str(stack.state / "gateway.pub"))
    assert (whole.returncode, whole.stdout.partition(":")[0]) == (ExitStatus.DONE, "ok"), whole
    assert f"records of {at.task.id} are in the signed log" in whole.stdout
    assert verify().returncode == ExitStatus.USAGE
    assert verify("audit.ndjson", "--key", str(stack.state / "gateway.pub")).returncode == ExitStatus.USAGE
    proof.write_text(proof.read_text().replace("user:owner", "user:mallory"))
    forged = verify("--key", str(stack.state / "gateway.pub"))
    assert forged.returncode == ExitStatus.FAILED
    assert re.match(r"not ok at record \d+ \(not included\): ", forged.stdout)


def test_an_approval_without_votes_in_time_cancels_the_task(stack: Stack, workspace: Path, tmp_path: Path) -> None:
    with job(stack, workspace, "echo never", *SOON, "--summary", str(tmp_path / "s.md")) as at:
        assert at.ended() == ExitStatus.REJECTED, at.lines
    assert at.task.command()["state"] == "canceled"
    assert any(line.startswith("error: Approval overdue: apr_") for line in at.lines)
    assert "was not decided within the pipeline's limit." in (tmp_path / "s.md").read_text()


def test_a_denial_is_named_and_sets_the_exit_status_of_run(stack: Stack, workspace: Path) -> None:
    with job(stack, workspace, "echo denied") as at:
        at.until("Approval needed")
        task = at.task
        assert task.vote("deny").status_code == 200
        status = at.ended()
    assert status == ExitStatus.DONE  # A denied tool alone does not fail the task; `run` does the same.
    assert any(line.startswith("✗ not run: $ echo denied · denied by user:owner") for line in at.lines)


@pytest.mark.parametrize(("number", "chosen", "status"), [
    (signal.SIGTERM, "cancel", ExitStatus.CANCELED), (signal.SIGINT, "cancel", ExitStatus.CANCELED),
    (signal.SIGTERM, "detach", ExitStatus.INTERRUPTED)])
def test_a_canceled_pipeline_cancels_the_task_or_leaves_it(
    stack: Stack, workspace: Path, number: signal.Signals, chosen: str, status: ExitStatus
) -> None:
    with job(stack, workspace, "echo later", "--on-cancel", chosen) as at:
        at.until("Approval needed")
        at.process.send_signal(number)
        assert at.ended() == status, at.lines
    task = at.task
    if chosen == "cancel":
        assert task.command()["state"] == "canceled"
    else:
        assert f"interlock attach {task.id}" in at.lines[-1]
        task.vote("grant")
        assert task.ended()["state"] == "succeeded"


def test_a_repeated_job_after_a_lost_one_follows_the_same_task(stack: Stack, workspace: Path, tmp_path: Path) -> None:
    prompt = "echo ran >> runs.txt"
    with job(stack, workspace, prompt, **github(tmp_path, "lost")) as lost:
        lost.until("Approval needed")
        lost.process.kill()
        lost.process.wait(PATIENCE_S)
    task = lost.task
    with job(stack, workspace, prompt, **github(tmp_path, "lost", GITHUB_RUN_ATTEMPT="2")) as again:
        assert task.id in again.until("task cmd_")
        task.vote("grant")
        assert again.ended() == ExitStatus.DONE, again.lines
    with job(stack, workspace, prompt, **github(tmp_path, "lost", GITHUB_RUN_ATTEMPT="3")) as third:
        assert third.ended() == ExitStatus.DONE, third.lines
    assert third.task.id == task.id
    assert (workspace / "runs.txt").read_text() == "ran\n"


def test_a_repeated_job_after_a_failed_task_runs_the_prompt_again(stack: Stack, workspace: Path) -> None:
    named = ("--run-key", "fails", *SOON)
    gitlab = {"GITLAB_CI": "true", "CI_PIPELINE_ID": "1", "CI_JOB_NAME": "j"}
    with job(stack, workspace, "echo no", *named, CI_JOB_ID="1", **gitlab) as first:
        assert first.ended() == ExitStatus.REJECTED
    with job(stack, workspace, "echo no", *named, CI_JOB_ID="2", **gitlab) as second:
        assert second.ended() == ExitStatus.REJECTED
    assert first.task.id != second.task.id
    assert any(f"{first.task.id} of an earlier try of this job is canceled" in line for line in second.lines)


def test_a_key_without_audit_rights_runs_without_a_proof_and_is_refused_one(
    stack: Stack, workspace: Path, tmp_path: Path
) -> None:
    made: dict[str, Any] = stack.post("/v1/keys", {"principal": {"type": "user", "id": "pipeline"},
                                                   "roles": ["operator"]}, new_key()).json()
    with job(stack, workspace, "echo plain # free", "--summary", str(tmp_path / "s.md"), key=made["key"]) as at:
        assert at.ended() == ExitStatus.DONE, at.lines
    assert "Not proven: `the key has none of the roles" in (tmp_path / "s.md").read_text()
    with job(stack, workspace, "echo plain # free", "--proof", str(tmp_path / "p.json"), key=made["key"]) as refused:
        assert refused.ended() == ExitStatus.NOT_AUTHORISED
    assert not any(STARTED.search(line) for line in refused.lines)


def test_the_job_continues_after_the_gateway_dies_in_the_middle(stack: Stack, workspace: Path) -> None:
    with job(stack, workspace, "echo before; until [ -e go ]; do sleep 0.1; done; echo after") as at:
        at.until("Approval needed")
        task = at.task
        task.vote("grant")
        at.until("by user:owner")  # From here on the job only listens, so it reports a lost connection at once.
        stack.kill("gateway")
        at.until("the connection to the gateway was lost")
        stack.start("gateway")
        at.until("connected to the gateway again")
        (workspace / "go").touch()
        assert at.ended() == ExitStatus.DONE, at.lines
    assert [line for line in at.lines if line in ("| before", "| after")] == ["| before", "| after"]


def step_of_the_action(inputs: dict[str, str], runner_temp: Path) -> tuple[str, dict[str, str]]:
    """The script of the action's step, and its environment with these inputs, as GitHub makes both."""
    action: dict[str, Any] = yaml.safe_load((ROOT / "actions" / "run" / "action.yml").read_text("utf-8"))
    given = {name: inputs.get(name, row.get("default", "")) for name, row in action["inputs"].items()}
    assert inputs.keys() <= given.keys()
    step = next(one for one in action["runs"]["steps"] if one["id"] == "run")
    values = {f"inputs.{name}": value for name, value in given.items()} | {"strategy.job-index": "0"}
    environ = {name: values[value.removeprefix("${{ ").removesuffix(" }}")] for name, value in step["env"].items()}
    program = runner_temp / "interlock" / "bin" / "interlock"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m interlock "$@"\n')
    program.chmod(0o755)
    return step["run"], {**environ, "RUNNER_TEMP": str(runner_temp)}


@contextmanager
def action(stack: Stack, workspace: Path, tmp_path: Path, run: str, **inputs: str) -> Generator[Job]:
    """Run the action's step as GitHub's runner does."""
    owner = stack.headers["Authorization"].removeprefix("Bearer ")
    named = {name.replace("_", "-"): value for name, value in inputs.items()}
    script, environ = step_of_the_action({"agent": "shell", "url": stack.url, "key": owner, "workspace": str(workspace),
                                          **named}, tmp_path / run)
    (tmp_path / f"{run}.sh").write_text(script)
    process = subprocess.Popen(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(tmp_path / f"{run}.sh")], cwd=tmp_path,
        env={**clean_environment(), "INTERLOCK_STATE": str(tmp_path / ".state"), **environ, **github(tmp_path, run)},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    with process:
        try:
            yield Job(stack, process)
        finally:
            process.kill()


def test_the_actions_step_runs_a_hostile_prompt_as_data(stack: Stack, workspace: Path, tmp_path: Path) -> None:
    prompt = "--state /\n$(touch pwned) `touch pwned` \"; touch pwned; exit 1 #' ${{ secrets.KEY }}"
    runner = stack.get("/v1/edge/nodes")["nodes"][0]["node_id"]
    with action(stack, workspace, tmp_path, "hostile", prompt=prompt, link="https://gate.example", timeout="5m",
                proof="proof.json", run_key="one; touch pwned", runner=runner, approval_timeout="2m",
                on_cancel="detach", on_rerun="again") as at:
        assert "https://gate.example/a/" in at.until("Approval needed")
        task = at.task
        command = task.command()
        assert command["payload"]["messages"][0]["content"][0]["value"] == prompt
        assert command["timeout_ms"] == 300_000
        task.vote("deny")
        assert at.ended() == ExitStatus.DONE, at.lines
    assert not list(tmp_path.rglob("pwned")) + list(workspace.rglob("pwned"))
    assert (tmp_path / "proof.json").is_file()
    assert f"command-id={task.id}\n" in (tmp_path / "output").read_text()


def test_the_cancel_signal_of_a_job_reaches_the_program(stack: Stack, workspace: Path, tmp_path: Path) -> None:
    with action(stack, workspace, tmp_path, "canceled", prompt="echo later") as at:
        at.until("Approval needed")
        at.process.send_signal(signal.SIGINT)
        assert at.ended() == ExitStatus.CANCELED, at.lines
    assert at.task.command()["state"] == "canceled"


@pytest.mark.parametrize(("inputs", "sentence"), [
    ({"agent": "--state=x", "prompt": "p"}, "begins with a dash"), ({"prompt": "p", "prompt_file": "f"}, "not both"),
    ({"prompt": ""}, "the prompt is empty"), ({"prompt_file": "missing"}, "cannot be read")])
def test_an_invalid_input_of_the_action_gives_one_sentence(
    stack: Stack, workspace: Path, tmp_path: Path, inputs: dict[str, str], sentence: str
) -> None:
    with action(stack, workspace, tmp_path, "wrong", **inputs) as at:
        assert at.ended() == ExitStatus.USAGE, at.lines
    assert sentence in "\n".join(at.lines)


def test_a_missing_gateway_and_an_invalid_argument_give_one_sentence_each(stack: Stack, workspace: Path) -> None:
    with job(stack, workspace, "echo x", key="ilk_wrong") as refused:
        assert refused.ended() == ExitStatus.NOT_AUTHORISED
    with job(stack, workspace, "echo x", "--approval-timeout", "soon") as wrong:
        assert wrong.ended() == ExitStatus.USAGE
    with job(stack, workspace, "echo x", "--proof", str(workspace / "none" / "p.json")) as nowhere:
        assert nowhere.ended() == ExitStatus.USAGE
    assert all(one.lines[-1].startswith("error[") for one in (refused, wrong, nowhere))
    assert not any(STARTED.search(line) for one in (refused, wrong, nowhere) for line in one.lines)


@pytest.mark.parametrize("ci_system", ["GitHub", "another"])
def test_a_refusal_is_one_line_in_the_log(stack: Stack, workspace: Path, tmp_path: Path, ci_system: str) -> None:
    environ = github(tmp_path, "refused") if ci_system == "GitHub" else {}
    with job(stack, workspace, "echo x", key="ilk_wrong", **environ) as refused:
        assert refused.ended() == ExitStatus.NOT_AUTHORISED
    errors = [line for line in refused.lines if "error" in line]
    assert len(errors) == 1, refused.lines
    assert errors[0].startswith("::error title=" if ci_system == "GitHub" else "error[")
