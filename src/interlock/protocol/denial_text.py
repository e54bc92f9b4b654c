"""A denial in one sentence: who or which rule denied it, and why (Y-5). The same words for people and for agents.
Pure."""

from __future__ import annotations

from typing import NamedTuple

POLICY = "policy:"
"""Prefix of `by` if a rule decided; the rule's name follows."""
MAX_REASON_CHARS = 1_000
"""Maximum length of a reason in a sentence; the approval has the complete one."""


class No(NamedTuple):
    """Who denied a call: an actor such as `user:owner`, or `policy:` and a rule's name. `reason` is None if none was
    stated."""

    by: str
    reason: str | None = None

    @property
    def rule(self) -> str | None:
        """Return the name of the rule that decided; None if no rule did."""
        return self.by.removeprefix(POLICY) if self.by.startswith(POLICY) else None

    def sentence(self) -> str:
        """Return it as text: `denied by user:owner: I still need it`, `denied by the policy rule "no rm": it
        deletes`."""
        who = f'the policy rule "{self.rule}"' if self.rule is not None else self.by
        reason = (self.reason or "").strip()[:MAX_REASON_CHARS]
        return f"denied by {who}: {reason}" if reason else f"denied by {who}"
