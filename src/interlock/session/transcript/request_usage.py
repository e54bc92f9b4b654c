"""The usage of each model request, derived from usage frames with a turn's running totals (X-8). Pure.

In the transcript's format an assistant message has the usage of the one request that produced it, and readers interpret
`totalTokens` as the size of the context after it. A turn's total over twenty requests would look like a context that is
twenty times too large.
"""

from __future__ import annotations

from interlock.protocol import payloads as p
from interlock.session.transcript.entries import TokenFigures


class RequestUsage:
    """Tracks the usage frames of one turn; `take` returns the figures of one assistant message after another."""

    def __init__(self) -> None:
        self._latest: p.Usage | None = None
        self._counted = TokenFigures()
        """Totals of the turn up to the last message whose usage was known."""
        self._unknown = 0
        """Messages since then that were appended before any usage frame arrived."""

    def note(self, usage: p.Usage) -> None:
        """Store a usage frame of the turn: running totals, or the last ones."""
        self._latest = usage

    def take(self) -> TokenFigures:
        """Return the usage of the message that is being appended: zeros if no new usage frame has arrived.

        In order of preference: the agent's report of its last request, the reported size of the context, the growth of
        the turn's totals divided by the messages that it covers.
        """
        usage, self._latest = self._latest, None
        if usage is None:
            self._unknown += 1
            return TokenFigures()
        totals = turn_figures(usage)
        grown, messages = _grown(totals, self._counted), self._unknown + 1
        self._counted, self._unknown = totals, 0
        used = usage.context_window.used
        if usage.request_usage is not None:
            return _figures(usage.request_usage)
        if used is not None and used > 0:
            return _sized(grown, used)
        return _summed((round(grown.input / messages), round(grown.output / messages),
                        round(grown.cache_read / messages), round(grown.cache_write / messages)))


def turn_figures(usage: p.Usage) -> TokenFigures:
    """Return the usage of a whole turn, as its usage frame reports it."""
    return _figures(usage.token_usage)


def _sized(figures: TokenFigures, used: int) -> TokenFigures:
    """Set the total to the reported size of the context. Figures that exceed it cover several requests, whose shares
    are unknown: all but the output counts as input."""
    if sum(_parts(figures)) <= used:
        return TokenFigures(*_parts(figures), used)
    output = min(figures.output, used)
    return TokenFigures(used - output, output, 0, 0, used)


def _grown(now: TokenFigures, before: TokenFigures) -> TokenFigures:
    return _summed((max(now.input - before.input, 0), max(now.output - before.output, 0),
                    max(now.cache_read - before.cache_read, 0), max(now.cache_write - before.cache_write, 0)))


def _figures(tokens: p.TokenUsage) -> TokenFigures:
    return _summed((tokens.input_tokens, tokens.output_tokens, tokens.cache_read_tokens or 0,
                    tokens.cache_write_tokens or 0))


def _parts(figures: TokenFigures) -> tuple[int, int, int, int]:
    return figures.input, figures.output, figures.cache_read, figures.cache_write


def _summed(parts: tuple[int, int, int, int]) -> TokenFigures:
    return TokenFigures(*parts, sum(parts))
