"""Frames, feed, approvals, audit and status over HTTP."""

import asyncio
import json
from typing import Any

import httpx2
import pytest

from interlock.gateway.rest import cursors
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import encode
from interlock.protocol.identifiers import session_stream
from interlock.protocol.payloads import TextDelta, TextDone, TurnEnd
from small_gateway.running import Gateway

pytestmark = pytest.mark.anyio
FRAMES = "/v1/sessions/s1/frames"


def delta(offset: int, text: str, block: str = "b") -> Frame:
    return Frame(type="agent.text.delta", message_id="m", session_id="s1", timestamp="t",
                 payload=TextDelta(turn_id="t", block_id=block, offset=offset, text=text))


def done(seq: int, text: str, block: str = "b") -> Frame:
    return Frame(type="agent.text.done", message_id="m", session_id="s1", timestamp="t", seq=seq,
                 payload=TextDone(turn_id="t", block_id=block, text=text))


def end(seq: int) -> Frame:
    return Frame(type="session.turn.end", message_id="m", session_id="s1", timestamp="t", seq=seq,
                 payload=TurnEnd(turn_id="t", stop_reason="end_turn"))


def send_transient(gateway: Gateway, frame: Frame) -> None:
    gateway.desk.viewers.transient(session_stream("s1"), encode(frame), frame)


