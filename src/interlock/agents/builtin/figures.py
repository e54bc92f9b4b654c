"""A turn's tokens and cost, and the used part of the model's context (T-2, Z-1)."""

from __future__ import annotations

from pydantic_ai.messages import ModelResponse

from interlock.ports.agent import RequestTokens, TurnUsage


class UsageSum:
    """Sums up the usage of one turn's answers."""

    def __init__(self, window: int | None) -> None:
        self._window = window
        self._input = self._output = self._read = self._written = self._thinking = 0
        self._cost: float | None = None
        self._used: int | None = None
        self._request: RequestTokens | None = None

    def took(self, response: ModelResponse) -> TurnUsage:
        """Add an answer; return the turn's figures so far."""
        usage = response.usage
        if usage.input_tokens:
            self._used = usage.input_tokens + usage.output_tokens
            read, written = usage.cache_read_tokens, usage.cache_write_tokens
            self._request = RequestTokens(max(usage.input_tokens - read - written, 0), usage.output_tokens, read,
                                          written)
        return self.spent(response)

    def spent(self, response: ModelResponse) -> TurnUsage:
        """Add an answer outside the conversation, such as a summary of it: it does not fill the context."""
        usage = response.usage
        read, written = usage.cache_read_tokens, usage.cache_write_tokens
        # The provider's input count includes tokens read from, or written to, its cache.
        self._input += max(usage.input_tokens - read - written, 0)
        self._output += usage.output_tokens
        self._read += read
        self._written += written
        self._thinking += usage.details.get("reasoning_tokens", 0)
        cost = _cost(response)
        if cost is not None:
            self._cost = (self._cost or 0.0) + cost
        return self.usage

    @property
    def usage(self) -> TurnUsage:
        """Return the figures so far."""
        return TurnUsage(self._input, self._output, self._read, self._written, self._thinking or None, self._cost,
                         self._window, self._used, self._request)


def _cost(response: ModelResponse) -> float | None:
    """Return the cost in US dollars by the catalog's prices; None for a model that is not in it."""
    try:
        return float(response.cost().total_price)
    except (LookupError, AssertionError, ValueError):
        return None
