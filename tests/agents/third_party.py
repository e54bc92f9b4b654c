"""The real agents that tests drive: where they are found, and the environment each of them needs.

| agent  | found as                                                                     | driven as          |
|--------|------------------------------------------------------------------------------|--------------------|
| goose  | `INTERLOCK_TEST_GOOSE`, else what `.ci/install-agents` put there, else `PATH`| `goose acp`        |
| claude | the CLI inside the installed `claude-agent-sdk` package                      | `claude -p PROMPT` |

Both talk to the tests' own model server, each from a home of its own under the test's temporary directory. The
fixtures `goose` and `claude` skip where the agent is absent, unless `INTERLOCK_CI=1`: there its absence is a failure.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from model_server import ModelServer, running_model_server

REPOSITORY = Path(__file__).resolve().parents[2]
GOOSE_VARIABLE = "INTERLOCK_TEST_GOOSE"
CI_VARIABLE = "INTERLOCK_CI"


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


def find_goose() -> Path | None:
    """The goose binary; a path named by INTERLOCK_TEST_GOOSE must hold, and is not looked for elsewhere.

    The copy that CI installed comes before PATH, because its version is pinned and because other programs are named
    goose too.
    """
    named = os.environ.get(GOOSE_VARIABLE)
    if named:
        return _executable(Path(named))
    pinned = sorted((REPOSITORY / ".ci/node_modules/@aaif").glob("goose-binary-*/bin/goose"))
    on_path = shutil.which("goose")
    candidates = [*pinned, *([Path(on_path)] if on_path else [])]
    return next((path for path in map(_executable, candidates) if path), None)


def find_claude() -> Path | None:
    """The CLI that the `claude-agent-sdk` package carries; the package itself is not imported."""
    spec = importlib.util.find_spec("claude_agent_sdk")
    if spec is None or spec.origin is None:
        return None
    return _executable(Path(spec.origin).parent / "_bundled" / "claude")


def goose_environment(home: Path, model_url: str) -> dict[str, str]:
    """goose asks before every tool call, keeps its secrets out of the machine's keyring, and reports to nobody."""
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
    """Claude's CLI reaches nothing but the model server, and agrees to run as root where the tests do."""
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
    command = find_goose() or _absent("goose", f"run .ci/install-agents, or name the binary in {GOOSE_VARIABLE}")
    home, workspace = _rooms(tmp_path, "goose")
    return ThirdParty(command, ("acp",), goose_environment(home, model_server.url), workspace, model_server)


@pytest.fixture
def claude(tmp_path: Path, model_server: ModelServer) -> ThirdParty:
    """Claude's CLI as an `exec` agent; the prompt follows its arguments."""
    command = find_claude() or _absent("claude", "install the agents extra: pip install 'interlock[agents]'")
    home, workspace = _rooms(tmp_path, "claude")
    return ThirdParty(command, ("-p",), claude_environment(home, model_server.url), workspace, model_server)


def _rooms(tmp_path: Path, name: str) -> tuple[Path, Path]:
    home, workspace = tmp_path / f"{name}-home", tmp_path / f"{name}-workspace"
    home.mkdir()
    workspace.mkdir()
    return home, workspace


def _absent(name: str, remedy: str) -> NoReturn:
    reason = f"the agent {name} is not installed: {remedy}"
    if os.environ.get(CI_VARIABLE) == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def _executable(path: Path) -> Path | None:
    return path if path.is_file() and os.access(path, os.X_OK) else None
