"""Usage of each model request, out of a turn's running totals (X-8)."""

from __future__ import annotations

import pytest

from interlock.protocol import payloads as p
from interlock.session.transcript.entries import TokenFigures
from interlock.session.transcript.request_usage import RequestUsage, turn_figures

pytestmark = pytest.mark.req("X-8")
QUOTA = p.Quota(limit=-1, used=0, unit="USD")
MESSAGES = p.MessageQuota(limit=-1, used=0, unit="COUNT")


def usage(tokens_in: int, tokens_out: int, *, cached: int | None = None, used: int | None = None,
          last: tuple[int, int] | None = None) -> p.Usage:
    return p.Usage(
        token_usage=p.TokenUsage(input_tokens=tokens_in, output_tokens=tokens_out, cache_read_tokens=cached),
        cost_usage=QUOTA, message_usage=MESSAGES, context_window=p.ContextWindow(used=used), time_to_reset="",
        request_usage=None if last is None else p.TokenUsage(input_tokens=last[0], output_tokens=last[1]))


def figures(tokens_in: int, tokens_out: int, cached: int = 0, total: int | None = None) -> TokenFigures:
    return TokenFigures(tokens_in, tokens_out, cached, 0, tokens_in + tokens_out + cached if total is None else total)


def test_without_a_usage_frame_all_figures_are_zero() -> None:
    assert RequestUsage().take() == TokenFigures()


def test_the_agents_report_of_its_last_request_takes_precedence() -> None:
    turn = RequestUsage()
    turn.note(usage(100, 50, used=1_000, last=(10, 5)))
    assert turn.take() == figures(10, 5)


def test_a_turns_totals_are_distributed_by_their_increases() -> None:
    turn = RequestUsage()
    turn.note(usage(100, 10, cached=7))
    assert turn.take() == figures(100, 10, 7)
    turn.note(usage(150, 30, cached=7))
    assert turn.take() == figures(50, 20)


def test_messages_without_a_usage_frame_share_the_next_one() -> None:
    turn = RequestUsage()
    assert [turn.take(), turn.take()] == [TokenFigures()] * 2
    turn.note(usage(90, 30))
    assert turn.take() == figures(30, 10)
    turn.note(usage(100, 31))
    assert turn.take() == figures(10, 1), "those before were counted"


def test_only_the_newest_frame_before_a_message_counts() -> None:
    turn = RequestUsage()
    turn.note(usage(10, 1))
    turn.note(usage(20, 2))
    assert turn.take() == figures(20, 2)
    assert turn.take() == TokenFigures()


def test_shrinking_totals_are_not_negative_usage() -> None:
    turn = RequestUsage()
    turn.note(usage(100, 10))
    turn.take()
    turn.note(usage(40, 12))
    assert turn.take() == figures(0, 2)


@pytest.mark.parametrize(("used", "shown"), [
    (1_000, figures(100, 50, 20, total=1_000)), (170, figures(100, 50, 20, total=170)),
    (120, figures(70, 50, total=120)), (30, figures(0, 30, total=30)), (0, figures(100, 50, 20)),
])
def test_the_reported_size_of_the_context_is_the_total(used: int, shown: TokenFigures) -> None:
    turn = RequestUsage()
    turn.note(usage(100, 50, cached=20, used=used))
    assert turn.take() == shown


def test_a_whole_turn_has_the_figures_of_its_frame() -> None:
    assert turn_figures(usage(3, 4, cached=None)) == figures(3, 4)
