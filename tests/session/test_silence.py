"""Silence: every split of every text delivers the same text, and no part of the token leaks."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.protocol.envelope import Frame
from interlock.protocol.payloads import TextDelta, TextDone
from interlock.session.silence import MAX_REMEMBERED, Delivered, judge, plain_speech


def delta(offset: int, text: str, kind: str = "agent.text.delta", **metadata: object) -> Frame:
    return Frame(type=kind, message_id="m", session_id="s", timestamp="t", metadata=metadata,
                 payload=TextDelta(turn_id="t", block_id="b", offset=offset, text=text))


def done(text: str, block: str = "b", kind: str = "agent.text.done", **metadata: object) -> Frame:
    return Frame(type=kind, message_id="m", session_id="s", timestamp="t", seq=1, metadata=metadata,
                 payload=TextDone(turn_id="t", block_id=block, text=text))


@pytest.mark.req("Q-1")
@pytest.mark.parametrize(
    ("text", "silent"),
    [
        ("NO_REPLY", True), ("  \n NO_REPLY", True), ("NO_REPLY.", True), ("NO_REPLY\nmore", True),
        ("NO_REPLY-x", True), ("NO_REPLYx", False), ("NO_REPLY_", False), ("NO_REPLY1", False), ("NO_REPLY가", True),
        ("NO_REPLY입니다", True), ("NO_REPLY漢字", True), ("NO_REPLYé", True), ("NO_REPLY²", True),
        ("NO_REPLYａ", True),
        ("\ufeffNO_REPLY", True), ("\u200bNO_REPLY", True), (" \ufeff\n\u2060 NO_REPLY", True),
        ("N\u200bO_REPLY", False), ("\ufeff", False), ("\ufeffNO_REPLYx", False), ("NO_REPLYa가", False),
        ("NO_REPL", False), ("no_reply", False), ("say NO_REPLY", False), ("", False), ("  ", False),
    ],
)
def test_silent_texts_are_recognised(text: str, silent: bool) -> None:
    assert (judge(text, ended=True) == "silent") is silent
    shown = Delivered().done(done(text))
    assert shown.payload.text == ("" if silent else text)
    assert shown.metadata == ({"suppressed": True} if silent else {})


@pytest.mark.req("Q-2")
@given(st.sampled_from(["NO_REPLY", " NO_REPLY", "\ufeffNO_REPLY", "\u200b \u2060NO_REPLY", "NO_REPLY가",
                        "NO_", "", "NO_REPLYING", "NO_REPLY ", "Hi NO_REPLY"]),
       st.text(alphabet="NO_REPLY x.가é\ufeff", max_size=12), st.lists(st.integers(0, 24), max_size=8))
def test_every_split_delivers_the_same_text(start: str, rest: str, cuts: list[int]) -> None:
    text = start + rest
    view, shown = Delivered(), ""
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    for first, last in itertools.pairwise(edges):
        out = view.delta(delta(first, text[first:last]))
        if out is not None:
            assert out.payload.offset == len(shown)
            shown += out.payload.text
    silent = judge(text, ended=True) == "silent"
    assert shown in (("",) if silent else ("", text))
    assert not (shown == "" and judge(text, ended=False) == "speak")
    assert view.done(done(text)).payload.text == ("" if silent else text)


@pytest.mark.req("Q-1")
def test_a_continued_reply_shares_the_verdict_of_its_beginning() -> None:
    view = Delivered()
    assert view.done(done("NO_REPLY long", "a")).payload.text == ""
    assert view.delta(delta(0, "more", continues="a")) is None
    assert view.done(done("more", continues="a")).metadata["suppressed"] is True
    assert view.done(done("and more", "c", continues="b")).payload.text == ""
    delivered = Delivered()
    delivered.done(done("hello", "a"))
    assert delivered.done(done("NO_REPLY", continues="a")).payload.text == "NO_REPLY"
    blank = Delivered()
    blank.done(done("   ", "a"))
    assert blank.done(done("NO_REPLY", continues="a")).payload.text == ""
    marked = Delivered()
    marked.done(done("\ufeff", "a"))
    assert marked.done(done("NO_REPLY", continues="a")).payload.text == ""
    assert not plain_speech("\ufeff", {})


@pytest.mark.req("Q-1")
def test_other_frames_pass_and_late_starts_are_held() -> None:
    view = Delivered()
    thinking = delta(0, "NO_REPLY", "agent.thinking.delta")
    assert view.delta(thinking) is thinking
    thought = done("NO_REPLY", kind="agent.thinking.done")
    assert view.done(thought) is thought
    assert view.delta(delta(5, "unknown start")) is None
    view.turn_ended()
    assert view.delta(delta(0, "Hello")) is not None


def test_the_stored_verdicts_are_bounded() -> None:
    view = Delivered()
    view.done(done("NO_REPLY", "first"))
    for number in range(MAX_REMEMBERED):
        view.done(done("x", str(number)))
    assert view.done(done("own text", continues="first")).payload.text == "own text"


@pytest.mark.req("Z-5")
def test_a_turn_marked_silent_is_silent_whatever_its_text() -> None:
    view = Delivered()
    silent = {"silent": True}
    assert view.delta(delta(0, "I wrote", silent=True)) is None
    assert view.suppresses("b", "I wrote it all down", silent)
    assert view.suppresses("c", "and more", {"continues": "b"})
    assert not plain_speech("I wrote it all down", silent)
    assert not view.suppresses("d", "hello", {})
