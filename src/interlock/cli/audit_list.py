"""`interlock audit list` and `audit show`: finding a record of the log, and reading one (Y-9, U-5)."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.columns import Layout
from interlock.cli.exit_status import ExitStatus
from interlock.cli.gateway_link import GatewayLink, decoded
from interlock.cli.place import NOWHERE, Here, Where
from interlock.cli.terminal import one_line, print_json, print_table, result, say
from interlock.cli.values import ago, milliseconds
from interlock.cli.verb_error import usage
from interlock.protocol.answers import AuditLine, AuditPage
from interlock.protocol.clock import iso, parse_iso

PATH = "/v1/audit"
SHOWN = 50
LIST_MAX = 10_000
"""The most that one call shows."""
PAGE = 500
KINDS = {"session": short_ids.SESSION, "command": short_ids.COMMAND, "approval": short_ids.APPROVAL}
COLUMNS = Layout(text=("ABOUT", "WHO"), drop=("STEP",))
ABOUT = ("approval_id", "command_id", "session_id")

Json = Annotated[bool, Parameter(help="Print one JSON document.")]


def records(
    *,
    who: Annotated[str | None, Parameter(help="Only what this person or program did: ann, or user:ann.")] = None,
    action: Annotated[str | None, Parameter(help="Only this, such as vote.")] = None,
    session: Annotated[str | None, Parameter(help="Only what is about this session: an id, a unique beginning, a "
                                             "key, or @last.")] = None,
    command: Annotated[str | None, Parameter(help="Only what is about this command: an id, a unique beginning, or "
                                             "@last.")] = None,
    approval: Annotated[str | None, Parameter(help="Only what is about this approval: an id, a unique beginning, "
                                              "or @last.")] = None,
    since: Annotated[str | None, Parameter(help="Only the last so long (2h, 7d), or from an instant on "
                                           "(2026-11-23T08:00).")] = None,
    until: Annotated[str | None, Parameter(help="Only what is older than that, written likewise.")] = None,
    limit: Annotated[int, Parameter(help="How many to show.")] = SHOWN,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """List records of the audit log, newest first. That you read them is recorded, too."""
    if not 1 <= limit <= LIST_MAX:
        raise usage(f"--limit {limit} is not a number from 1 to {LIST_MAX}.")
    asked = {"actor": who, "action": action, "session": session, "command": command, "approval": approval,
             "from": _instant(since, "--since"), "to": _instant(until, "--until")}
    return asyncio.run(_list({name: text for name, text in asked.items() if text is not None}, limit, where, json=json))


def show(seq: Annotated[int, Parameter(name="SEQ", help="The record's number.")], /, *, json: Json = False,
         where: Here = NOWHERE) -> int:
    """Show one record of the audit log, whole. That you read it is recorded, too."""
    return asyncio.run(_show(seq, where, json=json))


async def _list(asked: dict[str, str], limit: int, where: Where, *, json: bool) -> int:
    found: list[msgspec.Raw] = []
    query = {**asked, "order": "newest"}
    async with GatewayLink(where) as link:
        for name, kind in KINDS.items():
            if (named := await short_ids.full_id(link, kind, asked.get(name))) is not None:
                query[name] = named
        while True:
            query["limit"] = str(min(PAGE, limit - len(found)))
            page = await link.read(PATH, AuditPage, query)
            found += page.items
            if not page.has_more or len(found) >= limit or page.next_cursor == query.get("since"):
                break
            query["since"] = page.next_cursor
    if json:
        print_json(msgspec.json.encode({"items": found}))
        return ExitStatus.DONE
    if not found:
        say("no record of that kind", "dim")
        return ExitStatus.DONE
    rows = [decoded(bytes(one), AuditLine, PATH) for one in found]
    print_table([_row(line.seq, decoded(bytes(line.record), dict[str, Any], PATH)) for line in rows],
                ("RECORD", "WHEN", "WHO", "ACTION", "STEP", "ABOUT"), COLUMNS)
    if page.has_more:
        say(f"the newest {len(found)}; more with --limit, one whole with: interlock audit show RECORD", "dim")
    return ExitStatus.DONE


async def _show(seq: int, where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        raw = await link.get(f"{PATH}/records/{seq}")
    if json:
        print_json(raw)
        return ExitStatus.DONE
    line = decoded(raw, AuditLine, PATH)
    result(msgspec.json.format(bytes(line.record), indent=2).decode())
    for name, (_, value) in sorted((line.personal or {}).items()):
        result(f"{name}: {one_line(value, 1_000)}")
    say(f"hash {line.hash}", "dim")
    return ExitStatus.DONE


def _row(seq: int, record: dict[str, Any]) -> list[str]:
    meta: dict[str, Any] = record.get("meta") or {}
    step = meta.get("to") or meta.get("step") or meta.get("decision") or ""
    about = next((str(record[name]) for name in ABOUT if record.get(name)), str(meta.get("row") or ""))
    return [str(seq), ago(str(record.get("at"))), str(record.get("who", {}).get("id")),
            str(record.get("action")), str(step), about]


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
    return iso(round(time.time() * 1000) - milliseconds(text, option))
