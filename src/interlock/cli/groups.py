"""Verbs that do something by themselves and have verbs below them, as `verbs.GROUPED` names them.

A group is created when its name is looked up, so that a process imports only the modules of the verb that it runs: a
runner that had imported those of every list was twice as large.
"""

from __future__ import annotations

from importlib import import_module
from typing import NamedTuple

from cyclopts import App

from interlock.cli import verbs
from interlock.cli.verbs import CliVerb, add, examples


class VerbGroup(NamedTuple):
    """A group's own line, its action without a further word (a `place` as of a verb), and the verbs below it."""

    verb: CliVerb
    itself: str
    below: tuple[CliVerb, ...]


GROUPS = {
    "agents": VerbGroup(verbs.AGENTS, "agents.agents:agents", verbs.AGENTS_VERBS),
    "runner": VerbGroup(verbs.RUNNER, "host.processes:runner", verbs.RUNNER_VERBS),
    "service": VerbGroup(verbs.SERVICE, "host.install:services", verbs.SERVICE_VERBS),
    "sessions": VerbGroup(verbs.SESSIONS, "tasks.lists:sessions", verbs.SESSIONS_VERBS),
    "runners": VerbGroup(verbs.RUNNERS, "operations.runners:runners", verbs.RUNNERS_VERBS),
    "policy": VerbGroup(verbs.POLICY, "policy.policy_verbs:show", verbs.POLICY_VERBS),
    "trust": VerbGroup(verbs.TRUST, "policy.trusted_workspaces:trusted", verbs.TRUST_VERBS),
    "signing_keys": VerbGroup(verbs.SIGNING, "access.signing_keys:signing_keys", verbs.SIGNING_VERBS),
    "console": VerbGroup(verbs.CONSOLE, "access.console:console", verbs.CONSOLE_VERBS),
    "keys": VerbGroup(verbs.KEYS, "access.keys:keys", verbs.KEYS_VERBS),
    "tenants": VerbGroup(verbs.TENANTS, "access.tenants:tenants", verbs.TENANTS_VERBS),
    "webhooks": VerbGroup(verbs.WEBHOOKS, "operations.webhooks:webhooks", verbs.WEBHOOK_VERBS),
    "contexts": VerbGroup(verbs.CONTEXTS, "access.context_verbs:listing", verbs.CONTEXTS_VERBS),
    "cron": VerbGroup(verbs.CRON, "operations.cron_verbs:jobs", verbs.CRON_VERBS),
}


def __getattr__(name: str) -> App:
    """Create the group of this name. Raises AttributeError if there is none."""
    group = GROUPS.get(name)
    if group is None:
        raise AttributeError(name)
    module, _, function = group.itself.partition(":")
    app = App(name=group.verb.name, help=group.verb.line, help_prologue=examples(group.verb.examples),
              help_epilogue="", default_command=getattr(import_module(f"interlock.cli.{module}"), function))
    add(app, group.below, None)
    return app
