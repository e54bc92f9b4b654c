"""The turn machine compared with its table: allowed frames by phase, and the state after a refusal (T-1 … T-4)."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.protocol import payloads as p
from interlock.protocol.codes import Code
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import FRAMES, Class, Direction
from interlock.protocol.limits import MAX_OPEN_INTERACTIONS, MAX_OPEN_TOOL_BYTES, MAX_OPEN_TOOLS
from interlock.session.turn import MOVES, NEUTRAL, TURN_FRAMES, Phase, Refusal, TurnMachine

USAGE = p.Usage(token_usage=p.TokenUsage(input_tokens=1, output_tokens=1),
                cost_usage=p.Quota(limit=-1, used=0, unit="USD"),
                message_usage=p.MessageQuota(limit=-1, used=1, unit="COUNT"),
                context_window=p.ContextWindow(), time_to_reset="")
SAMPLES: dict[str, p.Payload] = {
    "agent.text.delta": p.TextDelta(turn_id="t1", block_id="b", offset=0, text="x"),
    "agent.text.done": p.TextDone(turn_id="t1", block_id="b", text="x"),
    "agent.thinking.delta": p.TextDelta(turn_id="t1", block_id="b", offset=0, text="x"),
    "agent.thinking.done": p.TextDone(turn_id="t1", block_id="b", text="x"),
    "agent.interaction.request": p.InteractionRequest(interaction_id="q2", interaction_type="PERMISSION", title="",
                                                      context=p.InteractionContext(tool_name="shell")),
    "agent.error": p.AgentError(severity="warning", error_code="X", message=""),
    "agent.file.transfer": p.FileTransfer(transfer_id="f", name="n", media_type="m", size=0, sha256="", purpose="",
                                          content=""),
    "agent.state.changed": p.StateChanged(state="idle", previous="running"),
    "tool.invoke.request": p.ToolRequest(invocation_id="i2", turn_id="t1", tool_name="shell", input=msgspec.Raw(b"{}")),
    "tool.invoke.stream": p.ToolStream(invocation_id="i1", channel="stdout", offset=0, text=""),
    "tool.invoke.result": p.ToolResult(invocation_id="i1", status="ok", output_type="text", output="", duration_ms=0),
    "session.capabilities": p.Capabilities(dps_version="rawp-dps-1.0", features={}),
    "session.compacted": p.Compacted(summary="", previous_token_count=2, current_token_count=1, preserved_elements={},
                                     trigger="auto"),
    "session.usage": USAGE,
    "session.error": p.SessionError(error_code="X", message="", fatal=False),
    "session.turn.start": p.TurnStart(turn_id="t2", turn_index=1),
    "session.turn.end": p.TurnEnd(turn_id="t1", stop_reason="end_turn"),
    "session.closed": p.SessionClosed(reason=""),
    "x-interlock.asking.changed": p.AskingChanged(asks=False, message="It asks no longer."),
    "x-interlock.changes.report": p.ChangesReport(event="staged", digest="", count=0),
    "x-interlock.control.changed": p.ControlChanged(gateway_id="g"),
    "x-interlock.settings.changed": p.AgentSettings(mode=p.AgentSetting(current="plan")),
    "x-interlock.plan.changed": p.PlanChanged(turn_id="t1", steps=[p.PlanStep(content="look")]),
    "x-interlock.progress": p.Progress(turn_id="t1", percent=5.0),
    "x-interlock.interaction.resolved": p.InteractionResolved(interaction_id="q1", outcome="allowed", decided_at=""),
}
"""One frame of each type that a runner sends within a session, fit for the open turn of `machine`."""

OPENING: list[tuple[str, p.Payload]] = [
    ("session.capabilities", SAMPLES["session.capabilities"]),
    ("session.turn.start", p.TurnStart(turn_id="t1", turn_index=0)),
    ("tool.invoke.request", p.ToolRequest(invocation_id="i1", turn_id="t1", tool_name="shell",
                                          input=msgspec.Raw(b'{"command": "ls"}'), title="ls")),
    ("agent.interaction.request", p.InteractionRequest(
        interaction_id="q1", interaction_type="PERMISSION", title="",
        context=p.InteractionContext(tool_name="shell", invocation_id="i1"))),
]
PHASES: tuple[Phase, ...] = ("closed", "idle", "turn", "usage")


def frame(name: str, payload: p.Payload | None = None, **metadata: Any) -> Frame:
    return Frame(type=name, payload=payload or SAMPLES[name], message_id="m", session_id="s", seq=1, timestamp="",
                 metadata=metadata)


def machine(phase: Phase) -> TurnMachine:
    """A machine that was led into a phase by frames. In a turn a tool call and its question are open."""
    made = TurnMachine()
    steps = {"closed": [], "idle": OPENING[:1], "turn": OPENING,
             "usage": [*OPENING, ("session.turn.end", SAMPLES["session.turn.end"])]}[phase]
    for name, payload in steps:
        made.apply(frame(name, payload, prompt_id="p1"))
    assert made.phase == phase
    return made


def refused(made: TurnMachine, what: Frame) -> Code:
    """The frame is refused, and nothing has changed (T-4)."""
    before = copy.deepcopy(made)
    with pytest.raises(Refusal) as caught:
        made.apply(what)
    assert made == before
    assert caught.value.sentence
    return caught.value.code


@pytest.mark.req("T-1", "T-2", "T-3", "T-4")
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("name", SAMPLES)
def test_every_frame_in_every_phase_follows_the_table(name: str, phase: Phase) -> None:
    made = machine(phase)
    if FRAMES[name].frame_class is Class.TRANSIENT:
        if phase == "turn":
            made.check(frame(name))
        else:
            assert refused(made, frame(name)) is Code.UNKNOWN_TURN
    elif name in MOVES[phase]:
        made.apply(frame(name))
        assert made.phase == MOVES[phase][name]
    elif name in NEUTRAL:
        before = copy.deepcopy(made)
        made.apply(frame(name))
        assert made == before
    elif name == "session.closed":
        raise AssertionError("a session can be closed in every phase")
    else:
        begun = name == "session.turn.start" and phase != "closed"
        assert refused(made, frame(name)) is (Code.PROMPT_IN_PROGRESS if begun else Code.UNKNOWN_TURN)


@pytest.mark.req("W-1", "T-4")
def test_the_table_knows_every_durable_frame_of_the_runner_and_no_other() -> None:
    sent = {name for name, row in FRAMES.items()
            if row.direction is not Direction.M and row.frame_class is not Class.LINK}
    assert set(SAMPLES) == sent
    assert NEUTRAL | TURN_FRAMES | {name for moves in MOVES.values() for name in moves} == sent


@pytest.mark.req("T-1")
def test_a_second_turn_does_not_start_before_the_first_one_and_its_usage_are_there() -> None:
    made = machine("turn")
    again = frame("session.turn.start", p.TurnStart(turn_id="t2", turn_index=1))
    assert refused(made, again) is Code.PROMPT_IN_PROGRESS
    made.apply(frame("session.turn.end"))
    assert refused(made, again) is Code.PROMPT_IN_PROGRESS
    made.apply(frame("session.usage"))
    made.apply(again)
    assert made.turn is not None
    assert (made.turn.turn_id, made.turn.turn_index) == ("t2", 1)


@pytest.mark.req("T-2")
def test_usage_within_a_turn_is_a_running_total_and_after_its_end_it_closes_it() -> None:
    made = machine("turn")
    made.apply(frame("session.usage"))
    assert made.phase == "turn"
    made.apply(frame("session.turn.end"))
    made.apply(frame("session.usage"))
    assert (made.phase, made.turn) == ("idle", None)


@pytest.mark.req("T-3")
@pytest.mark.parametrize("phase", PHASES)
def test_no_turn_outlives_its_session(phase: Phase) -> None:
    made = machine(phase)
    made.apply(frame("session.closed"))
    assert (made.phase, made.turn) == ("closed", None)


@pytest.mark.req("T-4")
@pytest.mark.parametrize(
    "foreign",
    [
        ("agent.text.delta", p.TextDelta(turn_id="t0", block_id="b", offset=0, text="")),
        ("agent.text.done", p.TextDone(turn_id="t0", block_id="b", text="")),
        ("agent.thinking.done", p.TextDone(turn_id="t0", block_id="b", text="")),
        ("tool.invoke.request", p.ToolRequest(invocation_id="i9", turn_id="t0", tool_name="x", input=msgspec.Raw(b""))),
        ("tool.invoke.stream", p.ToolStream(invocation_id="i9", channel="stdout", offset=0, text="")),
        ("tool.invoke.result", p.ToolResult(invocation_id="i9", status="ok", output_type="text", output="",
                                            duration_ms=0)),
        ("x-interlock.interaction.resolved", p.InteractionResolved(interaction_id="q9", outcome="allowed",
                                                                   decided_at="")),
        ("session.turn.end", p.TurnEnd(turn_id="t0", stop_reason="end_turn")),
        ("session.usage", msgspec.structs.replace(USAGE, turn_id="t0")),
    ],
    ids=lambda pair: pair[0],
)
def test_a_frame_of_another_turn_call_or_question_is_refused(foreign: tuple[str, p.Payload]) -> None:
    assert refused(machine("turn"), frame(*foreign)) is Code.UNKNOWN_TURN


@pytest.mark.req("T-4")
def test_usage_of_an_ended_turn_is_refused_after_the_first_report() -> None:
    made = machine("usage")
    owed = frame("session.usage", msgspec.structs.replace(USAGE, turn_id="t1"))
    made.apply(owed)
    assert refused(made, owed) is Code.UNKNOWN_TURN


@pytest.mark.req("T-4", "P-2")
def test_a_tool_call_and_its_question_are_open_until_they_are_answered_once() -> None:
    made = machine("turn")
    turn = made.turn
    assert turn is not None
    assert turn.prompt_id == "p1"
    assert turn.tools["i1"].input == b'{"command": "ls"}'
    assert turn.interactions == {"q1": "i1"}
    for name in ("x-interlock.interaction.resolved", "tool.invoke.result"):
        made.apply(frame(name))
        assert refused(made, frame(name)) is Code.UNKNOWN_TURN
    assert (turn.tools, turn.interactions) == ({}, {})


def call(name: str, text: str = "") -> Frame:
    given = msgspec.Raw(msgspec.json.encode({"text": text}))
    return frame("tool.invoke.request", p.ToolRequest(invocation_id=name, turn_id="t1", tool_name="sh", input=given))


@pytest.mark.req("T-4")
def test_open_tool_calls_are_bounded_and_an_ended_one_frees_a_slot() -> None:
    made = machine("turn")
    for number in range(MAX_OPEN_TOOLS - 1):
        made.apply(call(f"more-{number}"))
    assert refused(made, call("too many")) is Code.INVALID_FRAME
    made.apply(frame("tool.invoke.result"))
    made.apply(call("too many"))


@pytest.mark.req("T-4")
def test_the_inputs_of_open_tool_calls_are_bounded() -> None:
    made, text = machine("turn"), "x" * 700_000
    for number in range(MAX_OPEN_TOOL_BYTES // 700_100):
        made.apply(call(f"large-{number}", text))
    assert refused(made, call("too much", text)) is Code.INVALID_FRAME
    made.apply(call("small"))


@pytest.mark.req("T-4")
def test_the_names_and_titles_of_open_tool_calls_are_bounded_with_their_inputs() -> None:
    made, text = machine("turn"), "x" * 700_000
    for number in range(MAX_OPEN_TOOL_BYTES // 700_100 + 1):
        frame_of = call(f"titled-{number}")
        titled = msgspec.structs.replace(frame_of.payload, **{("title", "tool_name")[number % 2]: text})
        last = msgspec.structs.replace(frame_of, payload=titled)
        if number < MAX_OPEN_TOOL_BYTES // 700_100:
            made.apply(last)
    assert refused(made, last) is Code.INVALID_FRAME


@pytest.mark.req("T-4", "A-5")
def test_open_questions_of_a_turn_are_bounded() -> None:
    made = machine("turn")
    asked = [frame("agent.interaction.request", p.InteractionRequest(
        interaction_id=f"more-{number}", interaction_type="PERMISSION", title="",
        context=p.InteractionContext(tool_name="shell"))) for number in range(MAX_OPEN_INTERACTIONS)]
    for one in asked[1:]:
        made.apply(one)
    assert refused(made, asked[0]) is Code.INVALID_FRAME
    made.apply(frame("x-interlock.interaction.resolved"))
    made.apply(asked[0])


@pytest.mark.req("E-1")
@pytest.mark.parametrize("phase", PHASES)
def test_an_unknown_frame_is_accepted_in_every_phase_and_changes_nothing(phase: Phase) -> None:
    made = machine(phase)
    before = copy.deepcopy(made)
    made.apply(Frame(type="x-acme.weather", payload=msgspec.Raw(b"{}"), message_id="m", session_id="s", seq=1,
                     timestamp=""))
    assert made == before


@pytest.mark.req("T-3", "T-4")
@given(st.lists(st.sampled_from(sorted(SAMPLES)), max_size=40))
def test_a_turn_is_open_only_in_its_phases_for_any_sequence(names: list[str]) -> None:
    made = TurnMachine()
    for name in names:
        before = copy.deepcopy(made)
        try:
            made.apply(frame(name))
        except Refusal:
            assert made == before
        assert (made.turn is not None) == (made.phase in ("turn", "usage"))
