"""The modes, models and options that an ACP agent offers, and the requests that choose one (A-6). Pure."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import msgspec

from interlock.agents.acp import wire
from interlock.agents.acp.modes import ModeTable
from interlock.ports.agent import PromptSettings, SettingRefused
from interlock.protocol.limits import SETTING_ID_CHARS, SETTING_TEXT_CHARS, SETTING_VALUES_MAX
from interlock.protocol.payloads import AgentSetting, AgentSettings, SettingValue

MAX_MODES = 32
"""Modes of an agent that are reported and listed."""
MAX_MODE_CHARS = 100
MAX_LIST_CHARS = 500
"""Limit of the list of an agent's values in a refusal."""
PLAN = "plan"
_OPTION = "option "
"""Prefix of the slot of a config option that decides whether the agent asks, before its id."""
DEFAULT = "default"
_SLOTS = {"mode": "mode", "model": "model", "thought_level": "thinking", "thinking": "thinking"}
"""Categories of config options that are read, and the setting of each."""
_THINKING = frozenset({"thinking", "effort", "thought_level"})
"""Names in `options` for the thinking budget. No other option is changed: an unknown one could be the one that lets
tools run unasked."""
_HARMLESS = frozenset({"mode", "model", "model_config", "thinking", "thought_level"})
"""Categories of config options that do not affect whether an unknown agent asks; `asks` checks its mode."""


class SettingRequest(NamedTuple):
    """A request that changes a setting: method, parameters without the session, and the slot with its new value."""

    method: str
    params: dict[str, Any]
    slot: str
    value: str


class _Slot(NamedTuple):
    """A setting: its values by their names in lower case, and the request that changes it."""

    values: dict[str, str]
    method: str
    value_name: str
    more: dict[str, str]
    offered: list[SettingValue]
    """The values as the agent describes them, in its order."""


