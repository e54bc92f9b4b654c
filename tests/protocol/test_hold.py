"""The line that describes how an agent is held (H-10)."""

from typing import get_args

import msgspec
import pytest

from interlock.protocol.hold import MAX_WHY_CHARS, MEANINGS, Held, Holding, phrase

pytestmark = pytest.mark.req("H-10")


@pytest.mark.parametrize(("holding", "line"), [
    (Holding(held="asks"), "asks"),
    (Holding(held="command", why="not checked"), "command (not checked)"),
    (Holding(held="asks", checked="2026-11-22T10:00:00Z", version="1.52.0"), "asks (checked 2026-11-22, v1.52.0)"),
    (Holding(held="asks", checked="2026-11-22T10:00:00Z", version="v1.52.0"), "asks (checked 2026-11-22, v1.52.0)"),
    (Holding(held="none", why="rule let-it", version="2"), "none (rule let-it, v2)"),
])
def test_the_word_precedes_its_reason(holding: Holding, line: str) -> None:
    assert phrase(holding) == line


def test_a_long_reason_or_version_of_an_agent_is_cut() -> None:
    line = phrase(Holding(held="asks", why="w" * 5_000, version="9" * 5_000))
    assert len(line) <= 2 * MAX_WHY_CHARS + len("asks (, v)")


def test_only_known_words_are_read_and_each_has_a_meaning() -> None:
    assert set(MEANINGS) == set(get_args(Held))
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"held": "trusted"}, Holding)
