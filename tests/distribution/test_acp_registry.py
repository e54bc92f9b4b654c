"""The entry for the registry of ACP agents keeps the registry's rules: form, version, icon, a way to authenticate."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from interlock import __version__
from interlock.doors.acp.surface import PROCESS

pytestmark = pytest.mark.req("O-1")
SCRIPT = Path(__file__).resolve().parents[2] / "packaging/acp-registry/entry.py"
URL = "https://code.example/interlock/interlock"


def written(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments, str(place)], capture_output=True, text=True,
                          timeout=60)


def test_the_entry_names_this_version_and_starts_the_door(tmp_path: Path) -> None:
    assert written(tmp_path, f"{URL}.git").returncode == 0
    entry = json.loads((tmp_path / "interlock/agent.json").read_text())
    assert {"id", "name", "version", "description", "license_url", "distribution"} <= entry.keys()
    assert re.fullmatch(r"[a-z][a-z0-9-]*", entry["id"])
    assert re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", entry["version"])
    assert entry["version"] == __version__
    assert entry["distribution"] == {"uvx": {"package": f"interlock=={__version__}", "args": ["acp"]}}
    assert entry["license_url"] == f"{URL}/blob/main/LICENSE"


def test_the_icon_is_sixteen_pixels_in_the_editors_colour(tmp_path: Path) -> None:
    written(tmp_path, URL)
    root = ElementTree.parse(tmp_path / "interlock/icon.svg").getroot()
    assert (root.get("width"), root.get("height"), root.get("viewBox")) == ("16", "16", "0 0 16 16")
    colours = {one.get(name) for one in root.iter() for name in ("fill", "stroke", "style", "color")} - {None}
    assert colours <= {"currentColor", "none", "inherit"}


def test_the_door_offers_an_authentication_that_the_registry_accepts() -> None:
    assert {method["type"] for method in PROCESS.auth_methods} & {"agent", "terminal"}


def test_an_invalid_call_explains_the_usage(tmp_path: Path) -> None:
    refused = written(tmp_path)
    assert refused.returncode == 1
    assert refused.stderr.startswith("usage: ")
