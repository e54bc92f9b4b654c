"""A recorded call held against other rules (J-13): it changed if it would be decided otherwise, whatever rule does."""

import pytest

from interlock.protocol.policy_replay import ReplayedCall

pytestmark = pytest.mark.req("J-13")


def call(was: str, now: str, now_rule: str = "two") -> ReplayedCall:
    return ReplayedCall(session_id="s", at="t", agent="shell", tool="shell", what="$ ls", was=was, was_rule="one",
                        now=now, now_rule=now_rule)


@pytest.mark.parametrize(("was", "now", "changed"), [
    ("allow", "allow", False), ("ask", "allow", True), ("allow", "deny", True), ("deny", "ask", True),
])
def test_only_a_different_decision_is_a_change(was: str, now: str, changed: bool) -> None:
    assert call(was, now).changed is changed


def test_another_rule_with_the_same_decision_is_not_a_change() -> None:
    assert not call("ask", "ask", now_rule="three").changed
    assert call("ask", "ask").unknown == []
