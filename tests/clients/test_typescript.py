"""The TypeScript client: generated from the OpenAPI document, checked by its compiler, run against a gateway (Y-14)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import interlock
from installed import require
from proof.processes.stack import Stack

pytestmark = pytest.mark.req("Y-14")
ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "clients/typescript"
CHANGES = ("post", "put", "patch", "delete")
STEP_TIMEOUT_S = 120


def run(*words: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True,
                          timeout=STEP_TIMEOUT_S, check=False)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client, built by its own script from the files that are kept in the repository."""
    place = tmp_path_factory.mktemp("typescript")
    client = place / "clients/typescript"
    shutil.copytree(CLIENT, client, ignore=shutil.ignore_patterns("node_modules", "dist", "api.generated.ts"))
    (client / "node_modules").symlink_to(require("typescript"))
    (place / "spec").mkdir()
    shutil.copy(ROOT / "spec/openapi.json", place / "spec")
    done = run("npm", "run", "build", cwd=client)
    assert done.returncode == 0, done.stdout + done.stderr
    return client


def test_the_client_lists_every_change_without_an_idempotency_key() -> None:
    (line,) = re.findall(r"KEYLESS: .*? = \[(.*)\];", (CLIENT / "src/retries.ts").read_text())
    patterns = [re.compile(found.replace(r"\/", "/")) for found in re.findall(r"/((?:\\/|\[\^/\]|[^/,])+\$)/", line)]
    assert len(patterns) == line.count("$/")
    paths: dict[str, dict[str, Any]] = json.loads((ROOT / "spec/openapi.json").read_text())["paths"]
    keyless, unsent = set[str](), set[str]()
    for path, operations in paths.items():
        for operation in (operations[method] for method in CHANGES if method in operations):
            if all(one.get("name") != "Idempotency-Key" for one in operation.get("parameters", ())):
                keyless.add(path)
            if any(pattern.search(re.sub(r"\{\w+\}", "id", path)) for pattern in patterns):
                unsent.add(path)
    assert keyless == unsent


def test_the_client_has_the_same_version_and_contains_no_generated_file() -> None:
    assert json.loads((CLIENT / "package.json").read_text())["version"] == interlock.__version__
    if not (ROOT / ".git").exists():
        return  # An sdist has no list of what is kept.
    kept = run("git", "ls-files", "clients/typescript", cwd=ROOT).stdout.split()
    assert not [name for name in kept if "generated" in name or name.endswith("package-lock.json")]


@pytest.mark.needs("typescript")
def test_the_clients_own_tests_pass(built: Path) -> None:
    done = run("node", "--test", "dist/test/client.test.js", cwd=built)
    assert done.returncode == 0, done.stdout
    assert re.search(r"^# pass [1-9]", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.needs("typescript")
def test_the_compiler_refuses_a_wrong_body(built: Path) -> None:
    wrong = built / "test/wrong.ts"
    wrong.write_text("import {connect} from '../src/index.js';\n"
                     "await connect().api.POST('/v1/commands', {body: {type: 'execute', target: {agent: 'shell'}}});\n")
    try:
        done = run("node", "node_modules/typescript/bin/tsc", "--noEmit", cwd=built)
    finally:
        wrong.unlink()
    assert done.returncode != 0
    assert "'agent' does not exist" in done.stdout


@pytest.mark.needs("typescript")
def test_the_example_grants_a_call_and_follows_the_command(built: Path, tmp_path: Path) -> None:
    stack = Stack(tmp_path)
    try:
        stack.up()
        environment = {"INTERLOCK_URL": stack.url, "INTERLOCK_KEY": (stack.state / "owner.key").read_text().strip()}
        done = run("node", "dist/examples/run.js", "shell", "echo hello", cwd=built, **environment)
        stranger = run("node", "dist/examples/run.js", "no-such-agent", "hello", cwd=built, **environment)
    finally:
        stack.down()
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:4] == ["state: queued", "state: dispatched", "state: running",
                                            "allowed: $ echo hello"]
    assert "tool: hello" in done.stdout.splitlines()
    assert done.stdout.splitlines()[-1] == "state: succeeded"
    assert (stranger.returncode, stranger.stderr.split(":")[0]) == (1, "Conflict")
