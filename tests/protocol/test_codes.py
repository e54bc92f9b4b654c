"""Error codes: one table holds each with its sentence, whose fault it is, and what to do (W-2)."""

import pytest

from interlock.protocol.codes import MEANINGS, Code

PUBLISHED = [
    "PROMPT_IN_PROGRESS", "SIGNAL_EXIT", "INVALID_FRAME", "UNSUPPORTED_CAPABILITY", "UNKNOWN_TURN",
    "NOT_CONTROLLER", "PROCESS_EXIT", "AGENT_START_FAILED", "RUNNER_RESTARTED", "FRAME_TOO_LARGE",
    "SESSION_NOT_FOUND", "VERSION_UNSUPPORTED", "UNAUTHORIZED", "WORKSPACE_REFUSED", "WORKSPACE_NOT_TRUSTED",
    "BUDGET_EXCEEDED", "COMPACTION_FAILED", "CONTEXT_OVERFLOW", "UPSTREAM_ERROR", "RAN_UNASKED",
    "RAN_OTHER_THAN_ALLOWED", "NOT_ASKING", "NOT_BOXED", "NETWORK_REFUSED", "STARTED_BETWEEN_TURNS",
    "STOPPED_ASKING", "INTERNAL",
]


@pytest.mark.req("W-2")
def test_the_codes_are_the_published_ones_and_each_has_a_remedy() -> None:
    assert [code.value for code in Code] == PUBLISHED
    assert set(MEANINGS) == set(Code)
    for meaning in MEANINGS.values():
        assert meaning.sentence.endswith(".")
        assert len(meaning.remedy) > 10
