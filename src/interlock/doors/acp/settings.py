"""The settings of a session that an editor can change, as ACP's config options and modes, and its choices (O-5). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from interlock.protocol import payloads as p

NAME_CHARS = 64
"""Characters of a refused name or value that are repeated in the error."""


class _Option(NamedTuple):
    title: str
    category: str


MODE = "mode"
OPTIONS: Mapping[str, _Option] = {
    MODE: _Option("Mode", "mode"), "model": _Option("Model", "model"), "thinking": _Option("Thinking", "thought_level"),
}
"""By their ids, which are the names of the fields of AgentSettings."""


class EditorSettings:
    """One session's settings. The editor's choices apply to its own prompts only."""

    def __init__(self) -> None:
        self._modes: Sequence[p.SettingValue] = ()
        """The modes of an agent that reports only their ids."""
        self._reported: p.AgentSettings | None = None
        self.chosen: dict[str, str] = {}
        self.version = 0
        """Changes with each report of the agent."""

    def take(self, reported: p.AgentSettings | None, modes: Sequence[str] | None = None) -> None:
        """Apply a report of the agent; `modes` are the ids in its capabilities."""
        self._reported = reported
        if modes is not None:
            self._modes = [p.SettingValue(id=mode) for mode in modes]
        self.version += 1

    def values(self, option: str) -> list[p.SettingValue]:
        """Return the values of an option; none for an option that the agent does not have."""
        setting = self._setting(option)
        found = setting.values if setting is not None else self._modes if option == MODE else ()
        return [value for value in found if value.allowed or value.id == self._now(option)]

    def current(self, option: str) -> str:
        """Return the known value for the next prompt. Only for an option that has values."""
        return self.chosen.get(option) or self._now(option) or self.values(option)[0].id

    def choose(self, option: str, value: Any) -> None:
        """Apply the editor's choice. Raises ValueError with a sentence. A mode of an agent that has not reported any is
        accepted unchecked: the agent refuses it if it does not exist."""
        known = [one.id for one in self.values(option)]
        if not isinstance(value, str) or not value or (value not in known if known else option != MODE):
            raise ValueError(f"The agent has no {option} {str(value)[:NAME_CHARS]!r}; it has: "
                             f"{', '.join(known) or 'none'}.")
        self.chosen[option] = value

    def known(self) -> list[str]:
        """Return the ids of the existing options."""
        return [option for option in OPTIONS if self.values(option)]

    def config_options(self) -> list[dict[str, Any]]:
        """Return ACP's config options."""
        return [{"id": option, "name": OPTIONS[option].title, "category": OPTIONS[option].category, "type": "select",
                 "currentValue": self.current(option),
                 "options": [{"value": value.id, **_named(value)} for value in self.values(option)]}
                for option in self.known()]

    def modes(self) -> dict[str, Any]:
        """Return ACP's `modes`. Only for an agent that has some."""
        return {"currentModeId": self.current(MODE),
                "availableModes": [{"id": mode.id, **_named(mode)} for mode in self.values(MODE)]}

    def _setting(self, option: str) -> p.AgentSetting | None:
        return getattr(self._reported, option) if self._reported is not None else None

    def _now(self, option: str) -> str | None:
        setting = self._setting(option)
        return setting.current if setting is not None else None


def _named(value: p.SettingValue) -> dict[str, Any]:
    return {"name": value.name or value.id, **({"description": value.description} if value.description else {})}
