"""Faults that a relay between the two sides can inject, to show which line of the table notices them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from typing import Any, cast

from proof.independent_peers.peer_client import Answer, Document
from proof.independent_peers.profile import Frame


class Break:
    """A relay. This one changes nothing. `noticed_by` names the plays that must not hold under it."""

    says = "nothing is broken"
    noticed_by: tuple[str, ...] = ()

    def to_peer(self, frame: Frame) -> Iterable[Frame]:
        """A frame from our side on its way to the peer."""
        return (frame,)

    def to_ours(self, kind: str, payload: Any) -> tuple[str, Any]:
        """A frame of the peer on its way to our side."""
        return kind, payload

    def answer(self, method: str, path: str, answer: Answer) -> Answer:
        """An answer of our gateway on its way to the client."""
        del method, path
        return answer

    def agent(self, agent_id: str) -> str:
        """The agent that is opened."""
        return agent_id


HONEST = Break()


class LossUnreported(Break):
    says = "no notice of lost frames reaches anybody"
    noticed_by = ("the_gateway_reports_a_loss",)

    def answer(self, method: str, path: str, answer: Answer) -> Answer:
        def without(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: without(inner) for name, inner in cast(Document, value).items()}
            if isinstance(value, list):
                return [without(inner) for inner in cast(list[Any], value)
                        if not (isinstance(inner, dict) and "lost_frame_count" in json.dumps(inner))]
            return value
        return answer._replace(body=without(answer.body))


class FatalForgotten(Break):
    says = "a fatal session.error arrives as one that is not"
    noticed_by = ("a_fatal_error_ends_the_session", "a_fatal_error_of_the_master_ends_the_session")

    def to_ours(self, kind: str, payload: Any) -> tuple[str, Any]:
        return kind, {**payload, "fatal": False} if kind == "session.error" else payload


class UsageLost(Break):
    says = "session.usage does not arrive"
    noticed_by = ("usage_follows_each_turn", "exit_0_is_a_turns_end")

    def to_peer(self, frame: Frame) -> Iterable[Frame]:
        return () if frame["type"] == "session.usage" else (frame,)

    def to_ours(self, kind: str, payload: Any) -> tuple[str, Any]:
        return ("x-relay.lost", {}) if kind == "session.usage" else (kind, payload)


class HistoryLost(Break):
    says = "session.history does not arrive; its frames come bare"
    noticed_by = ("history_comes_first",)

    def to_peer(self, frame: Frame) -> Iterable[Frame]:
        return frame["payload"]["frames"] if frame["type"] == "session.history" else (frame,)


class ToolUnnamed(Break):
    says = "an interaction request has no context.tool_name"
    noticed_by = ("a_process_asks_and_is_answered",)

    def to_peer(self, frame: Frame) -> Iterable[Frame]:
        if frame["type"] == "agent.interaction.request":
            context = {name: value for name, value in frame["payload"]["context"].items() if name != "tool_name"}
            frame = {**frame, "payload": {**frame["payload"], "context": context}}
        return (frame,)


class TimeoutAllows(Break):
    says = "control.interaction.timeout arrives as a yes"
    noticed_by = ("a_timeout_is_a_denial",)

    def to_ours(self, kind: str, payload: Any) -> tuple[str, Any]:
        if kind != "control.interaction.timeout":
            return kind, payload
        return "control.interaction.response", {**payload, "decision": "allow", "by": "the relay", "option_id": "y"}


class RefusalSilent(Break):
    says = "a session.error does not arrive"
    noticed_by = ("a_second_prompt_is_refused", "compact_is_refused_if_unsupported",
                  "mode_is_refused_if_unsupported")

    def to_peer(self, frame: Frame) -> Iterable[Frame]:
        return () if frame["type"] == "session.error" else (frame,)


class SignalUnnamed(Break):
    says = "an exit by a signal is reported as any other exit"
    noticed_by = ("exit_by_signal",)

    def to_peer(self, frame: Frame) -> Iterable[Frame]:
        if frame["type"] == "agent.error":
            frame = {**frame, "payload": {**frame["payload"], "error_code": "PROCESS_EXIT"}}
        return (frame,)


class VariableUnset(Break):
    says = "the agent is started without RAWP_WORKSPACE_PATH"
    noticed_by = ("the_environment_of_an_agent",)

    def agent(self, agent_id: str) -> str:
        return "unset" if agent_id == "single" else agent_id


class KilledAtOnce(Break):
    says = "SIGTERM kills, without the five seconds"
    noticed_by = ("sigterm_then_sigkill",)

    def agent(self, agent_id: str) -> str:
        return "killed" if agent_id == "stubborn" else agent_id


class GrantsUncounted(Break):
    says = "a command is shown as queued while grants are missing"
    noticed_by = ("pending_until_granted",)

    def answer(self, method: str, path: str, answer: Answer) -> Answer:
        if answer.fields.get("state") == "pending_approval":
            return answer._replace(body={**answer.fields, "state": "queued"})
        return answer


class RetryDoubled(Break):
    says = "the answer to a retry names another command"
    noticed_by = ("a_retry_has_the_same_answer",)

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def answer(self, method: str, path: str, answer: Answer) -> Answer:
        if method == "POST" and path == "/commands" and answer.fields:
            name = str(answer.fields.get("id"))
            if name in self._seen:
                return answer._replace(body={**answer.fields, "id": "cmd_another"})
            self._seen.add(name)
        return answer


class AuditRewritten(Break):
    says = "an audit record reads otherwise the second time"
    noticed_by = ("the_log_only_grows",)

    def __init__(self) -> None:
        self._read = False

    def answer(self, method: str, path: str, answer: Answer) -> Answer:
        if not path.startswith("/audit?") or not self._read:
            self._read = self._read or path.startswith("/audit?")
            return answer
        body = copy.deepcopy(answer.body)
        body["items"][0]["record"]["action"] = "reject"
        return answer._replace(body=body)


class DoorOpen(Break):
    says = "a request without a key is answered as if it had one"
    noticed_by = ("every_path_needs_a_key",)

    def answer(self, method: str, path: str, answer: Answer) -> Answer:
        return answer._replace(status=200, body={}) if answer.status == 401 else answer


BREAKS: dict[str, type[Break]] = {
    "loss-unreported": LossUnreported, "fatal-forgotten": FatalForgotten, "usage-lost": UsageLost,
    "history-lost": HistoryLost, "tool-unnamed": ToolUnnamed, "timeout-allows": TimeoutAllows,
    "refusal-silent": RefusalSilent, "signal-unnamed": SignalUnnamed, "variable-unset": VariableUnset,
    "killed-at-once": KilledAtOnce, "grants-uncounted": GrantsUncounted, "retry-doubled": RetryDoubled,
    "audit-rewritten": AuditRewritten, "door-open": DoorOpen,
}
