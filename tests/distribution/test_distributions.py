"""Wheel and sdist of both distributions, the release workflow, the image and the devcontainer (Y-15)."""

from __future__ import annotations

import email
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import interlock
from installed import require

pytestmark = pytest.mark.req("Y-15")
ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = ROOT / "deploy/Dockerfile"
STEP_TIMEOUT_S = 180


def run(*words: str | Path, cwd: Path) -> None:
    """Run a step of a build, without the console."""
    done = subprocess.run(words, cwd=cwd, env={**os.environ, "CONSOLE": "0"}, capture_output=True, text=True,
                          timeout=STEP_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def instructions() -> list[tuple[str, str]]:
    """The instructions of the image, and what follows each."""
    whole = DOCKERFILE.read_text().replace("\\\n", " ")
    return [(word, rest) for word, _, rest in
            (line.partition(" ") for line in whole.splitlines() if line and not line.startswith(("#", " ")))]


@pytest.mark.needs("hatchling", "twine", "git")
def test_an_index_accepts_wheel_and_sdist(tmp_path: Path) -> None:
    source, dist = tmp_path / "source", tmp_path / "dist"
    source.mkdir()
    kept = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    subprocess.run(["xargs", "-0", "cp", "--parents", "-t", str(source)], input=kept, cwd=ROOT, check=True)
    for project in (source, source / "packaging/sdk"):
        run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", dist, cwd=project)
    made = sorted(path.name for path in dist.iterdir())
    version = interlock.__version__
    assert made == sorted([f"interlock-{version}-py3-none-any.whl", f"interlock-{version}.tar.gz",
                           f"interlock_sdk-{version}-py3-none-any.whl", f"interlock_sdk-{version}.tar.gz"])

    run(sys.executable, "-m", "twine", "check", "--strict", *dist.iterdir(), cwd=tmp_path)

    with zipfile.ZipFile(dist / f"interlock-{version}-py3-none-any.whl") as wheel:
        metadata = email.message_from_bytes(wheel.read(f"interlock-{version}.dist-info/METADATA"))
        assert {"interlock/py.typed", "interlock/cli/verbs.py"} <= set(wheel.namelist())
        assert {name.split("/")[0] for name in wheel.namelist()} == {"interlock", f"interlock-{version}.dist-info"}
    assert (metadata["License-Expression"], metadata["Requires-Python"]) == ("Apache-2.0", ">=3.11")
    with tarfile.open(dist / f"interlock-{version}.tar.gz") as sdist:
        inside = {name.split("/", 1)[1] for name in sdist.getnames()}
    assert {"CHANGELOG.md", "SECURITY.md", "LICENSE", "hatch_build.py", "packaging/sdk/hatch_build.py"} <= inside
    assert not [name for name in inside if "node_modules" in name or "/.venv/" in name]


@pytest.mark.needs("hatchling")
def test_the_image_copies_everything_that_the_build_needs(tmp_path: Path) -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for word, rest in instructions():
        if word == "COPY" and not rest.startswith("--from"):
            *sources, target = rest.split()
            for source in sources:
                assert f"!{source}" in ignored
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, tmp_path / target,
                                    ignore=shutil.ignore_patterns("node_modules", "__pycache__", "console_assets"))
                else:
                    shutil.copy(ROOT / source, tmp_path / target)
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "dist", cwd=tmp_path)
    assert list((tmp_path / "dist").glob("interlock-*.whl"))


def test_the_image_has_two_stages_and_runs_without_root() -> None:
    found = instructions()
    bases = [rest for word, rest in found if word == "FROM"]
    assert [base.endswith(" AS build") for base in bases] == [True, False]
    last = found[max(at for at, (word, _) in enumerate(found) if word == "FROM"):]
    words = dict(last)
    assert int(words["USER"]) > 0
    assert json.loads(words["ENTRYPOINT"]) == ["interlock"]
    assert not [rest for word, rest in last if word == "RUN" and "pip" in rest]
    chart = (ROOT / "deploy/helm/interlock/templates/gateways.yaml").read_text()
    assert f"runAsUser: {words['USER']}," in chart


@pytest.mark.needs("hadolint")
def test_a_linter_finds_nothing_in_the_image() -> None:
    run(require("hadolint"), DOCKERFILE, ROOT / ".devcontainer/Dockerfile", cwd=ROOT)


def test_a_release_publishes_without_a_stored_secret_and_attests_its_build() -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text()
    workflow: dict[Any, Any] = yaml.safe_load(text)
    jobs = workflow["jobs"]
    assert workflow["permissions"] == {}
    assert "secrets." not in text
    for name, job in jobs.items():
        assert job["timeout-minutes"] <= 90, name
        assert job["permissions"], name
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert jobs["publish"]["environment"] == jobs["image"]["environment"] == "release"
    assert jobs["build"]["needs"] == "test"
    assert jobs["publish"]["needs"] == jobs["image"]["needs"] == "build"
    assert jobs["publish"]["strategy"]["matrix"]["distribution"] == ["interlock", "interlock-sdk"]
    steps = jobs["build"]["steps"]
    used = [step["uses"].split("@")[0] for step in steps if "uses" in step]
    assert used.count("actions/attest-build-provenance") == 1
    assert used.count("actions/attest-sbom") == 2
    assert any(step.get("run", "").startswith("twine check --strict") for step in steps)
    assert all(re.fullmatch(r"[\w/.-]+@(v\d+|release/v1)", step["uses"])
               for job in jobs.values() for step in job["steps"] if "uses" in step)


def test_the_devcontainer_installs_what_contributing_describes() -> None:
    container = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text())
    assert container["postCreateCommand"] in (ROOT / "CONTRIBUTING.md").read_text()
    image = (ROOT / ".devcontainer" / container["build"]["dockerfile"]).read_text()
    assert image.rstrip().endswith(f"{container['remoteUser']}\nUSER 1000")
