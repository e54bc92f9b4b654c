"""Apply settings to one session of an ACP agent, and report whether it asks before its tools (A-6, H-11)."""

from __future__ import annotations

import asyncio
import contextlib

from interlock.agents.acp import wire
from interlock.agents.acp.choices import Choices, SettingRequest
from interlock.jsonrpc import PeerLost, Rpc, RpcError
from interlock.ports.agent import AgentStart, AgentStartFailed, NotAsking, PromptSettings, SettingRefused
from interlock.protocol.payloads import AskingChanged

SET_TIMEOUT_S = 10.0
"""Limit of one request that sets a mode, model or option."""


class Controls:
    """Mode, model and options of one session. Changes by the agent itself reach `choices` by its updates."""

    def __init__(self, choices: Choices, rpc: Rpc, session_id: str, opening: AgentStart) -> None:
        self.choices = choices
        self._rpc = rpc
        self._session_id = session_id
        self._opening = opening
        self._reported = self.asks
        """The value of `asks` that the gateway knows."""
        self._reported_settings = self.choices.settings

    @property
    def asks(self) -> bool:
        """Return whether the agent asks before its tools with its current settings; never if its config states that it
        does not.
        """
        return self._opening.spec.asks and self.choices.not_asking is None

    async def open(self) -> None:
        """Set the configured opening mode, or one in which the agent asks, and check it (H-11). Raises
        AgentStartFailed."""
        spec = self._opening.spec
        if spec.mode:
            try:
                await self._set(self.choices.open_in(spec.mode))
            except SettingRefused as refused:
                raise AgentStartFailed(f"{refused} (`mode` in [agents.{self._opening.agent_id}])") from None
        elif spec.asks:
            with contextlib.suppress(SettingRefused):  # It stays in its mode, and its commands are held.
                await self._set(self.choices.open_asking())
            self.choices.opened()
        self._reported, self._reported_settings = self.asks, self.choices.settings

    async def switch(self, mode: str) -> None:
        """Switch to this mode until further notice (A-6). Raises SettingRefused."""
        await self._set(self.choices.switch(mode))
        self.choices.switched(mode)
        await self._report_settings()

    async def settle(self, settings: PromptSettings) -> None:
        """Apply the settings of the next prompt. Raises SettingRefused, and NotAsking before anything is sent."""
        if settings.only_if_asks:
            self._check_asks(self.choices.not_asking_with(settings))
        await self._set(self.choices.settle(settings))
        if settings.only_if_asks:
            self._check_asks(self.choices.not_asking)
        if self.asks:
            await self.report()
        else:
            await self._report_settings()

    def _check_asks(self, why_not: str | None) -> None:
        if why_not is not None or not self._opening.spec.asks:
            shown = f" in {why_not}" if why_not else ""
            raise NotAsking(f"The agent is not known to ask before its tools{shown}.")

    async def report(self) -> None:
        """Report that the agent has stopped asking, or asks again, if it changed by itself; then its settings, if they
        changed."""
        if self.choices.setting:
            return
        if self.asks != self._reported:
            await self._report_asking()
        await self._report_settings()

    async def _report_asking(self) -> None:
        self._reported = self.asks
        why_not = self.choices.not_asking
        sentence = ("The agent asks before its tools again." if why_not is None else
                    f"The agent was switched to {why_not}, in which it is not known to ask before its tools.")
        if self._opening.relay is not None:
            await self._opening.relay("x-interlock.asking.changed", AskingChanged(asks=self.asks, message=sentence), {})

    async def _report_settings(self) -> None:
        """Report its settings if they differ from the last report (J-14)."""
        settings = self.choices.settings
        if settings is not self._reported_settings and settings != self._reported_settings:
            self._reported_settings = settings
            if self._opening.relay is not None:
                await self._opening.relay("x-interlock.settings.changed", settings, {})

    async def _set(self, calls: list[SettingRequest]) -> None:
        for call in calls:
            with self.choices.calling(call):
                answer = await self._set_one(call)
            if answer is None:
                return  # The next prompt reports its end.
            self.choices.confirm(call, answer)

    async def _set_one(self, call: SettingRequest) -> list[wire.ConfigOption] | None:
        """Return the config options in the agent's answer; None if its process has ended."""
        try:
            async with asyncio.timeout(SET_TIMEOUT_S):
                answer = await self._rpc.request(call.method, {"sessionId": self._session_id, **call.params})
            return wire.options_in(answer)
        except TimeoutError:
            raise SettingRefused(f"The agent did not answer {call.method} within {SET_TIMEOUT_S:.0f} s.") from None
        except RpcError as error:
            raise SettingRefused(f"The agent refused the {call.slot} {call.value!r}: {error}") from None
        except PeerLost:
            return None
