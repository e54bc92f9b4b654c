"""`interlock audit list` and `audit show`: search of the log's records, and reading one (Y-9, U-5)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.config.place import NOWHERE, NOWHERE_BY_CONTEXT, Here, HereByContext
from interlock.cli.display.columns import Layout
from interlock.cli.display.days import read_day
from interlock.cli.display.terminal import one_line, print_table, result, say
from interlock.cli.display.values import ago, milliseconds
from interlock.cli.link.gateway_link import GatewayLink, ask_gateway, decoded
from interlock.cli.options import Json
from interlock.cli.verb_answer import FoundRows, print_answer
from interlock.cli.verb_error import Trouble, usage
from interlock.command.card.permission_request import request_of_approval, title_of_approval
from interlock.protocol.answers import AuditLine, AuditPage
from interlock.protocol.api.approvals import GET_APPROVAL
from interlock.protocol.api.audit import READ_AUDIT
from interlock.protocol.clock import iso, parse_iso
from interlock.protocol.resources import Approval
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests import audit

SHOWN = 50
LIST_MAX = 10_000
"""Maximum number of records of one call."""
PAGE = 500
ACTS_MAX = 100
"""Maximum number of approvals whose action a list of one day names."""
NOT_ON_RECORD = "(the approval's row is not what the record covers)"
DAY = Layout(text=("WHAT", "ABOUT", "WHO"), extra=("ABOUT",), drop=("STEP", "ACTION"))
COLUMNS = Layout(text=("ABOUT", "WHO"), drop=("ABOUT", "WHEN"))
DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{52}\b")
"""A SHA-256 in hexadecimal; a list shows its beginning."""
ABOUT = ("approval_id", "command_id", "session_id")



def records(
    *,
    who: Annotated[str | None, Parameter(help="Only records of this person or program: ann, or user:ann.")] = None,
    action: Annotated[str | None, Parameter(help="Only records of this action, such as vote.")] = None,
    session: Annotated[str | None, Parameter(help="Only records about this session: an id, a unique "
                                                  "beginning, a key, or @last.")] = None,
    command: Annotated[str | None, Parameter(help="Only records about this task: an id, a unique beginning, "
                                                  "or @last.")] = None,
    approval: Annotated[str | None, Parameter(help="Only records about this approval: an id, a unique "
                                                   "beginning, or @last.")] = None,
    since: Annotated[str | None, Parameter(help="Only the last period (2h, 7d), or from a time on "
                                                "(2026-11-23T08:00).")] = None,
    until: Annotated[str | None, Parameter(help="Only older records, in the same format.")] = None,
    on: Annotated[str | None, Parameter(help="Only this day in this machine's time zone, with the requests "
                                             "shown: today, yesterday, tuesday, 2026-11-24.")] = None,
    limit: Annotated[int, Parameter(help=f"The number to show (default: {SHOWN}).")] = SHOWN,
    json: Json = False,
    where: HereByContext = NOWHERE_BY_CONTEXT,
) -> int:
    """List records of the audit log, newest first. That you read them is recorded, too."""
    if not 1 <= limit <= LIST_MAX:
        raise usage(f"--limit {limit} is not a number from 1 to {LIST_MAX}.")
    if on is not None and (since is not None or until is not None):
        raise usage("--on excludes --since and --until.", "Give a day, or a start and an end.")
    day = read_day(on, datetime.now(UTC)) if on is not None else None
    start = iso(day.start_ms) if day else _instant(since, "--since")
    end = iso(day.end_ms) if day else _instant(until, "--until")

    async def find(link: GatewayLink) -> tuple[FoundRows[AuditLine], dict[str, str], bool]:
        wanted = audit.audit(
            order="newest", actor=who, action=action, from_=start, to=end,
            session=await short_ids.full_id(link, short_ids.SESSION, session),
            command=await short_ids.full_id(link, short_ids.COMMAND, command),
            approval=await short_ids.full_id(link, short_ids.APPROVAL, approval))
        rows, more = await _newest(link, wanted, limit)
        found = FoundRows("items", AuditLine, rows)
        titled = day is not None and not json
        return found, await _acts(link, map(_record, found.values())) if titled else {}, more

    rows, acts, more = ask_gateway(where, find)

    def show(found: list[AuditLine]) -> None:
        if not found:
            say("no record of that kind" + (f" on {day.name}" if day is not None else ""), "dim")
            return
        records = [(line.seq, _record(line)) for line in found]
        lines = [_row(seq, record) for seq, record in records]
        if day is None:
            print_table(lines, ("RECORD", "WHEN", "WHO", "ACTION", "STEP", "ABOUT"), COLUMNS)
        else:
            say(day.name, "dim")
            print_table([[seq, _clock(str(record.get("at"))), *rest, acts.get(str(record.get("approval_id")), "")]
                         for (seq, _, *rest), (_, record) in zip(lines, records, strict=True)],
                        ("RECORD", "AT", "WHO", "ACTION", "STEP", "ABOUT", "WHAT"), DAY)
        if more:
            say(f"the newest {len(found)}; more with --limit, one whole with: interlock audit show RECORD", "dim")

    return rows.print(show, json=json)


def show(seq: Annotated[int, Parameter(name="SEQ", help="The record's number.")], /, *, json: Json = False,
         where: Here = NOWHERE) -> int:
    """Show one record of the audit log, whole. That you read it is recorded, too."""
    def show(line: AuditLine) -> None:
        result(msgspec.json.format(bytes(line.record), indent=2).decode())
        for name, (_, value) in sorted((line.personal or {}).items()):
            result(f"{name}: {one_line(value, 1_000)}")
        say(f"hash {line.hash}", "dim")

    return print_answer(where, audit.audit_record(seq), show, json=json)


async def _newest(link: GatewayLink, wanted: RequestSpec[AuditPage], limit: int) -> tuple[list[msgspec.Raw], bool]:
    """Read at most `limit` records over the log's pages, and whether there are more. Raises Trouble."""
    found, cursor = list[msgspec.Raw](), None
    while True:
        page = await link.ask(wanted.with_query(limit=str(min(PAGE, limit - len(found))),
                                                **({"since": cursor} if cursor is not None else {})))
        found += page.items
        if not page.has_more or len(found) >= limit or page.next_cursor == cursor:
            return found, page.has_more
        cursor = page.next_cursor


