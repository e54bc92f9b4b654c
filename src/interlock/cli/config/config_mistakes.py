"""Mistakes of a config that can be found before it is used (G-1)."""

from __future__ import annotations

import difflib
from pathlib import Path

import msgspec

from interlock import config


def mistakes_of(state: Path) -> list[str]:
    """Check a state directory's config: its form, its adapters, and the secret files that it names. Secrets in
    variables are not checked, since they are in the environment of the gateway, not of this process."""
    path = state / config.FILE_NAME
    found = config.check(path)
    if found or not path.exists():
        return found
    text = path.read_text("utf-8-sig")
    loaded = config.parse(text, str(path))
    return [*_unfit_agents(path, text, loaded), *_bad_secrets(loaded, state)]


def _unfit_agents(path: Path, text: str, loaded: config.Config) -> list[str]:
    """Check the agents of the runner. An agent with an unknown adapter, or without its adapter's program, is offered as
    unable to start; here it is a mistake (A-7)."""
    from interlock.agents.registry import ADAPTERS, lacks_command

    found: list[str] = []
    lines = config.key_lines(text)
    for name, spec in loaded.agents.items():
        line = lines.get(("agents", name, "adapter"))
        if lacks_command(spec):
            found.append(f'{path}{f":{line}" if line else ""}: [agents.{name}] has no `command`, the program that the '
                         f'adapter "{spec.adapter}" starts; set it there.')
        elif spec.adapter not in ADAPTERS:
            near = difflib.get_close_matches(spec.adapter, ADAPTERS, 1)
            remedy = f'did you mean "{near[0]}"?' if near else f"known: {', '.join(sorted(ADAPTERS))}."
            found.append(f'{path}{f":{line}" if line else ""}: there is no adapter "{spec.adapter}"; {remedy}')
    return found


def _bad_secrets(loaded: config.Config, state: Path) -> list[str]:
    if not (loaded.hooks or loaded.ways()):
        return []
    from interlock.app.hooks import open_hooks
    from interlock.app.webhooks import open_ways
    from interlock.backends.outgoing.http import HttpOutgoing

    found: list[str] = []
    hooks = {name: one for name, one in loaded.hooks.items() if one.secret_file is not None}
    ways = msgspec.structs.replace(
        loaded, webhooks={name: one for name, one in loaded.webhooks.items() if one.secret_env is None},
        **{table: {name: one for name, one in notices.items() if one.variable is None}
           for table, notices in loaded.notices().items()})
    for opening in (lambda: open_hooks(msgspec.structs.replace(loaded, hooks=hooks), state),
                    lambda: open_ways(ways, state, HttpOutgoing(loaded.outgoing.allow))):
        try:
            opening()
        except config.ConfigError as error:
            found += error.sentences
    return found
