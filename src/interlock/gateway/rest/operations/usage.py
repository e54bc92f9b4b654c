"""The operation on usage: tokens, cost and turns by day, agent, model, session and person (J-13)."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import get_args

import msgspec
from starlette.types import ASGIApp

from interlock.command.policy.budget import dollars
from interlock.gateway.rest.answers import json_answer
from interlock.gateway.rest.routes import ApiRequest, Handler
from interlock.ports.usage import UsageQuery
from interlock.protocol.api.webhooks import GET_USAGE
from interlock.protocol.limits import USAGE_DAYS, USAGE_DAYS_DEFAULT
from interlock.protocol.problems import Place, Problem
from interlock.protocol.records import UsageRecord
from interlock.protocol.resources import UsageDimension, UsageFigures, UsageItem, UsageReport

DIMENSIONS: tuple[UsageDimension, ...] = get_args(UsageDimension)
_EPOCH = date(1970, 1, 1)


async def show(call: ApiRequest) -> ASGIApp:
    """GET /usage."""
    first, last = _days(call)
    by = _by(call)
    sums = await call.front.desk.ledger.usage(UsageQuery(
        call.principal.tenant_id, (first - _EPOCH).days, (last - _EPOCH).days, frozenset(by), call.text("agent"),
        call.text("model"), call.text("session"), call.text("person"),
        call.number("limit")))
    items = [_item(record, by) for record in sums.records]
    return json_answer(UsageReport(first_day=first.isoformat(), last_day=last.isoformat(), by=by, items=items,
                             left_out=sums.places - len(items), total=_figures(sums.total)))


def _by(call: ApiRequest) -> list[UsageDimension]:
    """Parse the grouping, in the order of DIMENSIONS. Raises Problem InvalidPayload."""
    names = (call.text("by") or "day").split(",")
    if unknown := sorted(set(names) - set(DIMENSIONS)):
        raise Problem("InvalidPayload", f"`by` is one or more of {', '.join(DIMENSIONS)}, with commas between them; "
                      f"{unknown[0]!r} is none of them.", errors=(Place("by", "not a known value"),))
    return [name for name in DIMENSIONS if name in names]


def _days(call: ApiRequest) -> tuple[date, date]:
    """Read the first and the last day. Raises Problem InvalidPayload."""
    today = datetime.fromtimestamp(call.front.clock.now_ms() / 1000, UTC).date()
    last = _day(call, "to") or today
    first = _day(call, "from") or max(last, _EPOCH + timedelta(USAGE_DAYS_DEFAULT)) - timedelta(USAGE_DAYS_DEFAULT - 1)
    if not 0 <= (last - first).days < USAGE_DAYS:
        raise Problem("InvalidPayload", f"`from` is not after `to`, and at most {USAGE_DAYS} days are summed at once; "
                      f"these are {first} and {last}.", errors=(Place("from", f"at most {USAGE_DAYS} days"),))
    return first, last


def _day(call: ApiRequest, name: str) -> date | None:
    text = call.text(name)
    if text is None:
        return None
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).date()
    except ValueError:
        day = None
    if day is None or day < _EPOCH or text != day.isoformat():
        raise Problem("InvalidPayload", f"`{name}` is a day such as 2026-11-25.", errors=(Place(name, "not a day"),))
    return day


def _item(record: UsageRecord, by: list[UsageDimension]) -> UsageItem:
    places = {"day": ("day", (_EPOCH + timedelta(record.day)).isoformat()), "agent": ("agent_id", record.agent_id),
              "model": ("model", record.model or None), "session": ("session_id", record.session_id),
              "person": ("person", record.person or None)}
    return UsageItem(**dict(places[name] for name in by), **msgspec.structs.asdict(_figures(record)))


def _figures(record: UsageRecord) -> UsageFigures:
    return UsageFigures(
        turns=record.turns, estimated_turns=record.estimated_turns, input_tokens=record.input_tokens,
        output_tokens=record.output_tokens, total_tokens=record.input_tokens + record.output_tokens,
        cache_read_tokens=record.cache_read_tokens, cache_write_tokens=record.cache_write_tokens,
        cost_usd=dollars(record.cost_micros))


HANDLERS: tuple[Handler, ...] = (
    Handler(GET_USAGE, show),
)
