"""The settings of a prompt, and whether the agent supports them (A-6)."""

from __future__ import annotations

from interlock.ports.agent import Agent, MayStopAsking, NotAsking, PromptSettings, SettingRefused, TakesSettings
from interlock.protocol import payloads as p


def settings_of(payload: p.PromptRequest) -> PromptSettings:
    """Return a prompt's own settings."""
    return PromptSettings(payload.mode, payload.model, payload.options or {}, payload.system_append, payload.silent,
                          payload.context, payload.only_if_asks)


def switches(features: p.Features) -> bool:
    """Return whether the agent has modes at all; its adapter decides which can be chosen (A-6)."""
    return features.plan_mode or bool(features.modes)


def asks(agent: Agent, features: p.Features) -> bool:
    """Return whether the agent asks before its tools, with its current settings (H-11)."""
    return agent.asks if isinstance(agent, MayStopAsking) else features.permission == "asks"


def missing(wanted: PromptSettings, features: p.Features) -> str | None:
    """Return the feature that the prompt needs and the agent lacks."""
    needs = (
        ("plan_mode", wanted.mode is not None and not switches(features)),
        ("model_switch", wanted.model is not None and not features.model_switch),
        ("prompt_options", bool(wanted.options) and not features.prompt_options),
        ("system_append", wanted.system_append is not None and not features.system_append),
        ("context_owner", wanted.context is not None and features.context_owner != "gateway"),
    )
    return next((name for name, lacks in needs if lacks), None)


async def settle(agent: Agent, features: p.Features, wanted: PromptSettings) -> None:
    """Apply a prompt's settings to the agent. Raises SettingRefused, and then no turn begins."""
    lacking = missing(wanted, features)
    if lacking is not None:
        raise SettingRefused(f"This agent does not offer {lacking}.")
    if wanted.only_if_asks and features.permission != "asks" and not isinstance(agent, MayStopAsking):
        raise NotAsking("The agent does not ask before its tools.")
    if isinstance(agent, TakesSettings):
        await agent.settle(wanted)
