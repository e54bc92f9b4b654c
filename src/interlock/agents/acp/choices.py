"""Pure: what an ACP agent lets be chosen (modes, models, options), and which calls bring about a choice (A-6)."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

from interlock.agents.acp import wire
from interlock.ports.agent import SettingRefused, Settings

UNGATED = frozenset({
    "accept-edits", "accept_edits", "acceptedits", "agent", "agent-full-access", "auto", "auto-approve", "auto-edit",
    "auto_edit", "autoedit", "bypasspermissions", "dont_ask", "dontask", "full-access", "smart_approve",
    "workspace-write", "yolo", "https://agentclientprotocol.com/protocol/session-modes#autopilot",
})  # fmt: skip
"""Modes in which agents let tools run unasked, by their id in lower case, as each agent spells it (A-10)."""
ASKING = frozenset({"approve", "architect", "ask", "chat", "default", "plan", "read-only"})
"""Modes that can be chosen beside the one that an agent opened in and those that its config names: in none of them do
agents let more tools run unasked."""
MAX_MODES = 32
"""Modes of an agent that are reported and listed."""
MAX_MODE_CHARS = 100
MAX_LIST_CHARS = 500
"""What a refusal lists of the values that an agent has."""
PLAN = "plan"
DEFAULT = "default"
_SLOTS = {"mode": "mode", "model": "model", "thought_level": "thinking", "thinking": "thinking"}
"""The categories of config options that are read, and what each of them sets."""
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

    def __init__(self, told: wire.LoadedSession, trusted_modes: Iterable[str] = ()) -> None:
        """`trusted_modes` are those that the agent's config allows beside ASKING, by id or name."""
        self._trusted = frozenset(mode.lower() for mode in trusted_modes)
        self._slots: dict[str, _Slot] = {}
        self._opened: dict[str, str] = {}
        if told.modes is not None:
            values = [(mode.id, mode.name) for mode in told.modes.available_modes]
            self._offer("mode", values, told.modes.current_mode_id, "session/set_mode", "modeId")
        if told.models is not None:
            values = [(model.model_id, model.name) for model in told.models.available_models]
            self._offer("model", values, told.models.current_model_id, "session/set_model", "modelId")
        for option in told.config_options:
            slot = _SLOTS.get(option.category or "")
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
    def modes(self) -> list[str]:
        """The ids of its modes, in the agent's order (features.modes); at most MAX_MODES, none longer than
        MAX_MODE_CHARS."""
        return [mode for mode in self._ids("mode") if len(mode) <= MAX_MODE_CHARS][:MAX_MODES]

    def _ids(self, slot: str) -> list[str]:
        return list(dict.fromkeys(self._slots[slot].values.values())) if slot in self._slots else []

    @property
    def gated(self) -> bool:
        """Whether the agent, in the mode that it is in, asks before its tools (A-10)."""
        return not ungated(self._now.get("mode", ""))

    @property
    def mode(self) -> str | None:
        """The id of the mode that it is in; None without modes."""
        return self._now.get("mode")

    @property
    def model(self) -> str | None:
        """The model that it opened with."""
        return self._opened.get("model")

    def reported(self, slot: str, value: str) -> None:
        """Take the agent's own report of what `mode`, `model` or `thinking` is set to."""
        if slot in self._now:
            self._now[slot] = value

    def reported_options(self, options: list[wire.ConfigOption]) -> None:
        """Take its report of its config options: in the answer to a call, or in an update."""
        for option in options:
            slot = _SLOTS.get(option.category or "")
            value = option.current_value
            # An agent that also lists `models` may name them otherwise there.
            if slot is not None and isinstance(value, str) and (slot == "mode" or value in self._ids(slot)):
                self.reported(slot, value)

    def open_in(self, mode: str) -> list[Call]:
        """The calls for the mode that the config wants the agent to open in; it is what `default` means from now on.
        Raises SettingRefused."""
        self._opened["mode"] = self._found(mode)
        return self._calls({"mode": self._opened["mode"]})

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

    @contextmanager
    def calling(self, call: Call) -> Generator[None]:
        """While the call is under way: the agent counts as set so unless it reports otherwise, or refuses."""
        before = self._now[call.slot]
        self._now[call.slot] = call.value
        try:
            yield
        except BaseException:
            if self._now[call.slot] == call.value:
                self._now[call.slot] = before
            raise

    def confirm(self, call: Call, answer: list[wire.ConfigOption]) -> None:
        """Read back what the call set, from the answer and what was reported meanwhile. Raises SettingRefused if the
        agent reports another mode."""
        self.reported_options(answer)
        now = self._now.get(call.slot)
        if call.slot == "mode" and now != call.value:
            raise SettingRefused(f"The agent accepted the mode {call.value!r}, but reports that it is in {now!r}.")

    def _calls(self, target: dict[str, str]) -> list[Call]:
        calls: list[Call] = []
        for name, value in target.items():
            slot = self._slots[name]
            if self._now.get(name) != value:
                calls.append(Call(slot.method, {**slot.more, slot.value_name: value}, name, value))
        return calls

    def _mode(self, asked: str) -> str:
        opened, word = self._opened.get("mode", ""), asked.lower()
        if "mode" in self._slots and word in (DEFAULT, "act") and not ungated(opened):
            return opened
        found = self._found(asked)
        if found != opened and not self._may_choose(found, word):
            choosable = [mode for mode in self._ids("mode") if mode == opened or self._may_choose(mode, mode.lower())]
            raise SettingRefused(f"The agent's mode {asked!r} could let tools run unasked, so it is not chosen; "
                                 f"these can be: {_listed(choosable)}. The agent's `modes` in the config can allow it.")
        return found

    def _found(self, asked: str) -> str:
        slot = self._slots.get("mode")
        found = slot.values.get(asked.lower()) if slot is not None else None
        if found is None:
            # A client that wants plans is to learn that the feature is missing.
            feature = " (plan_mode)" if asked.lower() == PLAN else ""
            raise SettingRefused(f"The agent has no mode {asked!r}{feature}; its modes are: "
                                 f"{_listed(self._ids('mode')) or 'none'}.")
        return found

    def _may_choose(self, mode_id: str, word: str) -> bool:
        if {mode_id.lower(), word} & self._trusted:
            return True
        return (mode_id.lower() in ASKING or word in ASKING) and not ungated(mode_id)

    def _value(self, name: str, asked: str) -> str:
        slot = self._slots.get(name)
        value = slot.values.get(asked.lower()) if slot is not None else None
        if value is None:
            raise SettingRefused(f"The agent offers no {name} {asked!r}; it has: {_listed(self._ids(name)) or 'none'}.")
        return value


def _listed(values: list[str]) -> str:
    return ", ".join(values)[:MAX_LIST_CHARS]


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
