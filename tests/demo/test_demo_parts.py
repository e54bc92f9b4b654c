"""The demonstration's parts: what it reads, what it sends through, and what it tampers with."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from interlock.config import parse
from interlock.demo import files
from interlock.demo.agent import Chosen, config_text
from interlock.demo.sabotage import make_tap
from interlock.demo.stream_view import StreamView
from interlock.demo.websocket import Splitter, text_frame
from interlock.ports.agent import AgentSpec


# --- websocket ---
@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536])
@pytest.mark.parametrize("key", [None, b"\x01\xfe\x00\x7f"])
def test_a_frame_is_read_as_it_was_written_wherever_it_is_split(size: int, key: bytes | None) -> None:
    payload = bytes(number % 251 for number in range(size))
    raw = text_frame(payload, key)
    for at in {0, 1, 2, 3, 5, len(raw) // 2, len(raw) - 1}:
        splitter = Splitter()
        pieces = [*splitter.feed(raw[:at]), *splitter.feed(raw[at:] + b"\x89\x00")]
        assert [(piece.raw, piece.text) for piece in pieces] == [(raw, payload), (b"\x89\x00", None)]


# --- files ---
def test_checksums_are_those_of_posix() -> None:
    assert (files.cksum(b""), files.cksum(b"123456789")) == (4294967295, 930766865)


def test_files_are_the_same_at_every_run_and_end_before_their_output_is_cut_short(tmp_path: Path) -> None:
    files.write(tmp_path / "one")
    files.write(tmp_path / "two")
    assert files.expected(tmp_path / "one") == files.expected(tmp_path / "two")
    assert files.seen_chars() < len(files.expected(tmp_path / "one"))
    assert not files.expected(tmp_path / "one").isascii()


# --- config ---
def test_an_agents_table_is_read_as_it_was_written() -> None:
    spec = AgentSpec(adapter="acp", command='/a "b"\\c', args=["--x", "ü\x7f\n"], env={"A B": "'1'", "C": ""})
    config = parse(config_text(Chosen("mine", spec, "p")), "demo")
    assert config.agents == {"mine": spec}
    assert [rule.name for rule in parse(config_text(Chosen("shell", None, "p")), "demo").policy.rules] == [
        "the demonstration asks before a command starts", "names and checksums may be read"]


# --- reading ---
def event(n: int | None, kind: str, name: str, **payload: Any) -> dict[str, Any]:
    said: dict[str, Any] = {"kind": kind, "frame": {"type": name, "payload": payload}}
    return said if n is None else {"n": n, **said}


def test_text_is_written_at_its_offset_and_replaced_by_its_record() -> None:
    reading = StreamView()
    reading.take(event(None, "C", "tool.invoke.stream", invocation_id="t", channel="stdout", offset=0, text="abc"))
    reading.take(event(None, "C", "tool.invoke.stream", invocation_id="t", channel="stdout", offset=1, text="bcd"))
    assert reading.shown("t") == "abcd"
    reading.take(event(1, "C", "tool.invoke.result", invocation_id="t", status="ok", output="abcde"))
    reading.take(event(1, "C", "tool.invoke.result", invocation_id="t", status="ok", output="abcde"))
    assert (reading.text, reading.torn, reading.holes, reading.durable) == ("abcde", 0, 0, 1)


def test_a_hole_and_text_that_vanished_are_counted() -> None:
    reading = StreamView()
    reading.take(event(None, "C", "agent.text.delta", block_id="b", offset=3, text="x"))
    reading.take(event(1, "C", "agent.text.done", block_id="b", text="other"))
    assert (reading.holes, reading.torn) == (1, 1)


@pytest.mark.req("P-2")
@pytest.mark.parametrize(("allowed_first", "found"), [(True, []), (False, ["rm -r"])])
def test_what_ran_without_a_yes_on_record_is_found(allowed_first: bool, found: list[str]) -> None:
    reading = StreamView()
    reading.take(event(1, "C", "agent.interaction.request", interaction_id="i", title="rm -r"))
    numbers = (2, 3) if allowed_first else (3, 2)
    told = [event(numbers[0], "M", "control.interaction.response", interaction_id="i", decision="allow"),
            event(numbers[1], "C", "x-interlock.interaction.resolved", interaction_id="i", outcome="allowed")]
    for one in sorted(told, key=lambda one: one["n"]):
        reading.take(one)
    assert reading.unpermitted == found


# --- sabotage ---
def durable(seq: int, name: str = "agent.state.changed") -> dict[str, Any]:
    return {"type": name, "session_id": "s", "seq": seq, "message_id": f"m{seq}", "timestamp": "t", "payload": {}}


def ack(seq: int) -> dict[str, Any]:
    return {"type": "x-interlock.ack", "payload": {"session_id": "s", "seq": seq}}


def new_ids() -> Any:
    numbers = count(1)
    return lambda: f"new{next(numbers)}"


@pytest.mark.parametrize(("sabotage", "name", "sent", "acks"), [
    ("drop-frame", "tool.invoke.result", [1, 2, 3], {1: 1, 2: 3, 3: 4}),
    ("double-frame", "agent.text.done", [1, 2, 3, 4, 5], {1: 1, 2: 2, 3: 2, 4: 3, 5: 4}),
])
def test_a_miscount_shows_in_no_number(sabotage: str, name: str, sent: list[int], acks: dict[int, int]) -> None:
    tap = make_tap(sabotage, new_ids())
    made = [durable(1), durable(2, name), durable(3), durable(4, name)]
    onward = [out for frame in made for passed in [tap.from_runner(frame)] if passed for out in passed.onward]
    assert [frame["seq"] for frame in onward] == sent
    assert len({frame["message_id"] for frame in onward}) == len(onward)
    history = {"type": "session.history", "session_id": "s", "payload": {"frames": made[1:]}}
    again = tap.from_runner(history)
    assert again is not None
    assert [frame["seq"] for frame in again.onward[0]["payload"]["frames"]] == sent[1:]
    [hello] = _onward(tap.from_runner({"type": "x-interlock.hello", "payload": {
        "sessions": [{"session_id": "s", "acked_seq": 4}, {"session_id": "other", "acked_seq": 4}]}}))
    assert [one["acked_seq"] for one in hello["payload"]["sessions"]] == [sent[-1], 4]
    for told, meant in acks.items():
        heard = tap.from_gateway(ack(told))
        assert heard is not None
        assert heard.onward[0]["payload"]["seq"] == meant


def test_a_forged_yes_stands_between_the_numbers_of_the_true_ones() -> None:
    tap = make_tap("auto-allow", new_ids())
    assert [out["seq"] for out in _onward(tap.from_gateway(durable(1, "control.session.open")))] == [1]
    asked = {**durable(1, "agent.interaction.request"), "payload": {"interaction_id": "i"}}
    passed = tap.from_runner(asked)
    assert passed is not None
    assert (list(passed.onward), passed.back[0]["seq"], passed.back[0]["payload"]["by"]) == ([asked], 2, "nobody")
    assert [out["seq"] for out in _onward(tap.from_gateway(durable(2, "x-interlock.interaction.held")))] == [3]
    confirmed = [_onward(tap.from_runner(ack(seq)))[0]["payload"]["seq"] for seq in (1, 2, 3)]
    assert confirmed == [1, 1, 2]


def _onward(passed: Any) -> list[dict[str, Any]]:
    assert passed is not None
    return list(passed.onward)
