"""Identify a run of a pipeline, so that a repeated job finds the command of the lost one (M-1). Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from interlock.doors.ci.log_lines import LogStyle

ATTEMPTS_LOOKED_AT = 20
"""Earlier attempts of a job whose commands are searched; older ones are ignored."""


class PipelineRun(NamedTuple):
    """One job of one run. `parts` stay the same when the job is run again; `attempts` are its tries, the oldest first,
    the last one being the current one."""

    parts: tuple[str, ...]
    attempts: tuple[str, ...]

    def keys(self, body: bytes, *, rerun: bool) -> list[str]:
        """Return the idempotency key of each try for a request of these bytes, the oldest first; with `rerun` only
        that of this try."""
        attempts = self.attempts[-1:] if rerun else self.attempts[-ATTEMPTS_LOOKED_AT:]
        prompt = hashlib.sha256(body).hexdigest()
        return ["ci-" + hashlib.sha256(msgspec.json.encode([self.parts, one, prompt])).hexdigest() for one in attempts]


def run_of(environ: Mapping[str, str], run_key: str | None) -> PipelineRun | None:
    """Identify the current run; None if neither the environment nor a `run_key` names it."""
    own = ("key", run_key) if run_key is not None else ()
    if environ.get("GITHUB_ACTIONS") == "true" and environ.get("GITHUB_RUN_ID"):
        names = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID", "GITHUB_JOB", "GITHUB_ACTION",
                 "INTERLOCK_CI_JOB_INDEX")
        return PipelineRun(("github", *(environ.get(name, "") for name in names), *own),
                           _counted(environ.get("GITHUB_RUN_ATTEMPT", "1")))
    if environ.get("GITLAB_CI") == "true" and environ.get("CI_PIPELINE_ID"):
        names = ("CI_SERVER_URL", "CI_PROJECT_ID", "CI_PIPELINE_ID", "CI_JOB_NAME")
        return PipelineRun(("gitlab", *(environ.get(name, "") for name in names), *own),
                           ("", environ.get("CI_JOB_ID", "")))
    return PipelineRun(own, ("",)) if own else None


def style_of(environ: Mapping[str, str]) -> LogStyle:
    """Return the style of the log's commands."""
    return "github" if environ.get("GITHUB_ACTIONS") == "true" else "plain"


def _counted(attempt: str) -> tuple[str, ...]:
    number = int(attempt) if attempt.isascii() and attempt.isdigit() and len(attempt) < 7 else 1
    last = max(1, number)
    return tuple(map(str, range(max(1, last - ATTEMPTS_LOOKED_AT + 1), last + 1)))
