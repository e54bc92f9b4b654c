"""`interlock sessions compact`: have a session's agent compact its context, and print the outcome (T-6)."""

from __future__ import annotations

import time
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.config.place import NOWHERE, Here
from interlock.cli.display.terminal import print_sentence, printable, result, say
from interlock.cli.link.gateway_link import GatewayLink, ask_gateway
from interlock.cli.options import SessionNamed
from interlock.cli.verb_answer import print_value
from interlock.cli.verb_error import Trouble
from interlock.protocol.api.sessions import GET_FRAMES
from interlock.protocol.codes import Code
from interlock.protocol.resources import Compaction, Notice
from interlock.sdk.requests import sessions

REPORT_TIMEOUT_S = 360.0
"""An agent may take five minutes; after that it continues without being waited for."""
POLL_S = "20"


def compact(
    session: SessionNamed,
    /,
    *instructions: str,
    json: Annotated[bool, Parameter(help="Print the agent's report as one JSON document.")] = False,
    where: Here = NOWHERE,
) -> int:
    """Compact a session's conversation, and wait until it is done: its older part becomes a summary.

    Parameters
    ----------
    instructions
        What the summary must contain.
    """
    async def work(link: GatewayLink) -> dict[str, Any]:
        session_id = (await short_ids.session(link, session)).session_id
        compaction = await link.ask(sessions.compact(session_id, instructions=" ".join(instructions).strip() or None))
        say("the agent compacts its context …", "dim")
        report, sentence = await _answer_to(link, compaction)
        return {**report, "message": sentence}

    def show(report: dict[str, Any]) -> None:
        print_sentence(report["message"])
        if report.get("summary"):
            result(printable(str(report["summary"])))

    return print_value(ask_gateway(where, work), show, json=json)


class _Frame(msgspec.Struct):
    type: str
    payload: dict[str, Any] = {}
    metadata: dict[str, Any] = {}


class _Event(msgspec.Struct):
    kind: str
    frame: _Frame | None = None
    notice: Notice | None = None


class _Page(msgspec.Struct):
    """The members of a page of the session's stream that are read."""

    events: list[_Event]
    next_cursor: str


async def _answer_to(link: GatewayLink, compaction: Compaction) -> tuple[dict[str, Any], str]:
    """Read the stream until the compaction is settled; returns the agent's report, {} if a hook wrote the summary, and
    the gateway's statement. A report alone settles nothing: the gateway may drop it. Raises Trouble if the compaction
    failed, or does not end in time."""
    until, cursor, report, waits = time.monotonic() + REPORT_TIMEOUT_S, compaction.cursor, dict[str, Any](), False
    while time.monotonic() < until:
        page = await link.read(GET_FRAMES.at(compaction.session_id), _Page, {"since": cursor, "wait": POLL_S})
        cursor = page.next_cursor
        for event in page.events:
            if event.notice is not None and event.notice.code == "Compacted" and (report or not compaction.message_id):
                return report, event.notice.message
            if event.notice is not None and event.notice.code == "CompactionFailed":
                raise Trouble("COMPACTION_FAILED", event.notice.message)
            frame = event.frame if event.kind == "C" else None
            if frame is not None and frame.payload.get("error_code") == Code.WORKSPACE_NOT_TRUSTED and not waits:
                waits = True  # The session is closed then; the request is sent again after an approval.
                say(f"{printable(frame.payload.get('message', ''))} It continues once allowed: interlock approve",
                    "bold", "interlock approve")
            elif frame is not None and frame.type == "session.closed":
                if waits:
                    waits = False
                    continue
                raise Trouble("AgentExited", f"The session was closed: {frame.payload.get('reason')}.",
                              f"Look at it with: interlock sessions {compaction.session_id}")
            if frame is not None and frame.type == "session.compacted" \
                    and frame.payload.get("request_id") == compaction.request_id:
                report = frame.payload
    raise Trouble("Timeout", f"The agent has not answered within {REPORT_TIMEOUT_S:.0f} s; it may still.",
                  f"Look at it with: interlock sessions {compaction.session_id}")