class Choices:
    """The settings of one session of an agent: what it offers, what it opened with, and the current values."""

    def __init__(self, loaded: wire.LoadedSession, trusted_modes: Iterable[str] = (),
                 asking: ModeTable = ModeTable(known=False)) -> None:  # noqa: B008 - a tuple, never changed.
        """Create the settings. `trusted_modes` are the modes that the agent's config allows beside the asking ones, by
        id or name."""
        self.setting = False
        """A request of ours is in progress: what the agent reports meanwhile is its answer."""
        self._trusted = frozenset(mode.lower() for mode in trusted_modes)
        self._asking = asking
        self._slots: dict[str, _Slot] = {}
        self._opened: dict[str, str] = {}
        if loaded.modes is not None:
            values = [_described(mode.id, mode.name, mode.description) for mode in loaded.modes.available_modes]
            self._offer("mode", values, loaded.modes.current_mode_id, "session/set_mode", "modeId")
        if loaded.models is not None:
            values = [_described(model.model_id, model.name, model.description)
                      for model in loaded.models.available_models]
            self._offer("model", values, loaded.models.current_model_id, "session/set_model", "modelId")
        for option in loaded.config_options:
            slot = self._slot_of(option)
            if slot is not None and slot not in self._slots and option.type == "select":
                self._offer(slot, _flat(option.options), option.current_value, "session/set_config_option", "value",
                            {"configId": option.id})
        self._session: dict[str, str] = {}
        self._now = dict(self._opened)
        self._shown: AgentSettings | None = None
        self._shown_of: tuple[dict[str, str], dict[str, str]] = ({}, {})

    def _slot_of(self, option: wire.ConfigOption) -> str | None:
        """Return the slot of an option that is read, including options that decide whether the agent asks."""
        slot = _SLOTS.get(option.category or "")
        decides = option.id in self._asking.options if self._asking.known else option.category not in _HARMLESS
        return _OPTION + option.id if decides else slot

    def _offer(self, slot: str, values: Iterable[SettingValue], current: Any, method: str, value_name: str,
               more: dict[str, str] | None = None) -> None:
        known: dict[str, str] = {}
        offered = list(values)
        for value in offered:
            known[value.id.lower()] = value.id
            known.setdefault((value.name or "").lower(), value.id)
        if known and isinstance(current, str):
            self._slots[slot] = _Slot(known, method, value_name, more or {}, offered)
            self._opened[slot] = current

    def offers(self, slot: str) -> bool:
        """Return whether `mode`, `model` or `thinking` can be chosen."""
        return slot in self._slots

    @property
    def plans(self) -> bool:
        """Return whether there is a mode for plans (features.plan_mode)."""
        mode = self._slots.get("mode")
        return mode is not None and PLAN in mode.values

    @property
    def modes(self) -> list[str]:
        """Return the ids of its modes, in the agent's order (features.modes); at most MAX_MODES, none longer than
        MAX_MODE_CHARS."""
        return [mode for mode in self._ids("mode") if len(mode) <= MAX_MODE_CHARS][:MAX_MODES]

    @property
    def settings(self) -> AgentSettings:
        """Return the available settings and their values (J-14); the same object until they change, since it is
        compared after each of the agent's messages."""
        if self._shown is None or self._shown_of != (self._now, self._opened):
            self._shown_of = (dict(self._now), dict(self._opened))
            self._shown = AgentSettings(mode=self._setting("mode"), model=self._setting("model"),
                                        thinking=self._setting("thinking"))
        return self._shown

    def _setting(self, name: str) -> AgentSetting | None:
        if name not in self._slots:
            return None
        offered, opened = self._slots[name].offered, self._opened.get("mode")
        values = [msgspec.structs.replace(one, allowed=name != "mode" or one.id == opened
                                          or self._may_choose(one.id, one.id.lower()))
                  for one in offered if len(one.id) <= SETTING_ID_CHARS][:SETTING_VALUES_MAX]
        return AgentSetting(current=self._now[name][:SETTING_ID_CHARS], values=values,
                            left_out=len(offered) - len(values))

    def _ids(self, slot: str) -> list[str]:
        return list(dict.fromkeys(self._slots[slot].values.values())) if slot in self._slots else []

    @property
    def not_asking(self) -> str | None:
        """Return which of its settings is not known to make it ask, in words for a sentence; None if it asks (H-11). An
        agent without modes asks unless its config sets another value."""
        return self._why_not(self._now)

    def _why_not(self, settings: Mapping[str, str]) -> str | None:
        mode = settings.get("mode")
        if mode is not None and not self._asks_in(mode):
            return f"its mode {mode!r}"
        for slot, value in settings.items():
            if slot.startswith(_OPTION):
                option = slot.removeprefix(_OPTION)
                if value != self._asking.options.get(option, self._opened[slot]):
                    return f"its option {option} = {value!r}"
        return None

    def _asks_in(self, mode_id: str) -> bool:
        return mode_id.casefold() in self._asking.modes

    @property
    def _asks_somewhere(self) -> bool:
        return any(self._asks_in(mode) for mode in self._ids("mode"))

    @property
    def mode(self) -> str | None:
        """Return the id of the current mode; None without modes."""
        return self._now.get("mode")

    @property
    def model(self) -> str | None:
        """Return the model that the agent opened with."""
        return self._opened.get("model")

    def reported(self, slot: str, value: str) -> None:
        """Apply the agent's own report of `mode`, `model` or `thinking`."""
        if slot in self._now:
            self._now[slot] = value

    def reported_options(self, options: list[wire.ConfigOption]) -> None:
        """Apply its report of its config options: in the answer to a request, or in an update."""
        for option in options:
            slot, value = self._slot_of(option), option.current_value
            if slot is None or not isinstance(value, str):
                continue
            # An agent that also lists `models` may use other names there.
            if slot == "mode" or slot.startswith(_OPTION) or value in self._ids(slot):
                self.reported(slot, value)

    def open_in(self, mode: str) -> list[SettingRequest]:
        """Return the requests for the configured opening mode; `default` means this mode from now on. Raises
        SettingRefused."""
        self._opened["mode"] = self._found(mode)
        return self._calls({"mode": self._opened["mode"]})

    def open_asking(self) -> list[SettingRequest]:
        """Return the requests that put a known agent into a mode in which it asks, if it opened in another (H-11)."""
        target = dict(self._opened)
        if "mode" in target and not self._asks_in(target["mode"]) and self._asking.open_in in self._ids("mode"):
            target["mode"] = self._asking.open_in
        for option, value in self._asking.options.items():
            if (slot := _OPTION + option) in target and value in self._ids(slot):
                target[slot] = value
        return self._calls(target)

    def opened(self) -> None:
        """Make the current settings those that `default` means and that each prompt returns to."""
        self._opened = dict(self._now)

    def not_asking_with(self, wanted: PromptSettings) -> str | None:
        """Return which of its settings for this prompt is not known to make it ask; None if it would ask. Raises
        SettingRefused."""
        return self._why_not(self._target(wanted))

    def switch(self, mode: str) -> list[SettingRequest]:
        """Return the requests for another mode of the session. Raises SettingRefused."""
        return self._calls({"mode": self._mode(mode)})

    def switched(self, mode: str) -> None:
        """Make this the mode of the session."""
        self._session["mode"] = self._mode(mode)

    def settle(self, wanted: PromptSettings) -> list[SettingRequest]:
        """Return the requests before a prompt, also those that undo the last prompt's settings. Raises SettingRefused.
        """
        return self._calls(self._target(wanted))

    def _target(self, wanted: PromptSettings) -> dict[str, str]:
        target = {**self._opened, **self._session}
        if wanted.mode is not None:
            target["mode"] = self._mode(wanted.mode)
        if wanted.model is not None:
            target["model"] = self._value("model", wanted.model)
        for name, value in wanted.options.items():
            if name not in _THINKING or "thinking" not in self._slots:
                raise SettingRefused(f"The agent offers no option {name!r} (prompt_options).")
            target["thinking"] = self._value("thinking", str(value))
        return target

    @contextmanager
    def calling(self, call: SettingRequest) -> Generator[None]:
        """Treat the request as applied while it is in progress, unless the agent reports otherwise or refuses."""
        before = self._now[call.slot]
        self._now[call.slot] = call.value
        self.setting = True
        try:
            yield
        except BaseException:
            if self._now[call.slot] == call.value:
                self._now[call.slot] = before
            raise
        finally:
            self.setting = False

    def confirm(self, call: SettingRequest, answer: list[wire.ConfigOption]) -> None:
        """Check the effect of the request, from the answer and the reports meanwhile. Raises SettingRefused if the
        agent reports another mode."""
        self.reported_options(answer)
        now = self._now.get(call.slot)
        if (call.slot == "mode" or call.slot.startswith(_OPTION)) and now != call.value:
            raise SettingRefused(f"The agent accepted the {call.slot} {call.value!r}, "
                                 f"but reports that its {call.slot} is {now!r}.")

    def _calls(self, target: dict[str, str]) -> list[SettingRequest]:
        calls: list[SettingRequest] = []
        for name, value in target.items():
            slot = self._slots[name]
            if self._now.get(name) != value:
                calls.append(SettingRequest(slot.method, {**slot.more, slot.value_name: value}, name, value))
        return calls

    def _mode(self, wanted: str) -> str:
        opened, word = self._opened.get("mode", ""), wanted.lower()
        if "mode" in self._slots and word in (DEFAULT, "act") and self._asks_in(opened):
            return opened
        found = self._found(wanted)
        if found != opened and not self._may_choose(found, word):
            choosable = [mode for mode in self._ids("mode") if mode == opened or self._may_choose(mode, mode.lower())]
            raise SettingRefused(f"The agent's mode {wanted!r} could let tools run unasked, so it is not chosen; "
                                 f"these can be: {_listed(choosable)}. The agent's `modes` in the config can allow it.")
        return found

    def _found(self, wanted: str) -> str:
        slot = self._slots.get("mode")
        found = slot.values.get(wanted.lower()) if slot is not None else None
        if found is None:
            # A client that supports plans must learn that the feature is missing.
            feature = " (plan_mode)" if wanted.lower() == PLAN else ""
            raise SettingRefused(f"The agent has no mode {wanted!r}{feature}; its modes are: "
                                 f"{_listed(self._ids('mode')) or 'none'}.")
        return found

    def _may_choose(self, mode_id: str, word: str) -> bool:
        # If an agent asks in no known mode, each command is held: none of its modes lets more run without asking.
        return bool({mode_id.lower(), word} & self._trusted) or self._asks_in(mode_id) or not self._asks_somewhere

    def _value(self, name: str, wanted: str) -> str:
        slot = self._slots.get(name)
        value = slot.values.get(wanted.lower()) if slot is not None else None
        if value is None:
            raise SettingRefused(f"The agent offers no {name} {wanted!r}; it has: "
                                 f"{_listed(self._ids(name)) or 'none'}.")
        return value


def _listed(values: list[str]) -> str:
    return ", ".join(values)[:MAX_LIST_CHARS]


def _described(value: str, name: str, description: str | None) -> SettingValue:
    return SettingValue(id=value, name=name[:SETTING_TEXT_CHARS] or None,
                        description=(description or "")[:SETTING_TEXT_CHARS] or None)


def _flat(options: list[dict[str, Any]]) -> Iterator[SettingValue]:
    """Yield a select's values, also those in groups."""
    for option in options:
        value, grouped, description = option.get("value"), option.get("options"), option.get("description")
        if isinstance(value, str):
            yield _described(value, str(option.get("name") or value),
                             description if isinstance(description, str) else None)
        elif isinstance(grouped, list):
            yield from _flat([cast("dict[str, Any]", one) for one in cast("list[Any]", grouped)
                              if isinstance(one, dict)])
