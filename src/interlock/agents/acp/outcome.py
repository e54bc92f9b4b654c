"""Convert the end of an ACP prompt (agents.md) to a TurnOutcome (A-2). Pure."""

from __future__ import annotations

from typing import Any, cast

from interlock.agents.acp.wire import Prompted
from interlock.jsonrpc import INVALID_PARAMS, RpcError
from interlock.ports.agent import TurnOutcome, TurnUsage
from interlock.protocol.codes import Code
from interlock.protocol.payloads import StopReason

_STOPS: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "max_tokens": "max_tokens",
    "max_turn_requests": "max_tokens",
    "refusal": "end_turn",
    "cancelled": "cancelled",
}
_REFUSED = ("AgentRefused", "The agent refused to continue with this prompt.")

PROMPT_REFUSED = "PromptRefused"
"""The code of a prompt that the agent does not accept (JSON-RPC: invalid params): its model service is not at fault."""
AFTER_NO = ("AgentStopped", "The agent ended its turn because a permission was denied.")
EMPTY_TURN = ("EmptyTurn", "The agent ended its turn without text and without a tool call. Some agents do so when "
              "their model cannot be reached or refuses them: check the agent's own settings and log.")


def answered(result: Prompted, usage: TurnUsage) -> TurnOutcome:
    """Return the outcome of a prompt that was answered."""
    stop = _STOPS.get(result.stop_reason)
    notice = _REFUSED if result.stop_reason == "refusal" else None
    if stop is None:
        notice = ("UnknownStopReason", f"The agent ended its turn with {result.stop_reason[:100]!r}.")
    return TurnOutcome(stop or "end_turn", usage, exit_code=_exit_code(result.meta), notice=notice)


def failed(error: RpcError) -> TurnOutcome:
    """Return the outcome of a prompt answered with an error: a command of our own agent failed, the agent does not
    accept the prompt, or the agent itself failed."""
    exit_code = _exit_code(error.data)
    if exit_code is not None:
        return TurnOutcome("error", error=(Code.PROCESS_EXIT, str(error)), exit_code=exit_code)
    code = PROMPT_REFUSED if error.code == INVALID_PARAMS else Code.UPSTREAM_ERROR
    return TurnOutcome("error", error=(code, str(error)))


def _exit_code(holder: Any) -> int | None:
    """Return `interlock.exit_code` of an error's data or a result's `_meta`."""
    if not isinstance(holder, dict):
        return None
    ours = cast("dict[str, Any]", holder).get("interlock")
    code = cast("dict[str, Any]", ours).get("exit_code") if isinstance(ours, dict) else None
    return code if isinstance(code, int) else None
