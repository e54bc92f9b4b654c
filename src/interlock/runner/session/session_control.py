"""Control of a session, and its transfer (D-5): one gateway commands; others are refused with a reason."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from interlock.ports.outbox import GatewayRow, Outbox, PutController, RefuseControl
from interlock.ports.signals import Signal
from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Frame
from interlock.runner.session.session import RunnerSession

log = structlog.get_logger()

NotifyRefused = Callable[[str, str, p.RefusedControl], None]
"""Called with gateway_id, session_id and the refusal, once it is durable; must not wait."""


class TakeRefused(Exception):
    """Control cannot pass to that gateway; the text is one sentence for the user."""


def refusal(frame: Frame, controller: str) -> p.RefusedControl:
    """Return the answer to a gateway whose control frame is refused."""
    return p.RefusedControl(message_id=frame.message_id, error_code=Code.NOT_CONTROLLER, controller=controller,
                            message=f"Gateway {controller} controls this session; this one observes it.")


class ControllerRule:
    """Enforces one controller per session, for all sessions of a runner. Callers hold the session's `order`."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.on_refused = Signal[[str, str, p.RefusedControl]]()

    async def allows(self, session: RunnerSession, frame: Frame, gateway_id: str) -> bool:
        """Return whether the frame comes from the session's controller. Otherwise it is refused, which is its outcome
        (D-7)."""
        row = await self._outbox.session(session.session_id)
        controller = row.controller if row is not None else ""
        session.controlled_by(controller)
        if controller in ("", gateway_id):
            return True
        refused = refusal(frame, controller)
        session.state.note_handled(gateway_id, frame.seq or 0)
        await session.journal.write(RefuseControl(session.session_id, gateway_id, refused))
        await session.journal.durable()
        log.info("control refused", session_id=session.session_id, gateway_id=gateway_id, controller=controller)
        self.on_refused(gateway_id, session.session_id, refused)
        return False

    async def announce(self, session: RunnerSession, opening: p.SessionOpen) -> None:
        """Notify observers, if any, of a new opening and its controller."""
        if len(await self._outbox.gateways()) > 1 and session.state.opening == "closed":
            await session.journal.write(session.journal.frame("x-interlock.control.changed", p.ControlChanged(
                gateway_id=session.controller, agent_id=opening.agent_id, workspace=opening.workspace)))

    async def release(self, session: RunnerSession, frame: Frame, to: str) -> None:
        """Handle `control.session.release`: the controller passes the session on."""
        session.state.note_handled(session.controller, frame.seq or 0)
        try:
            await self.hand_over(session, to)
        except TakeRefused as refused:
            await session.journal.write(session.journal.session_error(Code.UNSUPPORTED_CAPABILITY, str(refused), False,
                                                                      frame.message_id))

    async def hand_over(self, session: RunnerSession, to: str) -> None:
        """Pass control; waiting questions are asked again. Durable when this returns. Raises TakeRefused."""
        known = await self._outbox.gateways()
        if not any(one.gateway_id == to for one in known):
            raise TakeRefused(f"This runner is attached to no gateway {to}; it knows: {_names(known)}.")
        row = await self._outbox.session(session.session_id)
        if row is not None and row.controller == to:
            return
        session.controlled_by(to)
        changed = p.ControlChanged(gateway_id=to, agent_id=session.state.agent_id, workspace=session.state.workspace)
        await session.journal.write(PutController(session.session_id, to),
                                    session.journal.frame("x-interlock.control.changed", changed), *session.ask_again())
        await session.journal.durable()
        log.info("control passed", session_id=session.session_id, gateway_id=to)


def _names(known: list[GatewayRow]) -> str:
    return ", ".join(one.gateway_id for one in known) or "none"
