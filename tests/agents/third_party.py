"""The real agents that tests drive, and the environment that each of them needs; `installed` finds them.

| agent  | driven as          |
|--------|--------------------|
| goose  | `goose acp`        |
| claude | `claude -p PROMPT` |

Both reach the tests' own model server, each from a home of its own under the test's temporary directory.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from installed import require
from interlock.model_stand_in import ModelServer, running_model_server


@dataclass(frozen=True, slots=True)
class ThirdParty:
    """One real agent, ready to be started: in Interlock's terms its `command`, `args` and `env`.

    `env` holds all that the agent needs but PATH, and no more; `workspace` is an empty directory to run it in.
    """

    command: Path
    args: tuple[str, ...]
    env: Mapping[str, str]
    workspace: Path
    model: ModelServer

    @property
    def argv(self) -> list[str]:
        """The command with its arguments."""
        return [str(self.command), *self.args]

    @property
    def process_env(self) -> dict[str, str]:
        """The whole environment of the process: PATH from the test's own, and `env`."""
        return {"PATH": os.environ.get("PATH", os.defpath), **self.env}


def goose_environment(home: Path, model_url: str) -> dict[str, str]:
    """goose asks before every tool call, keeps its secrets out of the machine's keyring, and reports to no one."""
    return {
        "HOME": str(home),
        "GOOSE_PROVIDER": "openai",
        "GOOSE_MODEL": "fake-model",
        "GOOSE_MODE": "approve",
        "GOOSE_DISABLE_KEYRING": "1",
        "GOOSE_TELEMETRY_ENABLED": "false",
        "OPENAI_HOST": model_url,
        "OPENAI_API_KEY": "not-a-key",
    }


def claude_environment(home: Path, model_url: str) -> dict[str, str]:
    """Claude's CLI reaches only the model server, and accepts to run as root if the tests do."""
    env = {
        "HOME": str(home),
        "ANTHROPIC_BASE_URL": model_url,
        "ANTHROPIC_API_KEY": "not-a-key",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    return {**env, "IS_SANDBOX": "1"} if os.geteuid() == 0 else env


@pytest.fixture
def model_server() -> Generator[ModelServer]:
    """A model server of the test's own."""
    with running_model_server() as server:
        yield server


@pytest.fixture
def goose(tmp_path: Path, model_server: ModelServer) -> ThirdParty:
    """goose as an `acp` agent."""
    command = require("goose")
    home, workspace = _rooms(tmp_path, "goose")
    return ThirdParty(command, ("acp",), goose_environment(home, model_server.url), workspace, model_server)


@pytest.fixture
def claude(tmp_path: Path, model_server: ModelServer) -> ThirdParty:
    """Claude's CLI as an `exec` agent; the prompt follows its arguments."""
    command = require("claude")
    home, workspace = _rooms(tmp_path, "claude")
    return ThirdParty(command, ("-p",), claude_environment(home, model_server.url), workspace, model_server)


def _rooms(tmp_path: Path, name: str) -> tuple[Path, Path]:
    home, workspace = tmp_path / f"{name}-home", tmp_path / f"{name}-workspace"
    home.mkdir()
    workspace.mkdir()
    return home, workspace
