"""The results of the demonstration, and its failed checks. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from interlock.command.card.permission_request import title_of_approval
from interlock.demo.audit import Checked
from interlock.demo.outbox_file import OutboxState
from interlock.demo.stream_view import StreamView
from interlock.protocol.resources import Approval, Session


class Decided(msgspec.Struct, frozen=True):
    """One approval, with its decision."""

    door: str
    decision: str


class DemoFigures(msgspec.Struct):
    """The output of `--json`; `noticed` has one sentence for each failed check, and is omitted if there is none."""

    command_state: str | None = None
    frames_made: int = 0
    frames_applied: int = 0
    frames_lost: int = 0
    history_frames: int = 0
    approvals: list[Decided] = []
    text_equal: bool = False
    audit_records: int = 0
    audit_ok: bool = False
    noticed: list[str] = []

    def document(self) -> bytes:
        """Encode the figures as one JSON document."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        if not self.noticed:
            del document["noticed"]
        return msgspec.json.encode(document)


def count_frames(figures: DemoFigures, outbox: OutboxState, history: StreamView, session: Session) -> None:
    """Compare the runner's frames with the gateway's."""
    figures.frames_made, figures.frames_applied = outbox.last_seq, history.durable
    figures.frames_lost = max(session.lost_frame_count, outbox.last_seq - history.durable, 0)
    if figures.frames_made != figures.frames_applied or session.last_durable_seq != outbox.last_seq:
        figures.noticed.append(
            f"The runner made {outbox.last_seq} frames, the gateway has {history.durable}, the last of them numbered "
            f"{session.last_durable_seq}.")
    if outbox.acked_seq != outbox.last_seq:
        figures.noticed.append(f"Only {outbox.acked_seq} of {outbox.last_seq} frames were acknowledged.")
    if session.lost_frame_count:
            figures.noticed.append(f"The gateway reports that {session.lost_frame_count} frames were lost.")
    if history.refused:
        figures.noticed.append(f"The gateway refused {history.refused} of the frames.")


def compare_text(figures: DemoFigures, seen: StreamView, history: StreamView, expected: str | None) -> None:
    """Compare the viewer's text with the files (None: unknown beforehand), and with the history."""
    against_files = expected is None or seen.text == expected
    figures.text_equal = against_files and seen.text == history.text and not seen.holes
    if not against_files:
        figures.noticed.append(f"The viewer's text ({len(seen.text)} characters) differs from the files "
                               f"({len(expected or '')}).")
    if seen.text != history.text:
        figures.noticed.append("The viewer's text differs from the history.")
    if seen.holes:
        figures.noticed.append("Text did not continue where it had ended.")
    if expected is not None and seen.torn:
        figures.text_equal = False
        figures.noticed.append("Text that the viewer had seen is not in the record.")


def check_permissions(figures: DemoFigures, history: StreamView, approvals: list[Approval],
                      on_record: set[str]) -> None:
    """Check that everything that ran had a yes, and that the audit log has each."""
    figures.approvals = [
        Decided(approval.door, approval.votes[-1].decision if approval.votes else approval.state)
        for approval in sorted(approvals, key=lambda one: one.created_at)
    ]
    for title in history.unpermitted:
        figures.noticed.append(f"A tool ran that no one had allowed: {title}")
    for approval in approvals:
        if any(vote.decision == "grant" for vote in approval.votes) and approval.id not in on_record:
            figures.noticed.append(f"The audit log has no record of the yes to: {title_of_approval(approval)}")


def check_audit(figures: DemoFigures, checked: Checked) -> None:
    """Check that both forms of the audit log verify."""
    figures.audit_records = checked.exported.records
    figures.audit_ok = checked.exported.ok and checked.stored.ok
    for place, report in (("exported audit log", checked.exported), ("audit log in the database", checked.stored)):
        if not report.ok:
            at = f" at record {report.seq}" if report.seq is not None else ""
            figures.noticed.append(f"The {place} was changed{at}: {report.message}")
