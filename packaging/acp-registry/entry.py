"""Write Interlock's entry for the registry of ACP agents, from which editors install agents.

    python packaging/acp-registry/entry.py REPOSITORY_URL DIRECTORY

makes `DIRECTORY/interlock/agent.json` and `icon.svg` for the version in pyproject.toml, as a pull request to the
registry holds them (docs/how-to/release.md). Its rules: https://github.com/agentclientprotocol/registry/blob/main/CONTRIBUTING.md.
"""

from __future__ import annotations

import json
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
NAME = "interlock"


def entry(repository: str) -> dict[str, Any]:
    """Return the content of `agent.json`. `repository` is the URL of the public repository."""
    project = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    home = repository.rstrip("/").removesuffix(".git")
    return {
        "id": NAME,
        "name": "Interlock",
        "version": project["version"],
        "description": "Any coding agent on your own machines, under command, approval and audit.",
        "repository": home,
        "authors": ["The Interlock authors"],
        "license": project["license"],
        "license_url": f"{home}/blob/main/LICENSE",
        "distribution": {"uvx": {"package": f"{project['name']}=={project['version']}", "args": ["acp"]}},
    }


def write(repository: str, directory: Path) -> None:
    """Write the entry below `directory`."""
    place = directory / NAME
    place.mkdir(parents=True, exist_ok=True)
    (place / "agent.json").write_text(json.dumps(entry(repository), indent=2) + "\n", "utf-8")
    shutil.copy(HERE / "icon.svg", place)


if __name__ == "__main__":
    if len(sys.argv) != 3 or not sys.argv[1].startswith("https://"):
        sys.exit("usage: python packaging/acp-registry/entry.py https://REPOSITORY DIRECTORY")
    write(sys.argv[1], Path(sys.argv[2]))
