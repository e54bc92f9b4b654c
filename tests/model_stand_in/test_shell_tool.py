"""The offered tool that runs a shell command, for every agent's names of it and its arguments."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.model_stand_in.conversation import OfferedTool
from interlock.model_stand_in.shell_tool import shell_call


def tool(name: str, **properties: Any) -> OfferedTool:
    return OfferedTool(name, {"properties": properties, "required": list(properties)})


STRING = {"type": "string"}


@pytest.mark.parametrize(("names", "chosen"), [
    (["Read", "Bash"], "Bash"), (["developer__shell"], "developer__shell"), (["terminal", "shell"], "shell"),
    (["run_shell_command"], "run_shell_command"), (["Read"], None), ([], None), (["bashful"], None),
])
def test_the_shell_is_found_by_the_last_part_of_its_name(names: list[str], chosen: str | None) -> None:
    found = shell_call([tool(name, command=STRING) for name in names], "ls")
    assert (found and found[0]) == chosen


@pytest.mark.parametrize(("offered", "arguments"), [
    (tool("bash", command=STRING), {"command": "ls"}), (tool("bash", cmd=STRING), {"cmd": "ls"}),
    (tool("bash", cmd={"type": "array"}), {"cmd": ["bash", "-c", "ls"]}), (OfferedTool("bash", {}), {"command": "ls"}),
    (tool("bash", command=STRING, timeout={"type": "integer"}, background={"type": "boolean"}, why=STRING, odd={}),
     {"command": "ls", "timeout": 0, "background": False, "why": "run", "odd": "run"}),
])
def test_the_shell_tool_gets_the_command_and_its_other_required_arguments(
    offered: OfferedTool, arguments: dict[str, Any]
) -> None:
    assert shell_call([offered], "ls") == ("bash", arguments)
