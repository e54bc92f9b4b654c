"""Verbs that do something by themselves and have verbs below them, as `verbs.GROUPED` names them."""

from __future__ import annotations

from collections.abc import Callable

from cyclopts import App

from interlock.cli.agents import agents as list_agents
from interlock.cli.console import console as open_console
from interlock.cli.cron_verbs import jobs as list_jobs
from interlock.cli.keys import keys as list_keys
from interlock.cli.lists import sessions as list_sessions
from interlock.cli.policy_verbs import show as show_policy
from interlock.cli.processes import runner as run_runner
from interlock.cli.runners import runners as list_runners
from interlock.cli.signing_keys import signing_keys as list_signing_keys
from interlock.cli.tenants import tenants as list_tenants
from interlock.cli.trusted_workspaces import trusted as list_trusted
from interlock.cli.verbs import (
    AGENTS,
    AGENTS_VERBS,
    CONSOLE,
    CONSOLE_VERBS,
    CRON,
    CRON_VERBS,
    KEYS,
    KEYS_VERBS,
    POLICY,
    POLICY_VERBS,
    RUNNER,
    RUNNER_VERBS,
    RUNNERS,
    RUNNERS_VERBS,
    SESSIONS,
    SESSIONS_VERBS,
    SIGNING,
    SIGNING_VERBS,
    TENANTS,
    TENANTS_VERBS,
    TRUST,
    TRUST_VERBS,
    WEBHOOK_VERBS,
    WEBHOOKS,
    CliVerb,
    add,
    examples,
)
from interlock.cli.webhooks import webhooks as list_webhooks


def _group(verb: CliVerb, itself: Callable[..., int], below: tuple[CliVerb, ...]) -> App:
    app = App(name=verb.name, help=verb.line, help_prologue=examples(verb.examples), help_epilogue="",
              default_command=itself)
    add(app, below, None)
    return app


agents = _group(AGENTS, list_agents, AGENTS_VERBS)
runner = _group(RUNNER, run_runner, RUNNER_VERBS)
sessions = _group(SESSIONS, list_sessions, SESSIONS_VERBS)
runners = _group(RUNNERS, list_runners, RUNNERS_VERBS)
policy = _group(POLICY, show_policy, POLICY_VERBS)
trust = _group(TRUST, list_trusted, TRUST_VERBS)
signing_keys = _group(SIGNING, list_signing_keys, SIGNING_VERBS)
console = _group(CONSOLE, open_console, CONSOLE_VERBS)
keys = _group(KEYS, list_keys, KEYS_VERBS)
tenants = _group(TENANTS, list_tenants, TENANTS_VERBS)
webhooks = _group(WEBHOOKS, list_webhooks, WEBHOOK_VERBS)
cron = _group(CRON, list_jobs, CRON_VERBS)
