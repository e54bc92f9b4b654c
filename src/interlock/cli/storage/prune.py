"""`interlock prune`: delete what is older than its retention (G-5)."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from interlock.cli.config.place import NOWHERE, Here
from interlock.cli.display.columns import Layout
from interlock.cli.display.terminal import print_table, say
from interlock.cli.options import Json
from interlock.cli.verb_answer import print_answer
from interlock.cli.verb_error import usage
from interlock.protocol.answers import Pruned
from interlock.protocol.limits import PRUNE_MAX_MS, PRUNE_MIN_MS
from interlock.sdk.requests import gateway

COLUMNS = Layout(drop=("DELIVERIES", "FILES"))
UNITS_MS = {"h": 3_600_000, "d": 24 * 3_600_000, "w": 7 * 24 * 3_600_000}


def prune(
    *,
    older_than: Annotated[str, Parameter(help="The age to delete from, since a session's last turn: 12h, "
                                              "30d, 8w (default: 30d).")] = "30d",
    dry_run: Annotated[bool, Parameter(help="Only count what would be deleted.")] = False,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Delete frames, events and files of sessions that ended long ago; transcripts and the audit log stay."""
    def show(pruned: Pruned) -> None:
        print_table([[one.tenant_id, str(one.sessions), str(one.events + one.feed), str(one.files), str(one.deliveries)]
                     for one in pruned.tenants], ("TENANT", "SESSIONS", "EVENTS", "FILES", "DELIVERIES"), COLUMNS)
        did = "would be forgotten" if dry_run else "forgotten"
        say(f"{did}: what ended before {pruned.before}; {pruned.objects} objects of files, {pruned.answers} old "
            "answers")

    return print_answer(where, gateway.prune(span_ms(older_than), dry_run=dry_run), show, json=json)


def span_ms(text: str) -> int:
    """Read a span of time. Raises Trouble Usage."""
    number, unit = text[:-1], text[-1:]
    if unit not in UNITS_MS or not number.isascii() or not number.isdigit() or len(number) > 5:
        raise usage(f"{text!r} is not a span of time.", "Write 12h, 30d or 8w.")
    span = int(number) * UNITS_MS[unit]
    if span < PRUNE_MIN_MS:
        raise usage("What is younger than an hour is not forgotten.", "Write 1h or more.")
    if span > PRUNE_MAX_MS:
        raise usage(f"Nothing is as old as {text}.", "Write 12h, 30d or 8w.")
    return span
