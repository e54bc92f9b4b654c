"""The config of contexts in the engine's form (section 5 of the sessions)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec

from interlock.app.chats import host_zone
from interlock.channels.compaction_hook import CompactionHookSettings, HttpCompactionHook
from interlock.channels.webhook import read_secret
from interlock.config import Config, ConfigError
from interlock.config.contexts import BeforeCompactSection
from interlock.engine.bridge.context.context_state import CompactionRules
from interlock.ports.clock import Clock, Entropy
from interlock.ports.outbound_http import Outgoing, UrlRefused
from interlock.protocol.identifiers import uuid4
from interlock.session.context.compaction_plan import CompactionSettings, Flush
from interlock.session.context.tool_result_limits import PruningSettings

PLACE = "[compaction.beforeCompact]"


def compaction_rules(config: Config) -> CompactionRules:
    """Return sizes, windows, and the time zone of a flush's date."""
    section, defaults = config.compaction, config.defaults.compaction
    flush = defaults.memory_flush
    zone = config.session.time_zone
    pruning = msgspec.convert(msgspec.structs.asdict(config.defaults.context_pruning), PruningSettings)
    return CompactionRules(
        CompactionSettings(
            enabled=section.enabled, reserve_tokens=section.reserve_tokens,
            keep_recent_tokens=section.keep_recent_tokens, reserve_tokens_floor=defaults.reserve_tokens_floor,
            memory_flush=Flush(enabled=flush.enabled, soft_threshold_tokens=flush.soft_threshold_tokens,
                               prompt=flush.prompt, system_prompt=flush.system_prompt)),
        section.windows, ZoneInfo(zone) if zone is not None else host_zone(), pruning)


def compaction_hook(
    config: Config, state: Path, outgoing: Outgoing, clock: Clock, entropy: Entropy,
    environ: Mapping[str, str] = os.environ,
) -> HttpCompactionHook | None:
    """Return the hook that is called before each compaction; None if none is configured. Raises ConfigError if its
    secret cannot be read or its URL is not permitted."""
    section = config.compaction.before_compact
    if section is None:
        return None
    try:
        outgoing.check(section.url)
        hook = CompactionHookSettings(section.url, _secret(section, state, environ), section.timeout_ms / 1000,
                                      section.required)
        return HttpCompactionHook(hook, outgoing, clock, lambda: uuid4(entropy(16)))
    except OSError as error:
        raise ConfigError([f"{PLACE}: secretFile {error.filename} cannot be read: {error.strerror}. Make one with: "
                           "interlock webhooks secret"]) from None
    except (UrlRefused, ValueError) as error:
        raise ConfigError([f"{PLACE}: {error}"]) from None


def _secret(section: BeforeCompactSection, state: Path, environ: Mapping[str, str]) -> bytes:
    if section.secret_file is not None:
        place, text = f"secretFile {section.secret_file}", (state / section.secret_file).read_text("utf-8")
    else:
        named = section.secret_env or ""
        if named not in environ:
            raise ValueError(f"secretEnv: there is no variable {named} in the gateway's environment.")
        place, text = f"secretEnv {named}", environ[named]
    try:
        return read_secret(text)
    except ValueError as error:
        raise ValueError(f"{place} {error}. Make one with: interlock webhooks secret") from None
