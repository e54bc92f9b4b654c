"""Files of `runner install` are valid for systemd and launchd."""

from __future__ import annotations

import json
import plistlib
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from interlock.cli.host.install import Part, install, plist, service_install, service_remove, services, unit
from interlock.cli.verb_error import Trouble

pytestmark = pytest.mark.req("L-3", "G-4")
WORDS = ["/opt/a b/python", "-m", "interlock", "runner", "--state", '/s/50% "x"', "--root", "/w/$HOME"]


def test_a_unit_quotes_what_systemd_would_expand(tmp_path: Path) -> None:
    text = unit(WORDS, tmp_path, 42)
    line = next(line for line in text.splitlines() if line.startswith("ExecStart="))
    read = [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line.removeprefix("ExecStart="))]
    assert read == WORDS
    assert "TimeoutStopSec=42\n" in text
    assert "RestartPreventExitStatus=2 8\n" in text


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return  # A host without systemd has no one to ask; the test above reads the line itself.
    path = tmp_path / "interlock-runner.service"
    path.write_text(unit(["/bin/sh", "-c", 'echo "100%" $HOME'], tmp_path, 30))
    ran = subprocess.run([analyze, "verify", str(path)], capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_property_list_reads_back_unchanged(tmp_path: Path) -> None:
    read = plistlib.loads(plist(WORDS, tmp_path, 42).encode())
    assert read["ProgramArguments"] == WORDS
    assert (read["RunAtLoad"], read["ExitTimeOut"], read["Umask"]) == (True, 42, 0o077)


def test_both_units_are_printed_and_each_is_complete(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(print_=True, root=[tmp_path], state=tmp_path / "s")
    both = capsys.readouterr().out
    for kind, mark in (("systemd", "[Service]"), ("launchd", "<plist")):
        install(print_=True, for_=kind, root=[tmp_path], state=tmp_path / "s")  # type: ignore[arg-type]
        alone = capsys.readouterr().out
        assert mark in alone
        assert alone in both
    assert plistlib.loads(alone.encode())["ProgramArguments"][-2:] == ["--root", str(tmp_path)]


def test_the_service_is_written_once_it_is_paired_and_never_overwrites_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    state = tmp_path / "s"
    with pytest.raises(Trouble, match="is paired"):
        install(for_="systemd", state=state)
    (state / "runner").mkdir(parents=True)
    (state / "runner" / "runner.json").write_text('{"url": "https://x", "runner_id": "rnr_1"}')
    path = tmp_path / ".config/systemd/user/interlock-runner.service"
    for _ in range(2):
        install(for_="systemd", root=[tmp_path], state=state)
        assert capsys.readouterr().out == f"{path}\n"
    path.write_text("something else")
    with pytest.raises(Trouble, match="another content"):
        install(for_="systemd", root=[tmp_path], state=state)
    install(for_="systemd", root=[tmp_path], state=state, force=True)
    assert "ExecStart" in path.read_text()


@pytest.mark.req("Y-15")
@pytest.mark.parametrize("part", ["up", "gateway"])
def test_up_and_a_gateway_are_services_without_being_paired(
    part: Part, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    roots = [tmp_path] if part == "up" else None
    service_install(part, for_="systemd", root=roots, state=tmp_path / "s")
    path = tmp_path / f".config/systemd/user/interlock-{part}.service"
    printed = capsys.readouterr()
    assert printed.out == f"{path}\n"
    assert f"enable --now interlock-{part}.service" in printed.err
    line = next(line for line in path.read_text().splitlines() if line.startswith("ExecStart="))
    assert shlex.split(line.removeprefix("ExecStart="))[2:] == [
        "interlock", part, "--state", str(tmp_path / "s"), *(["--root", str(tmp_path)] if roots else [])]
    service_install(part, for_="launchd", root=roots, state=tmp_path / "s")
    read = plistlib.loads((tmp_path / f"Library/LaunchAgents/interlock.{part}.plist").read_bytes())
    assert (read["Label"], Path(read["StandardOutPath"]).name) == (f"interlock.{part}", f"{part}.log")


@pytest.mark.req("Y-15")
def test_up_is_not_started_beside_its_own_gateway_until_that_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(Trouble, match="does not exist"):
        service_remove("gateway", for_="systemd")
    with pytest.raises(Trouble, match="has no workspaces"):
        service_install("gateway", for_="systemd", root=[tmp_path], state=tmp_path / "s")
    service_install("gateway", for_="systemd", state=tmp_path / "s")
    with pytest.raises(Trouble, match="already starts a part of what up would start"):
        service_install("up", for_="systemd", root=[tmp_path], state=tmp_path / "s")
    service_remove("gateway", for_="systemd")
    service_install("up", for_="systemd", root=[tmp_path], state=tmp_path / "s")
    with pytest.raises(Trouble, match="already starts what gateway would start"):
        service_install("gateway", for_="systemd", state=tmp_path / "s")
    monkeypatch.setattr("sys.platform", "linux")
    capsys.readouterr()
    services()
    listed = {line.split()[0]: line.split()[1] for line in capsys.readouterr().out.splitlines()}
    assert listed == {"PART": "FILE", "up": str(tmp_path / ".config/systemd/user/interlock-up.service"),
                      "gateway": "not", "runner": "not"}
    services(json=True)
    found = {one["part"]: one for one in json.loads(capsys.readouterr().out)["services"]}
    assert found["up"] == {"part": "up", "file": str(tmp_path / ".config/systemd/user/interlock-up.service"),
                           "installed": True, "what": "Interlock gateway and runner"}
    assert not found["runner"]["installed"]
