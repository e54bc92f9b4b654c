"""The text of a one-way notice about an approval: no vote, a link, details only if the config allows them (O-11).
Pure."""

from __future__ import annotations

from interlock.command.card.text import one_line, visible
from interlock.ports.channel import ApprovalNotice

TITLE = "1 approval waits"
TEST_TITLE = "Interlock can reach you"
TEST_TEXT = "This is a test. No approval waits."
NAMES_CHARS = 500
QUOTE = "│ "
"""Prefix of the request's lines, so that none can be mistaken for one of ours."""
CUT = "… the rest is at the gateway"


def link_to(public_url: str | None, approval_id: str) -> str | None:
    """Return the address of the console's page for an approval; None if other machines cannot reach the gateway."""
    return None if public_url is None else f"{public_url}/a/{approval_id}"


def text_of(asking: ApprovalNotice, link: str | None, *, details: bool, max_bytes: int) -> str:
    """Return the notice's text, at most `max_bytes` of UTF-8. The place to decide comes first, so that a service that
    truncates a long notice does not cut it off."""
    first = f"Read and decide: {link}" if link is not None else \
        f"Read and decide at a terminal: interlock approve {asking.approval_id}"
    if not details:
        return first
    return _fitting([first, *_details(asking)], max_bytes)


def details_of(asking: ApprovalNotice, max_bytes: int) -> str:
    """Return a description of the request, at most `max_bytes` of UTF-8, for a notice that itself opens the page."""
    return _fitting(_details(asking), max_bytes)


def _details(asking: ApprovalNotice) -> list[str]:
    names = [f"agent {asking.agent_id}", f"on {asking.runner_id}" if asking.runner_id else "",
             f"in {asking.workspace}" if asking.workspace else "",
             f"for {asking.requested_by}" if asking.requested_by else ""]
    lines = [one_line(" ".join(part for part in names if part), NAMES_CHARS),
             *(QUOTE + visible(line) for line in asking.lines.split("\n"))]
    return [*lines, CUT] if asking.is_cut else lines


def _fitting(lines: list[str], max_bytes: int) -> str:
    whole = "\n".join(lines)
    if len(whole.encode()) <= max_bytes:
        return whole
    room = max_bytes - len(f"\n{CUT}".encode())
    return whole.encode()[:room].decode("utf-8", "ignore") + f"\n{CUT}"
