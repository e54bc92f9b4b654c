"""Verbs that do something by themselves and have verbs below them: `runner` and `runners`."""

from __future__ import annotations

from collections.abc import Callable

from cyclopts import App

from interlock.cli.processes import runner as run_runner
from interlock.cli.runners import runners as list_runners
from interlock.cli.verbs import RUNNER, RUNNER_VERBS, RUNNERS, RUNNERS_VERBS, Verb, add, examples


def _group(verb: Verb, itself: Callable[..., int], below: tuple[Verb, ...]) -> App:
    app = App(name=verb.name, help=verb.line, help_prologue=examples(verb.examples), help_epilogue="",
              default_command=itself)
    add(app, below, None)
    return app


runner = _group(RUNNER, run_runner, RUNNER_VERBS)
runners = _group(RUNNERS, list_runners, RUNNERS_VERBS)
