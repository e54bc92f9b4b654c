"""Pure: what an ACP agent lets be chosen (modes, models, options), and which calls bring about a choice (A-6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, cast

from interlock.agents.acp import wire
from interlock.ports.agent import SettingRefused, Settings

UNGATED = frozenset({
    "acceptedits", "agent-full-access", "auto", "auto-edit", "auto_edit", "autoedit", "bypasspermissions", "dontask",
    "full-access", "yolo",
})  # fmt: skip
"""Modes in which agents let tools run unasked, by their id in lower case (A-10)."""
CHOSEN_BY_US = frozenset({"architect", "ask", "chat", "default", "plan", "read-only"})
"""Modes that are asked for, beside the one that an agent opened in: none of them lets more tools run unasked."""
PLAN = "plan"
DEFAULT = "default"
_CATEGORIES = {"mode": "mode", "model": "model", "thinking": "thought_level"}
_THINKING = frozenset({"thinking", "effort", "thought_level"})
"""Words of `options` that mean how long the agent thinks. No other option is touched: one that is not known could be
the very one that lets tools run unasked."""


class Call(NamedTuple):
    """One request that sets something: method, parameters but for the session, and what it sets to what."""

    method: str
    params: dict[str, Any]
    slot: str
    value: str


class _Slot(NamedTuple):
    """One thing that can be chosen: its values by their names in lower case, and how the agent is told."""

    values: dict[str, str]
    method: str
    value_name: str
    more: dict[str, str]


class Choices:
    """What one session of an agent offers, what it opened with, and what is set now."""

    def __init__(self, told: wire.LoadedSession) -> None:
        self._slots: dict[str, _Slot] = {}
        self._opened: dict[str, str] = {}
        if told.modes is not None:
            values = [(mode.id, mode.name) for mode in told.modes.available_modes]
            self._offer("mode", values, told.modes.current_mode_id, "session/set_mode", "modeId")
        if told.models is not None:
            values = [(model.model_id, model.name) for model in told.models.available_models]
            self._offer("model", values, told.models.current_model_id, "session/set_model", "modelId")
        for option in told.config_options:
            slot = next((name for name, category in _CATEGORIES.items() if category == option.category), None)
            if slot is not None and slot not in self._slots and option.type == "select":
                self._offer(slot, _flat(option.options), option.current_value, "session/set_config_option", "value",
                            {"configId": option.id})
        self._session: dict[str, str] = {}
        self._now = dict(self._opened)

    def _offer(self, slot: str, values: Iterable[tuple[str, str]], opened: Any, method: str, value_name: str,
               more: dict[str, str] | None = None) -> None:
        known: dict[str, str] = {}
        for value, name in values:
            known[value.lower()] = value
            known.setdefault(name.lower(), value)
        if known and isinstance(opened, str):
            self._slots[slot] = _Slot(known, method, value_name, more or {})
            self._opened[slot] = opened

    def offers(self, slot: str) -> bool:
        """Whether `mode`, `model` or `thinking` can be chosen."""
        return slot in self._slots

    @property
    def plans(self) -> bool:
        """Whether there is a mode for plans (features.plan_mode)."""
        mode = self._slots.get("mode")
        return mode is not None and PLAN in mode.values

    @property
    def gated(self) -> bool:
        """Whether the agent, in the mode that it is in, asks before its tools (A-10)."""
        return not ungated(self._now.get("mode", ""))

    @property
    def model(self) -> str | None:
        """The model that it opened with."""
        return self._opened.get("model")

    def heard_mode(self, mode_id: str) -> None:
        """The agent has changed its mode by itself."""
        if "mode" in self._now:
            self._now["mode"] = mode_id

    def switch(self, mode: str) -> list[Call]:
        """The calls for a mode from now on. Raises SettingRefused."""
        return self._calls({"mode": self._mode(mode)})

    def switched(self, mode: str) -> None:
        """The session has this mode from now on."""
        self._session["mode"] = self._mode(mode)

    def settle(self, wanted: Settings) -> list[Call]:
        """The calls before a prompt, those included that take back what the last one named. Raises SettingRefused."""
        target = {**self._opened, **self._session}
        if wanted.mode is not None:
            target["mode"] = self._mode(wanted.mode)
        if wanted.model is not None:
            target["model"] = self._value("model", wanted.model)
        for name, value in wanted.options.items():
            if name not in _THINKING or "thinking" not in self._slots:
                raise SettingRefused(f"The agent offers no option {name!r} (prompt_options).")
            target["thinking"] = self._value("thinking", str(value))
        return self._calls(target)

    def made(self, call: Call) -> None:
        """The agent has done as the call asked."""
        self._now[call.slot] = call.value

    def _calls(self, target: dict[str, str]) -> list[Call]:
        calls: list[Call] = []
        for name, value in target.items():
            slot = self._slots[name]
            if self._now.get(name) != value:
                calls.append(Call(slot.method, {**slot.more, slot.value_name: value}, name, value))
        return calls

    def _mode(self, asked: str) -> str:
        opened = self._opened.get("mode", "")
        word = asked.lower()
        if word in (DEFAULT, "act") and not ungated(opened):
            return opened
        found = self._value("mode", asked)
        known = found == opened or found.lower() in CHOSEN_BY_US or word in CHOSEN_BY_US
        if not known or ungated(found):
            raise SettingRefused(f"The agent's mode {asked!r} could let tools run unasked; Interlock never chooses "
                                 "such a one (plan_mode).")
        return found

    def _value(self, name: str, asked: str) -> str:
        slot = self._slots.get(name)
        value = slot.values.get(asked.lower()) if slot is not None else None
        if value is None:
            known = ", ".join(dict.fromkeys(slot.values.values())) if slot is not None else "none"
            raise SettingRefused(f"The agent offers no {name} {asked!r}; it has: {known[:500]}.")
        return value


def ungated(mode_id: str) -> bool:
    """Whether agents let tools run unasked in this mode."""
    return mode_id.lower() in UNGATED


def _flat(options: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """A select's values, those in groups too."""
    for option in options:
        value, grouped = option.get("value"), option.get("options")
        if isinstance(value, str):
            yield value, str(option.get("name") or value)
        elif isinstance(grouped, list):
            yield from _flat([cast("dict[str, Any]", one) for one in cast("list[Any]", grouped)
                              if isinstance(one, dict)])
