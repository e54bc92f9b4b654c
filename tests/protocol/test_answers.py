"""Responses of the API: stored rows are sent as their bytes, and unrequested fields are absent."""

from __future__ import annotations

import msgspec
import pytest

from interlock.protocol.answers import (
    COMPONENTS,
    AuditPage,
    FeedPage,
    FrameEvent,
    FramePage,
    MissingSession,
    Readiness,
    RestoredLedger,
    StatusPage,
)


@pytest.mark.parametrize(("page", "field", "element"), [
    (StatusPage, "events", "StatusEvent"), (FramePage, "events", "FrameEvent"), (FeedPage, "events", "FeedEvent"),
    (AuditPage, "items", "AuditLine")])
@pytest.mark.req("F-2")
def test_a_list_of_stored_bytes_names_the_type_of_its_elements(
        page: type, field: str, element: str) -> None:
    _, schemas = msgspec.json.schema_components([page], ref_template=COMPONENTS + "{name}")
    assert schemas[page.__name__]["properties"][field]["items"] == {"$ref": COMPONENTS + element}


@pytest.mark.req("S-1")
def test_stored_events_are_not_encoded_again() -> None:
    stored = b'{ "n":1.0, "frame" : {"a":"\\u00e9"} }'
    page = msgspec.json.encode(FramePage(events=[msgspec.Raw(stored)], next_cursor="c", has_more=False))
    assert stored in page
    assert msgspec.json.decode(page)["previous_cursor"] is None


@pytest.mark.req("S-1")
def test_a_delta_has_no_number_and_a_frame_no_notice() -> None:
    event = FrameEvent(kind="C", frame=msgspec.Raw(b"{}"))
    assert msgspec.json.encode(event) == b'{"kind":"C","frame":{}}'


def test_a_single_gateway_has_no_bus_field() -> None:
    alone = Readiness(ok=True, ledger="writes", lanes="up", draining=False)
    assert msgspec.to_builtins(alone) == {"ok": True, "ledger": "writes", "lanes": "up", "draining": False,
                                          "audit": "signs"}
    assert msgspec.to_builtins(msgspec.structs.replace(alone, bus="away"))["bus"] == "away"


def test_two_restored_reports_share_no_list() -> None:
    one, other = RestoredLedger(), RestoredLedger()
    one.sessions.append(MissingSession(session_id="s", runner_id="r"))
    one.sessions[0].commands.append("cmd")
    assert other.sessions == MissingSession(session_id="s", runner_id="r").commands == []
