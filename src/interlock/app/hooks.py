"""Hooks and cron jobs of the config in the gateway's form (R-4)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from zoneinfo import ZoneInfo

from interlock.app.chats import answering_agent, host_zone
from interlock.channels.webhook import read_secret
from interlock.config import Config, ConfigError, HookSection
from interlock.engine.cron import CronJob
from interlock.gateway.hooks import ConfiguredHook
from interlock.session.chat.chat_route import cron_key
from interlock.session.keys import canonical_agent, canonical_key

SECRET_CHARS_MIN = 16


def open_hooks(config: Config, state: Path, environ: Mapping[str, str] = os.environ) -> dict[str, ConfiguredHook]:
    """Read the secrets. Raises ConfigError with one sentence for each mistake."""
    hooks: dict[str, ConfiguredHook] = {}
    mistakes: list[str] = []
    for name, section in config.hooks.items():
        try:
            secret = _secret(section, state, environ)
        except OSError as error:
            mistakes.append(f"[hooks.{name}]: secret_file {error.filename} cannot be read: {error.strerror}.")
            continue
        except (ValueError, UnicodeDecodeError) as error:
            mistakes.append(f"[hooks.{name}]: {error}")
            continue
        hooks[name] = ConfiguredHook(
            name=name, tenant_id=section.tenant, auth=section.auth,
            agent_id=canonical_agent(section.agent or answering_agent(config)),
            secret=secret, message=section.message, key=section.key, workspace=section.workspace,
            signature_header=section.signature_header, token_header=section.token_header,
            delivery_header=section.delivery_header,
        )
    if mistakes:
        raise ConfigError(mistakes)
    return hooks


def _secret(section: HookSection, state: Path, environ: Mapping[str, str]) -> bytes:
    if section.secret_file is not None:
        place, text = f"secret_file {section.secret_file}", (state / section.secret_file).read_text("utf-8").strip()
    else:
        place, text = f"secret_env {section.secret_env}", environ.get(section.secret_env or "", "").strip()
        if not text:
            raise ValueError(f"{place}: there is no such variable in the gateway's environment.")
    if section.auth == "standard":
        try:
            return read_secret(text)
        except ValueError as error:
            raise ValueError(f"{place} {error}. Make one with: interlock webhooks secret") from None
    if len(text) < SECRET_CHARS_MIN:
        raise ValueError(f"{place} has {len(text)} characters; at least {SECRET_CHARS_MIN} keep it from being guessed. "
                         "Make one with: interlock webhooks secret")
    return text.encode()


def cron_jobs(config: Config) -> list[CronJob]:
    """Return the jobs of the config."""
    jobs: list[CronJob] = []
    for job_id, section in config.cron.items():
        agent_id = canonical_agent(section.agent or answering_agent(config))
        named = section.time_zone or config.session.time_zone
        jobs.append(CronJob(
            id=job_id, tenant_id=section.tenant, agent_id=agent_id, text=section.message, schedule=section.schedule,
            key=canonical_key(section.key, agent_id) if section.key is not None else cron_key(agent_id, job_id),
            zone=ZoneInfo(named) if named is not None else host_zone(), zone_name=named or "local",
            workspace=section.workspace or config.session.workspace, enabled=section.enabled,
        ))
    return jobs
