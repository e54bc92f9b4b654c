"""Instructions to the model on its workspace and its work (B-1, A-6)."""

import pytest

from interlock.agents.builtin.words import CLOSED, INSTRUCTIONS, PLAN, READ_ONLY, system

pytestmark = pytest.mark.req("B-1", "A-6")


@pytest.mark.parametrize(("access", "mode", "parts"), [
    ("rw", "default", []), ("ro", "default", [READ_ONLY]), ("none", "default", [CLOSED]), ("ro", "plan", [READ_ONLY,
    PLAN]),
    ("rw", "plan", [PLAN]),
])
def test_the_prohibitions_follow_from_access_and_mode(access: str, mode: str, parts: list[str]) -> None:
    paragraphs = system("/w", access, mode, None).split("\n\n")
    assert "Workspace: /w" in paragraphs[0]
    assert [part for part in paragraphs if part in (READ_ONLY, CLOSED, PLAN)] == parts


def test_workspace_instructions_come_before_the_appended_text_of_the_command() -> None:
    paragraphs = system("/w", "rw", "default", "Answer in verse.",
                        INSTRUCTIONS.format(name="AGENTS.md", text="Use tabs."))
    assert paragraphs.endswith("Use tabs.\n\nAnswer in verse.")
    assert "in AGENTS.md" in paragraphs


def test_braces_in_a_path_are_not_placeholders() -> None:
    assert "Workspace: /w/{x}" in system("/w/{x}", "rw", "default", "{y}")
