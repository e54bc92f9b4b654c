"""When a conversation is compacted and where it is cut (Z-2, Z-3), against the rule in plain words."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.protocol.limits import MAX_SUMMARY_CHARS
from interlock.session.context.compaction_plan import (
    CompactionPlan,
    CompactionSettings,
    Flush,
    NothingToCompact,
    Path,
    plan,
    reserve_tokens,
    size_fault,
    thresholds,
)
from interlock.session.context.context import context
from interlock.session.context.tokens import Calibration, context_tokens
from interlock.session.transcript.tree import read_tree
from session.plain_compaction import Conversation, Entry, contributes, plain_cut, random_turns
from session.plain_context import plain_context

WINDOW = 200_000
SMALL = CompactionSettings(reserve_tokens=100, keep_recent_tokens=400, reserve_tokens_floor=0)


def planned(entries: list[Entry], given: CompactionSettings = SMALL, window: int = WINDOW,
            **more: Any) -> CompactionPlan:
    return plan(Path.of_tree(read_tree(list(map(msgspec.json.encode, entries)))), given, window, **more)


def messages(entries: list[Entry]) -> list[dict[str, Any]]:
    return context(read_tree(list(map(msgspec.json.encode, entries)))).messages


# --- the reserve and the thresholds ---
@pytest.mark.req("Z-2")
def test_the_floor_raises_the_reserve_and_zero_disables_it() -> None:
    assert reserve_tokens(CompactionSettings(), WINDOW) == 20_000
    assert reserve_tokens(CompactionSettings(reserve_tokens_floor=0), WINDOW) == 16_384
    assert reserve_tokens(CompactionSettings(reserve_tokens=30_000), WINDOW) == 30_000
    assert thresholds(CompactionSettings(), WINDOW).compaction == 180_000


@pytest.mark.req("Z-2")
@pytest.mark.parametrize("window", [4_096, 8_192, 16_385, 32_000])
def test_a_small_window_is_not_compacted_at_every_turn(window: int) -> None:
    limits = thresholds(CompactionSettings(), window)
    assert limits.compaction >= 0.74 * window, "the reserve would leave nothing of the window"
    conversation = Conversation()
    compactions, size = 0, window // 12
    for turn in range(60):
        conversation.user(f"turn {turn}")
        conversation.answer("word " * size)
        if context_tokens(messages(conversation.entries)) > limits.compaction:
            made = planned(conversation.entries, CompactionSettings(), window)
            conversation.compaction("summary " * 20, made.first_kept)
            compactions += 1
            assert context_tokens(messages(conversation.entries)) <= limits.compaction
    assert 0 < compactions <= 20


@pytest.mark.req("Z-5")
@given(window=st.integers(0, 3_000_000), reserve=st.integers(0, 500_000), floor=st.integers(0, 500_000),
       soft=st.integers(-5, 500_000), keep=st.integers(0, 500_000))
def test_the_flush_threshold_is_never_after_that_of_compaction(window: int, reserve: int, floor: int, soft: int,
                                                     keep: int) -> None:
    limits = thresholds(CompactionSettings(
        reserve_tokens=reserve, reserve_tokens_floor=floor, keep_recent_tokens=keep,
        memory_flush=Flush(soft_threshold_tokens=soft)), window)
    assert 0 <= limits.flush <= limits.compaction <= window
    assert limits.keep <= limits.compaction // 2


# --- the cut ---
@pytest.mark.req("Z-3")
@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10_000), turns=st.integers(1, 12), keep=st.integers(0, 1_500))
def test_the_cut_equals_that_of_the_reference_rules(seed: int, turns: int, keep: int) -> None:
    entries = random_turns(random.Random(seed), turns).entries
    expected = plain_cut(entries, 0, keep)
    given = CompactionSettings(reserve_tokens_floor=0, keep_recent_tokens=keep)
    if expected is None:
        with pytest.raises(NothingToCompact):
            planned(entries, given)
        return
    made = planned(entries, given)
    assert made.first_kept == entries[expected]["id"]
    assert made.entry_ids == [one["id"] for one in entries[:expected] if contributes(one)]
    assert made.tokens_before == context_tokens(messages(entries))


@pytest.mark.req("Z-3")
def test_the_cut_is_never_before_a_result_nor_between_a_call_and_its_result() -> None:
    conversation = Conversation()
    conversation.user("go")
    both = conversation.answer("", ("a", "read", {"path": "x"}), ("b", "read", {"path": "y"}))
    conversation.result("a", "first " * 400)
    conversation.answer("", ("c", "read", {"path": "z"}))
    conversation.result("b", "late " * 400)
    conversation.result("c", "last " * 400)
    made = planned(conversation.entries)
    assert made.first_kept == both, "a cut before the second message would leave the result of b without its call"


@pytest.mark.req("Z-3")
def test_one_huge_last_result_is_kept_with_its_call_and_the_rest_removed() -> None:
    conversation = Conversation()
    old = conversation.user("long ago")
    conversation.answer("yes")
    conversation.user("show me the log")
    call = conversation.answer("", ("a", "shell", {"command": "cat log"}))
    conversation.result("a", "noise " * 20_000)
    made = planned(conversation.entries)
    assert made.first_kept == call
    assert made.entry_ids[0] == old


@pytest.mark.req("Z-3")
def test_the_head_of_a_split_turn_is_summarised_separately() -> None:
    conversation = Conversation()
    conversation.user("earlier")
    conversation.answer("done")
    asked = conversation.user("now this")
    first = conversation.answer("", ("a", "shell", {"command": "ls"}))
    result = conversation.result("a", "out " * 50)
    kept = conversation.answer("that was " * 400)
    made = planned(conversation.entries)
    assert made.first_kept == kept
    assert made.turn_head == [asked, first, result]
    assert made.entry_ids[-3:] == made.turn_head
    whole = Conversation()
    whole.user("earlier")
    whole.answer("done")
    cut = whole.user("now this " * 400)
    assert planned(whole.entries).first_kept == cut
    assert planned(whole.entries).turn_head == []


@pytest.mark.req("Z-3")
def test_a_short_conversation_is_not_compacted() -> None:
    conversation = Conversation()
    conversation.user("hi")
    conversation.answer("hello")
    with pytest.raises(NothingToCompact, match="the last 400 are always kept"):
        planned(conversation.entries)
    one = Conversation()
    one.user("all in one message " * 700)
    with pytest.raises(NothingToCompact, match="no message is cut in two"):
        planned(one.entries)
    with pytest.raises(NothingToCompact):
        planned([])


# --- the second compaction ---
@pytest.mark.req("Z-3")
def test_a_second_compaction_begins_at_the_first_kept_entry() -> None:
    """The fault: it began behind the first compaction, and what that one had kept was in neither summary."""
    conversation = Conversation()
    conversation.user("one " * 700)
    conversation.answer("two " * 700)
    first = planned(conversation.entries)
    conversation.compaction("sum one", first.first_kept)
    conversation.user("three " * 700)
    conversation.answer("four " * 700)
    second = planned(conversation.entries)
    assert second.entry_ids[0] == first.first_kept
    assert second.previous_summary == "sum one"


@pytest.mark.req("Z-3")
@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10_000), rounds=st.integers(1, 5))
def test_no_entry_is_ever_lost_between_compactions(seed: int, rounds: int) -> None:
    """Each entry is in context or in exactly one summary; and a session that was never compacted has the same context
    behind the cut as one that was."""
    dice = random.Random(seed)
    conversation = Conversation()
    summarised: list[str] = []
    for _ in range(rounds):
        grown = random_turns(dice, dice.randrange(2, 8)).entries
        for one in grown:
            conversation.add(one["type"], **{name: value for name, value in one.items()
                                             if name not in ("type", "id", "parentId", "timestamp")})
        try:
            made = planned(conversation.entries)
        except NothingToCompact:
            continue
        summarised += made.entry_ids
        never = [one for one in conversation.entries if one["type"] != "compaction"]
        conversation.compaction("so far", made.first_kept)
        cut = next(at for at, one in enumerate(never) if one["id"] == made.first_kept)
        uncompacted = [{**one, "parentId": None if at == 0 else never[cut + at - 1]["id"]}
                       for at, one in enumerate(never[cut:])]
        assert messages(conversation.entries)[1:] == messages(uncompacted)
    contributing = [one["id"] for one in conversation.entries if contributes(one)]
    assert summarised == contributing[:len(summarised)], "each once, in order"
    expected = len(contributing) - len(summarised) + (1 if summarised else 0)
    assert len(messages(conversation.entries)) == expected
    plain = plain_context(conversation.entries).messages
    assert [_bare(one) for one in messages(conversation.entries)] == [_bare(one) for one in plain]


def _bare(message: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if value is not None}


@pytest.mark.req("Z-3")
def test_nothing_new_since_a_compaction_is_nothing_to_compact() -> None:
    conversation = Conversation()
    conversation.user("one " * 700)
    conversation.answer("two " * 700)
    conversation.compaction("sum", planned(conversation.entries).first_kept)
    conversation.add("custom", customType="interlock.notice", data={})
    with pytest.raises(NothingToCompact):
        planned(conversation.entries)


# --- files, figures, other shapes ---
@pytest.mark.req("Z-3")
def test_file_operations_are_carried_from_summary_to_summary() -> None:
    conversation = Conversation()
    conversation.user("go " * 700)
    conversation.answer("", ("a", "read", {"path": "a.txt"}), ("b", "Write", {"file_path": "b.txt"}),
                        ("c", "edit", {"path": "denied.txt"}))
    conversation.result("a", "text")
    conversation.result("b", "ok")
    conversation.result("c", "Denied by ann.", failed=True)
    cut = conversation.user("next " * 700)
    first = planned(conversation.entries)
    assert first.first_kept == cut
    assert (first.read_files, first.modified_files) == (["a.txt"], ["b.txt"])
    conversation.compaction("sum", cut, {"readFiles": first.read_files, "modifiedFiles": first.modified_files})
    conversation.answer("", ("a", "edit", {"path": "a.txt"}))
    conversation.result("a", "ok")
    conversation.user("and again " * 700)
    second = planned(conversation.entries)
    assert (second.read_files, second.modified_files) == ([], ["a.txt", "b.txt"])


@pytest.mark.req("Z-1")
def test_a_model_that_counts_more_keeps_less() -> None:
    conversation = Conversation()
    for turn in range(20):
        conversation.user(f"turn {turn}")
        conversation.answer("word " * 100)
    plain, twice = planned(conversation.entries), planned(conversation.entries, calibration=Calibration(2.0))
    assert len(twice.entry_ids) > len(plain.entry_ids)
    assert planned(conversation.entries, tokens_before=77_777).tokens_before == 77_777


def test_a_tree_and_its_entries_give_one_plan() -> None:
    entries = random_turns(random.Random(7), 10).entries
    tree = read_tree(list(map(msgspec.json.encode, entries)))
    assert plan(Path.of_tree(tree), SMALL, WINDOW) == planned(entries)


def test_a_first_kept_entry_off_the_path_means_after_the_compaction() -> None:
    conversation = Conversation()
    conversation.user("one " * 700)
    conversation.compaction("sum", "ffffffff")
    kept = conversation.user("two " * 700)
    conversation.answer("three " * 700)
    assert planned(conversation.entries).entry_ids == [kept]


@pytest.mark.req("Z-4")
@pytest.mark.parametrize(("summary", "fault"), [
    ("x" * MAX_SUMMARY_CHARS, None), ("\uac00" * 170_000, None), ("x" * (MAX_SUMMARY_CHARS + 1), "400001 characters"),
    ("\uac00" * 200_000, "600000 bytes as JSON"), ("\x01" * 100_000, "600000 bytes as JSON"),
])
def test_a_summary_larger_than_a_frame_is_refused(summary: str, fault: str | None) -> None:
    found = size_fault(summary)
    assert (found is None) is (fault is None)
    assert fault is None or fault in str(found)
