"""`interlock-sdk`: the library alone, built from the repository's own sources and run with nothing else (Y-14)."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import interlock

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "packaging/sdk"
MOST_DEPENDENCIES = 8
"""Distributions that an installation of the library brings beside itself, all together."""
LOADED = """
import importlib, json, pkgutil, sys
import interlock
for module in pkgutil.walk_packages(interlock.__path__, "interlock."):
    importlib.import_module(module.name)
try:
    import interlock.gateway
except ModuleNotFoundError as error:
    absent = error.name
with interlock.sdk.Interlock("http://127.0.0.1:1", "key") as gateway:
    try:
        watch = gateway.watch()
        watch.events()
        next(iter(watch))
    except ModuleNotFoundError as error:
        refused = str(error)
loaded = sorted({".".join(name.split(".")[:2]) for name in sys.modules if name.startswith("interlock.")})
print(json.dumps({"at": interlock.sdk.__file__, "loaded": loaded, "absent": absent, "refused": refused}))
"""


def declared(project: Path) -> dict[str, Requirement]:
    read = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    return {one.name: one for one in map(Requirement, read["dependencies"])}


def closure(wanted: dict[str, Requirement]) -> set[str]:
    """Every distribution that an installer would bring here, by name."""
    found: set[str] = set()
    waiting = list(wanted)
    while waiting:
        name = waiting.pop().replace("_", "-").lower()
        if name in found:
            continue
        found.add(name)
        needed = map(Requirement, importlib.metadata.requires(name) or ())
        waiting += [one.name for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]
    return found


def install(distribution: str, into: Path) -> None:
    """Link what a distribution of this environment installed at the top of its site-packages."""
    found = importlib.metadata.distribution(distribution)
    for top in {path.parts[0] for path in found.files or () if path.parts[0] not in ("..", "__pycache__")}:
        (into / top).symlink_to(Path(str(found.locate_file(top))))


@pytest.mark.req("Y-14")
def test_the_library_has_few_dependencies() -> None:
    brought = closure(declared(PROJECT))
    assert "websockets" not in brought
    assert len(brought) <= MOST_DEPENDENCIES, sorted(brought)


@pytest.mark.req("Y-14")
def test_both_distributions_have_one_version_and_the_same_requirements() -> None:
    whole, library = (tomllib.loads((at / "pyproject.toml").read_text())["project"] for at in (ROOT, PROJECT))
    assert whole["version"] == library["version"] == interlock.__version__
    assert whole["requires-python"] == library["requires-python"]
    assert set(library["dependencies"]) <= set(whole["dependencies"])
    assert set(library["optional-dependencies"]["watch"]) <= set(whole["dependencies"])


@pytest.mark.req("Y-14")
@pytest.mark.needs("hatchling")
def test_the_wheel_works_with_its_own_dependencies_only(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)], cwd=PROJECT,
                   check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
        tops = {name.split("/")[1] for name in packed.namelist() if name.startswith("interlock/")}
    assert tops == {"__init__.py", "lazy_names.py", "protocol", "py.typed", "sdk"}
    for name in closure(declared(PROJECT)):
        install(name, site)

    ran = subprocess.run([sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(site)!r})\n{LOADED}"],
                         capture_output=True, text=True, timeout=60, check=False)

    assert ran.returncode == 0, ran.stderr
    printed = json.loads(ran.stdout)
    assert Path(printed["at"]).is_relative_to(site)
    assert printed["loaded"] == ["interlock.lazy_names", "interlock.protocol", "interlock.sdk"]
    assert printed["absent"] == "interlock.gateway"
    assert "interlock-sdk[watch]" in printed["refused"]


@pytest.mark.req("Y-14")
@pytest.mark.needs("hatchling")
def test_a_wheel_from_the_sdist_has_the_same_files(tmp_path: Path) -> None:
    for kind, project in (("wheel", PROJECT), ("sdist", PROJECT)):
        subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(tmp_path / kind)],
                       cwd=project, check=True, capture_output=True, timeout=120)
    (archive,) = (tmp_path / "sdist").glob("*.tar.gz")
    subprocess.run(["tar", "-xzf", str(archive), "-C", str(tmp_path)], check=True, timeout=60)
    unpacked = tmp_path / archive.name.removesuffix(".tar.gz")
    assert (unpacked / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "again")],
                   cwd=unpacked, check=True, capture_output=True, timeout=120)

    def modules(folder: str) -> set[str]:
        (wheel,) = (tmp_path / folder).glob("*.whl")
        return {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("interlock/")}

    assert modules("wheel") == modules("again")