async def _acts(link: GatewayLink, records: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the title of each approval that the newest records name; without those that this key may not read. An
    approval's row is not part of the log, so its bytes must have a digest that the records name."""
    named = dict[str, set[str]]()
    for one in records:
        if one.get("approval_id"):
            meta: dict[str, Any] = one.get("meta") or {}
            named.setdefault(str(one["approval_id"]), set()).update(filter(None, [meta.get("digest")]))
    found = dict[str, str]()
    for approval_id, digests in [*named.items()][:ACTS_MAX]:
        with suppress(Trouble):  # It was deleted, or an auditor may not read it: the record itself has the rest.
            approval = await link.read(GET_APPROVAL.at(approval_id), Approval)
            agrees = not digests or request_of_approval(approval).digest in digests
            found[approval_id] = title_of_approval(approval) if agrees else NOT_ON_RECORD
    return found


def _record(line: AuditLine) -> dict[str, Any]:
    return decoded(bytes(line.record), dict[str, Any], READ_AUDIT.at())


def _row(seq: int, record: dict[str, Any]) -> list[str]:
    meta: dict[str, Any] = record.get("meta") or {}
    step = meta.get("to") or meta.get("step") or meta.get("decision") or ""
    about = next((str(record[name]) for name in ABOUT if record.get(name)), str(meta.get("row") or ""))
    return [str(seq), ago(str(record.get("at"))), str(record.get("who", {}).get("id")),
            str(record.get("action")), str(step), DIGEST.sub(r"\1…", about)]


def _clock(at: str) -> str:
    """Return the time of day of an ISO instant in this machine's zone."""
    return datetime.fromtimestamp(parse_iso(at) / 1000, UTC).astimezone().strftime("%H:%M:%S")


def _instant(text: str | None, option: str) -> str | None:
    """Read how long ago, or an instant. Raises Trouble."""
    if text is None:
        return None
    if text[:1].isdigit() and ("-" in text or "T" in text):
        try:
            return iso(parse_iso(text))
        except (ValueError, OverflowError):
            raise usage(f"{option} {text!r} is not an instant.", "Write it as 2026-11-23T08:00, in UTC, or as 2h.") \
                from None
    try:
        return iso(round(time.time() * 1000) - milliseconds(text, option))
    except Trouble as trouble:
        raise usage(trouble.sentence, "Write it as 2h or 7d, or as 2026-11-23T08:00, in UTC; a day is --on yesterday."
                    ) from None
