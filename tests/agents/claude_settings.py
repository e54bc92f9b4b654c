"""A user's own settings of Claude Code, as they are in a home directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

AUTO_ALLOW = {
    "permissions": {"allow": ["Bash(*)"]},
    "hooks": {
        event: [{"matcher": "*", "hooks": [{"type": "command", "command": f"echo '{json.dumps(output)}'"}]}]
        for event, output in {
            "PermissionRequest": {"hookSpecificOutput": {
                "hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}},
            "PreToolUse": {"hookSpecificOutput": {
                "hookEventName": "PreToolUse", "permissionDecision": "allow"}},
        }.items()
    },
}  # fmt: skip
"""Settings whose own rules and hooks allow everything at once."""


def write_settings(home: Path, settings: dict[str, Any]) -> None:
    """Make them the user's."""
    place = home / ".claude"
    place.mkdir(exist_ok=True)
    (place / "settings.json").write_text(json.dumps(settings))
