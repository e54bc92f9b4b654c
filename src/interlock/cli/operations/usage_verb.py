"""`interlock usage`: tokens, cost and turns by day, agent, model, session and person (J-13)."""

from __future__ import annotations

import csv
import io
from typing import Annotated, get_args

import msgspec
from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.config.place import NOWHERE, Here
from interlock.cli.display.columns import Layout
from interlock.cli.display.terminal import one_line, print_table, result, say
from interlock.cli.display.values import count
from interlock.cli.link.gateway_link import GatewayLink
from interlock.cli.options import Agent, Json
from interlock.cli.verb_answer import print_answer
from interlock.cli.verb_error import usage
from interlock.protocol.api.webhooks import GET_USAGE
from interlock.protocol.limits import PAGE_DEFAULT, USAGE_ITEMS_MAX
from interlock.protocol.resources import UsageDimension, UsageFigures, UsageItem, UsageReport
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests.base import read

FIELDS: dict[UsageDimension, str] = {"day": "day", "agent": "agent_id", "model": "model", "session": "session_id",
                                     "person": "person"}
FIGURES = ("TURNS", "TOKENS IN", "OUT", "FROM CACHE", "COST")
LAYOUT = Layout(text=("MODEL", "PERSON"), extra=("FROM CACHE",), drop=("OUT", "TOKENS IN"))
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Spreadsheets calculate a cell that begins with one of these; a name that an agent chose must not be calculated."""


def report(
    *,
    by: Annotated[str, Parameter(help="What to group by: day, agent, model, session, person, or several "
                                      "separated by commas (default: day).")] = "day",
    from_: Annotated[str | None, Parameter(name="--from", help="The first day, such as 2026-11-25 (default: 30 days "
                                                               "in all).")
                     ] = None,
    to: Annotated[str | None, Parameter(help="The last day, inclusive (default: today).")] = None,
    agent: Agent = None,
    model: Annotated[str | None, Parameter(help="Only usage of this model.")] = None,
    session: Annotated[str | None, Parameter(help="Only usage of this session: an id, a unique beginning, a "
                                                  "key, or @last.")] = None,
    person: Annotated[str | None, Parameter(help="Only usage of this person's commands: user:ann.")] = None,
    limit: Annotated[int, Parameter(help=f"The number of lines (default: {PAGE_DEFAULT}).")] = PAGE_DEFAULT,
    json: Json = False,
    csv_: Annotated[bool, Parameter(name="--csv", help="Print comma-separated values.")] = False,
    where: Here = NOWHERE,
) -> int:
    """List the usage that agents reported, by day in UTC."""
    if not 1 <= limit <= USAGE_ITEMS_MAX:
        raise usage(f"--limit {limit} is not a number from 1 to {USAGE_ITEMS_MAX}.")
    if json and csv_:
        raise usage("--json excludes --csv.")
    if unknown := set(by.split(",")) - set(get_args(UsageDimension)):
        raise usage(f"--by {min(unknown)!r} is not one of {', '.join(FIELDS)}.")
    parameters = {"by": by, "from": from_, "to": to, "agent": agent, "model": model, "person": person, "limit": limit}

    async def request(link: GatewayLink) -> RequestSpec[UsageReport]:
        return read(GET_USAGE, **{**parameters, "session": await short_ids.full_id(link, short_ids.SESSION, session)})

    def show(found: UsageReport) -> None:
        if csv_:
            result(_csv(found))
        elif not found.items:
            say(f"nothing was used from {found.first_day} to {found.last_day}", "dim")
        else:
            _show(found)
        if found.left_out:
            say(f"and {count(found.left_out, 'line')} more, with --limit", "dim")

    return print_answer(where, request, show, json=json)


def _show(found: UsageReport) -> None:
    """Print the table, its sum below it, and which figures are not exact."""
    rows = [[*(one_line(_place(item, name) or "unknown") for name in found.by), *_figures(item)]
            for item in found.items]
    total = ["total", *[""] * (len(found.by) - 1), *_figures(found.total)]
    print_table([*rows, total], [*(name.upper() for name in found.by), *FIGURES], LAYOUT)
    if found.total.estimated_turns:
        say(f"{count(found.total.estimated_turns, 'turn')} ended without figures: what they took is not in the sum",
            "dim")


def _place(item: UsageItem, name: UsageDimension) -> str:
    return msgspec.structs.asdict(item)[FIELDS[name]] or ""


def _figures(item: UsageFigures) -> list[str]:
    cached = item.cache_read_tokens
    return [f"{item.turns:,}", f"{item.input_tokens:,}", f"{item.output_tokens:,}", f"{cached:,}" if cached else "",
            f"${item.cost_usd}"]


def _csv(found: UsageReport) -> str:
    """Return the items as CSV (RFC 4180), with the names of the API's fields."""
    names = [*(FIELDS[name] for name in found.by), *UsageFigures.__struct_fields__]
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(names)
    for item in found.items:
        cells = [msgspec.structs.asdict(item)[name] for name in names]
        table.writerow(["'" + cell if isinstance(cell, str) and cell.startswith(FORMULA) else cell for cell in cells])
    return out.getvalue().rstrip("\n")
