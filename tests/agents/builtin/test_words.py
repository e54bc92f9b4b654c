"""Instructions to the model on its workspace and its work (B-1, A-6)."""

import pytest

from interlock.agents.builtin.words import CLOSED, INSTRUCTIONS, PLAN, READ_ONLY, system

pytestmark = pytest.mark.req("B-1", "A-6")


@pytest.mark.parametrize(("access", "mode", "parts"), [
    ("rw", "default", []), ("ro", "default", [READ_ONLY]), ("none", "default", [CLOSED]), ("ro", "plan", [READ_ONLY,
    PLAN]),
    ("rw", "plan", [PLAN]),
])
def test_what_it_may_not_do_follows_from_its_access_and_its_mode(access: str, mode: str, parts: list[str]) -> None:
    said = system("/w", access, mode, None).split("\n\n")
    assert "Workspace: /w" in said[0]
    assert [part for part in said if part in (READ_ONLY, CLOSED, PLAN)] == parts


def test_the_workspaces_instructions_come_before_what_the_command_appends() -> None:
    said = system("/w", "rw", "default", "Answer in verse.", INSTRUCTIONS.format(name="AGENTS.md", text="Use tabs."))
    assert said.endswith("Use tabs.\n\nAnswer in verse.")
    assert "in AGENTS.md" in said


def test_braces_in_a_path_are_no_fields() -> None:
    assert "Workspace: /w/{x}" in system("/w/{x}", "rw", "default", "{y}")