@pytest.mark.req("S-1", "S-3")
async def test_frames_by_sse_tail_then_text_so_far_then_live(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    await gateway.desk.frame(end(1))
    send_transient(gateway, delta(0, "Hel"))
    send_transient(gateway, delta(3, "lo"))
    async with gateway.sse(FRAMES) as sse:
        first, merged = await sse.next(), await sse.next()
        assert first is not None
        assert merged is not None
        assert first[1] == "frame"
        assert first[2] == '{"n":1,"kind":"C","frame":' + encode(end(1)).decode() + "}"
        assert merged[:2] == (None, "delta")
        assert json.loads(merged[2])["frame"]["payload"]["text"] == "Hello"
        send_transient(gateway, delta(5, "!"))
        live = await sse.next()
        assert live is not None
        assert json.loads(live[2])["frame"]["payload"] == {"turn_id": "t", "block_id": "b", "offset": 5, "text": "!"}
        await gateway.desk.frame(done(2, "Hello!"))
        closed = await sse.next()
    async with gateway.sse(FRAMES, **{"Last-Event-ID": str(first[0])}) as again:
        assert await again.next() == closed


@pytest.mark.req("S-1")
async def test_frames_by_poll_with_the_text_so_far_at_the_end(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    for number in range(3):
        await gateway.desk.frame(end(number + 1))
    send_transient(gateway, delta(0, "Hello"))
    page = (await gateway.http.get(FRAMES, params={"limit": "2"})).json()
    assert [event.get("n") for event in page["events"]] == [1, 2]
    assert page["has_more"] is True
    page = (await gateway.http.get(FRAMES, params={"since": page["next_cursor"]})).json()
    assert [event.get("n") for event in page["events"]] == [3, None]
    assert page["has_more"] is False
    waiting = asyncio.ensure_future(gateway.http.get(FRAMES, params={"since": page["next_cursor"], "wait": "20"}))
    while not gateway.desk.viewers.count():
        await asyncio.sleep(0)
    send_transient(gateway, delta(5, "!"))
    await gateway.desk.frame(done(4, "Hello!"))
    events = (await waiting).json()["events"]
    assert [event.get("n") for event in events] == [4]


def numbers(page: dict[str, Any]) -> list[int | None]:
    return [event.get("n") for event in page["events"]]


@pytest.mark.req("S-1", "J-3")
async def test_frames_are_read_backwards_page_by_page_from_a_pages_start(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    for number in range(7):
        await gateway.desk.frame(end(number + 1))
    send_transient(gateway, delta(0, "Hello"))
    newest = (await gateway.http.get(FRAMES, params={"last": "2"})).json()
    assert numbers(newest) == [6, 7, None]
    page = newest
    read: list[list[int | None]] = []
    while page["previous_cursor"] is not None:
        page = (await gateway.http.get(FRAMES, params={"before": page["previous_cursor"], "limit": "2"})).json()
        assert page["has_more"] is True
        read.append(numbers(page))
    assert read == [[4, 5], [2, 3], [1]], "each event once, without the text that is not there yet"
    behind = (await gateway.http.get(FRAMES, params={"since": page["next_cursor"], "limit": "1"})).json()
    assert numbers(behind) == [2], "its two cursors are the places around it"
    whole = (await gateway.http.get(FRAMES, params={"before": newest["next_cursor"], "limit": "7"})).json()
    assert (numbers(whole), whole["has_more"], whole["previous_cursor"]) == ([*range(1, 8)], False, None)


@pytest.mark.req("S-1", "F-1")
async def test_an_impossible_page_before_a_cursor_is_refused_with_its_parameter(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    await gateway.desk.frame(end(1))
    cursor = (await gateway.http.get(FRAMES)).json()["next_cursor"]
    past = cursors.stream_cursor(session_stream("s1"), 9)
    for params in ({"before": cursor, "since": cursor}, {"before": cursor, "last": "1"}, {"before": past},
                   {"before": ""}, {"before": "odd"}, {"before": cursors.stream_cursor(session_stream("s2"), 1)}):
        answer = await gateway.http.get(FRAMES, params=params)
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "before"), params
    answer = await gateway.http.get(FRAMES, params={"before": cursor}, headers={"Accept": "text/event-stream"})
    assert (answer.status_code, answer.json()["code"]) == (400, "InvalidPayload")


@pytest.mark.req("S-1", "S-2")
async def test_reading_backwards_ends_at_the_oldest_kept_frame(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    for number in range(6):
        await gateway.desk.frame(end(number + 1))
    whole = gateway.desk.ledger.events

    async def pruned(tenant_id: str, stream: str, after: int, limit: int) -> list[object]:
        return [*(await whole(tenant_id, stream, max(after, 3), limit))]

    gateway.desk.ledger.events = pruned  # type: ignore[method-assign, assignment]
    page = (await gateway.http.get(FRAMES, params={"last": "1"})).json()
    page = (await gateway.http.get(FRAMES, params={"before": page["previous_cursor"], "limit": "4"})).json()
    assert (numbers(page), page["previous_cursor"]) == ([4, 5], None)
    gone = cursors.stream_cursor(session_stream("s1"), 2)
    page = (await gateway.http.get(FRAMES, params={"before": gone, "limit": "4"})).json()
    assert (numbers(page), page["previous_cursor"], page["has_more"]) == ([], None, True)


@pytest.mark.req("S-6", "Q-1")
async def test_a_page_before_a_cursor_omits_silent_turns_like_the_stream(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    await gateway.desk.frame(done(1, "NO_REPLY"))
    await gateway.desk.frame(end(2))
    before = (await gateway.http.get(FRAMES)).json()["next_cursor"]
    shown = (await gateway.http.get(FRAMES, params={"before": before})).json()["events"]
    assert shown == (await gateway.http.get(FRAMES)).json()["events"]
    assert shown[0]["frame"]["payload"]["text"] == ""
    raw = (await gateway.http.get(FRAMES, params={"before": before, "view": "raw"})).json()["events"]
    assert raw[0]["frame"]["payload"]["text"] == "NO_REPLY"


@pytest.mark.req("S-6", "Q-1", "Q-2")
async def test_the_delivered_view_omits_silent_turns_and_the_raw_view_is_complete(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    async with gateway.sse(FRAMES) as shown, gateway.sse(FRAMES + "?view=raw") as raw:
        while gateway.desk.viewers.count() < 2:
            await asyncio.sleep(0)
        send_transient(gateway, delta(0, "NO_"))
        send_transient(gateway, delta(3, "REPLY"))
        await gateway.desk.frame(done(1, "NO_REPLY"))
        await gateway.desk.frame(end(2))
        texts = [json.loads(event[2])["frame"]["payload"].get("text") for _ in range(4)
                 if (event := await raw.next()) is not None]
        assert "".join(str(text) for text in texts[:-2]) == "NO_REPLY"
        silent = await shown.next()
        assert silent is not None
        frame = json.loads(silent[2])["frame"]
        assert frame["payload"]["text"] == ""
        assert frame["metadata"] == {"suppressed": True}
    replay = (await gateway.http.get(FRAMES)).json()["events"]
    assert replay[0]["frame"] == frame
    assert (await gateway.http.get(FRAMES + "?view=odd")).status_code == 400


@pytest.mark.req("F-1", "S-2")
async def test_a_cursor_before_the_oldest_kept_event_is_410_and_names_the_snapshot(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    for number in range(4):
        await gateway.desk.frame(end(number + 1))
    cursor = (await gateway.http.get(FRAMES, params={"limit": "1"})).json()["next_cursor"]
    whole = gateway.desk.ledger.events

    async def pruned(tenant_id: str, stream: str, after: int, limit: int) -> list[object]:
        return [*(await whole(tenant_id, stream, max(after, 2), limit))]

    gateway.desk.ledger.events = pruned  # type: ignore[method-assign, assignment]
    answer = await gateway.http.get(FRAMES, params={"since": cursor})
    assert (answer.status_code, answer.json()["code"]) == (410, "CursorExpired")
    assert "/v1/sessions/s1" in answer.json()["hint"]
    assert answer.headers["Link"] == '</v1/sessions/s1>; rel="alternate"'


@pytest.mark.req("S-1")
async def test_the_feed_is_read_by_poll_and_sse(gateway: Gateway) -> None:
    await gateway.desk.feed(b'{"event":"command","id":"cmd_1"}')
    page = (await gateway.http.get("/v1/events")).json()
    assert page["events"] == [{"event": "command", "id": "cmd_1"}]
    async with gateway.sse("/v1/events?since=" + page["next_cursor"]) as sse:
        await gateway.desk.feed(b'{\n"event":"approval"\r\n}')
        event = await sse.next()
        assert event is not None
        assert event[1] == "feed"
        assert json.loads(event[2]) == {"event": "approval"}


async def test_sessions_are_listed_shown_and_closed(gateway: Gateway) -> None:
    for number in range(3):
        await gateway.desk.add_session(f"s{number}", updated_ms=1000 + number)
    await gateway.desk.add_session("theirs", "other")
    page = (await gateway.http.get("/v1/sessions?limit=2")).json()
    assert [session["session_id"] for session in page["items"]] == ["s2", "s1"]
    rest = (await gateway.http.get("/v1/sessions", params={"cursor": page["next_cursor"]})).json()
    assert [session["session_id"] for session in rest["items"]] == ["s0"]
    assert (await gateway.http.get("/v1/sessions/theirs")).status_code == 404
    assert (await gateway.http.get("/v1/sessions/s0")).json()["state"] == "idle"
    closed = await gateway.post("/v1/sessions/s0/close", b"", "close-a-session-1", headers={"Content-Type": ""})
    assert closed.json()["state"] == "closed"
    again = await gateway.post("/v1/sessions/s0/close", b"", "close-a-session-1")
    assert again.content == closed.content
    assert again.headers["Idempotency-Replayed"] == "true"


@pytest.mark.req("P-1", "M-1")
async def test_approvals_are_listed_shown_and_voted_on(gateway: Gateway) -> None:
    for number in range(3):
        await gateway.desk.add_approval(f"apr_{number}")
    await gateway.desk.add_approval("apr_theirs", "other")
    page = (await gateway.http.get("/v1/approvals?state=pending&limit=2")).json()
    rest = (await gateway.http.get("/v1/approvals", params={"cursor": page["next_cursor"]})).json()
    assert [item["id"] for item in page["items"] + rest["items"]] == ["apr_2", "apr_1", "apr_0"]
    assert (await gateway.http.get("/v1/approvals/apr_theirs")).status_code == 404
    granted = await gateway.post("/v1/approvals/apr_1/grants", {"decision": "grant"}, "one-vote-one-key-1")
    assert (granted.status_code, granted.json()["state"]) == (200, "granted")
    # The same key on another approval is another request.
    other = await gateway.post("/v1/approvals/apr_2/grants", {"decision": "grant"}, "one-vote-one-key-1")
    assert other.json()["id"] == "apr_2"
    again = await gateway.post("/v1/approvals/apr_1/grants", {"decision": "grant"}, "one-vote-one-key-1")
    assert again.content == granted.content
    late = await gateway.post("/v1/approvals/apr_1/grants", {"decision": "deny"})
    assert (late.status_code, late.json()["code"]) == (409, "Conflict")
    assert (await gateway.http.get("/v1/approvals/apr_1")).json()["state"] == "granted"


@pytest.mark.req("N-3", "L-6")
async def test_status_and_nodes_are_shown(gateway: Gateway) -> None:
    await gateway.execute()
    status = (await gateway.http.get("/v1/status")).json()
    assert (status["gateway_id"], status["state_dir"], status["store_path"]) == ("gw_1", "/state", "/state/ledger")
    assert status["commands"] == {"queued": 1}
    assert (await gateway.http.get("/v1/edge/nodes")).json()["nodes"] == status["runners"]


@pytest.mark.req("S-4")
async def test_a_disconnected_viewer_is_removed(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    async with httpx2.AsyncClient(base_url=gateway.base, headers=gateway.http.headers) as passer:
        headers = {"Accept": "text/event-stream"}
        async with passer.stream("GET", FRAMES, headers=headers) as answer:
            assert answer.status_code == 200
            while not gateway.desk.viewers.count():
                await asyncio.sleep(0)
    while gateway.desk.viewers.count():
        await asyncio.sleep(0)


@pytest.mark.req("S-4")
async def test_a_slow_viewer_delays_no_other_and_misses_nothing(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port, limit=1024)
    lines = ["GET /v1/sessions/s1/frames?view=raw HTTP/1.1", f"Host: 127.0.0.1:{gateway.port}",
             "Accept: text/event-stream", "Authorization: Bearer ilk_default_owner", "", ""]
    writer.write("\r\n".join(lines).encode())
    count, text = 400, "x" * 20_000
    async with gateway.sse(FRAMES + "?view=raw") as quick:
        while gateway.desk.viewers.count() < 2:
            await asyncio.sleep(0)
        for number in range(1, count + 1):
            await gateway.desk.frame(done(number, text, str(number)))
        for number in range(1, count + 1):
            event = await quick.next()
            assert event is not None
            assert json.loads(event[2])["n"] == number
    seen = b""
    while b'{"n":%d,' % count not in seen:
        seen += await asyncio.wait_for(reader.read(65_536), 10)
    places = [seen.index(b'{"n":%d,' % number) for number in range(1, count + 1)]
    assert places == sorted(places)
    assert seen.count(b"event: frame") == count
    writer.close()


@pytest.mark.req("Q-1", "S-2")
async def test_a_reader_that_returns_in_mid_reply_gets_no_suppressed_text(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    await gateway.desk.frame(done(1, "NO_REPLY and a very long text", "a"))
    cursor = (await gateway.http.get(FRAMES)).json()["next_cursor"]
    rest = done(2, "that goes on", "b")
    await gateway.desk.frame(Frame(type=rest.type, message_id="m", session_id="s1", timestamp="t", seq=2,
                                   payload=rest.payload, metadata={"continues": "a"}))
    event = (await gateway.http.get(FRAMES, params={"since": cursor})).json()["events"][0]
    assert event["frame"]["payload"]["text"] == ""
    assert event["frame"]["metadata"] == {"continues": "a", "suppressed": True}


@pytest.mark.req("S-6")
@pytest.mark.parametrize(("role", "may"), [("operator", True), ("auditor", True), ("admin", True), ("owner", True),
                                           ("viewer", False), ("approver", False)])
async def test_the_raw_view_is_for_operators_auditors_and_admins(gateway: Gateway, role: str, may: bool) -> None:
    await gateway.desk.add_session()
    async with gateway.as_role(role) as client:
        assert (await client.get(FRAMES, params={"view": "raw"})).status_code == (200 if may else 403)
        assert (await client.get(FRAMES)).status_code == 200


@pytest.mark.req("S-1", "J-4")
async def test_a_stream_is_read_from_a_number_of_events_before_its_end(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    for seq in range(1, 8):
        await gateway.desk.frame(end(seq))

    async def numbers(query: str) -> list[int]:
        return [event["n"] for event in (await gateway.http.get(f"{FRAMES}?{query}")).json()["events"]]

    assert await numbers("last=2") == [6, 7]
    assert await numbers("last=6&limit=3") == [2, 3, 4]
    assert await numbers("last=0") == []
    assert await numbers("last=1000000") == list(range(1, 8))
    at_end = (await gateway.http.get(f"{FRAMES}?last=0")).json()["next_cursor"]
    await gateway.desk.frame(end(8))
    assert await numbers(f"since={at_end}") == [8]
    async with gateway.sse(f"{FRAMES}?last=1") as sse:
        newest = await sse.next()
    assert newest is not None
    assert json.loads(newest[2])["n"] == 8
    both = await gateway.http.get(f"{FRAMES}?last=1&since={at_end}")
    assert (both.status_code, both.json()["errors"][0]["pointer"]) == (400, "last")
    assert (await gateway.http.get(f"{FRAMES}?last=1000001")).status_code == 400
