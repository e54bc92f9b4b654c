"""The session's state as a chat shows it (V-1)."""

from __future__ import annotations

import pytest

from interlock.session.chat.chat_words import ChatStatus, status_text


@pytest.mark.req("V-1", "Z-1")
@pytest.mark.parametrize(("tokens", "estimated", "line"), [
    (45_000, False, "context 45,000 of 200,000 (22 %) · compactions 1"),
    (45_000, True, "context about 45,000 of 200,000 (22 %) · compactions 1"),
    (None, True, "context not reported by the agent · compactions 1"),
])
def test_an_estimated_context_size_is_marked_as_an_estimate(tokens: int | None, estimated: bool, line: str) -> None:
    text = status_text(ChatStatus(
        agent_id="own", model="m", state="idle", session_key="agent:own:main", session_id="s", age_ms=0, input_tokens=1,
        output_tokens=2, cost_usd=0.0, context_tokens=tokens, context_estimated=estimated, context_window=200_000,
        compactions=1, running=0, waiting=0, asking=0))
    assert line in text.splitlines()
