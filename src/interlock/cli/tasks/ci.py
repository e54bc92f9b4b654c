"""`interlock ci`: run a prompt as a job of a pipeline. It asks no questions: approvals are answered elsewhere
(O-10)."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from interlock.cli.config.place import NOWHERE, Here
from interlock.cli.display.values import milliseconds
from interlock.cli.options import NAMED_DIRECTORY
from interlock.cli.tasks.pipeline import JobOptions, drive
from interlock.cli.tasks.run import MAX_WORDS_BYTES, whole_prompt
from interlock.cli.verb_error import usage
from interlock.protocol.identifiers import AGENT_ID

STDIN = Path("-")


def ci(
    agent: str,
    /,
    *prompt: str,
    prompt_file: Annotated[Path | None, Parameter(allow_leading_hyphen=True, help=(
        "Read the prompt from this file, - for standard input; it is appended to PROMPT."))] = None,
    workspace: Annotated[Path | None, NAMED_DIRECTORY, Parameter(
        help="Where the agent works, on its host (default: here).")] = None,
    runner: Annotated[str | None, Parameter(help="The runner to use: its id, its name or a unique beginning.")] = None,
    timeout: Annotated[str | None, Parameter(
        help="End the task after this working time: 90s, 15m, 2h (default: the config's, else 1h).")] = None,
    approval_timeout: Annotated[str, Parameter(
        help="Cancel the task if an approval waits for longer than this (default: 30m).")] = "30m",
    summary: Annotated[Path | None, Parameter(
        help="Write the summary, in Markdown, to this file (default: append it to $GITHUB_STEP_SUMMARY).")] = None,
    proof: Annotated[Path | None, Parameter(
        help="Write a proof that the audit log contains this task to this file; the key needs the role "
             "auditor.")] = None,
    link: Annotated[str | None, Parameter(
        help="The gateway's URL for people, if it differs from --url; links to approvals start with it.")] = None,
    run_key: Annotated[str | None, Parameter(
        help="The job's name: a run with the same name follows the same task. GitHub and GitLab set it "
             "themselves.")] = None,
    on_rerun: Annotated[Literal["attach", "again"], Parameter(
        help="When the CI system runs the job again: follow the earlier task unless it failed, or run "
             "the prompt again (default: attach, follow it).")] = "attach",
    on_cancel: Annotated[Literal["cancel", "detach"], Parameter(
        help="When the CI system cancels the job: cancel the task, or leave it running (default: cancel).")] = \
        "cancel",
    where: Here = NOWHERE,
) -> int:
    """Run a prompt in a pipeline: nothing is asked here, approvals are waited for, the exit status is that of `run`.

    Parameters
    ----------
    agent
        The agent's id: `interlock agents` lists them.
    prompt
        The prompt.
    """
    if not AGENT_ID.fullmatch(agent):
        raise usage(f"{agent!r} is not an agent's id.", "List the agents with: interlock agents")
    words = (*prompt, *([_text_of(prompt_file)] if prompt_file is not None else []))
    here = Path(os.path.abspath(workspace if workspace is not None else Path.cwd()))  # noqa: PTH100
    github = os.environ.get("GITHUB_STEP_SUMMARY")
    options = JobOptions(
        agent=agent, prompt=whole_prompt(words, read_stdin=False, verb="ci"), workspace=str(here), runner=runner,
        timeout_ms=milliseconds(timeout, "--timeout") if timeout is not None else None,
        approval_limit_s=milliseconds(approval_timeout, "--approval-timeout") / 1000,
        summary=_writable(summary, "--summary"), added_summary=Path(github) if github and summary is None else None,
        proof=_writable(proof, "--proof"), link=link, run_key=run_key, rerun=on_rerun == "again", on_cancel=on_cancel)
    return asyncio.run(drive(options, where, os.environ))


def _text_of(file: Path) -> str:
    """Read the prompt. Raises Trouble if it is missing, too long, or not text."""
    try:
        if file == STDIN:
            raw = sys.stdin.buffer.read(MAX_WORDS_BYTES + 1)
        else:
            with file.open("rb") as opened:
                raw = opened.read(MAX_WORDS_BYTES + 1)
        return raw.decode()
    except OSError as error:
        raise usage(f"--prompt-file {file} cannot be read: {error.strerror}.", "Check the path.") from None
    except UnicodeDecodeError:
        raise usage(f"--prompt-file {file} is not text in UTF-8.", "Convert it first.") from None


def _writable(file: Path | None, option: str) -> Path | None:
    """Check before anything is submitted that the file can be created. Raises Trouble."""
    if file is not None and (file.is_dir() or not os.access(file.absolute().parent, os.W_OK)):
        raise usage(f"{option} {file} cannot be written.", "Name a file in a directory that is there.")
    return file
