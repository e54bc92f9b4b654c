"""Bad input: one sentence, the right status, nothing started, no traceback."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from interlock.cli import INTERRUPTED, main
from interlock.cli.dispatch import BROKEN_PIPE, dispatch
from interlock.cli.exit_status import ExitStatus
from interlock.cli.sessions import transcript_sources


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("INTERLOCK_URL", "INTERLOCK_KEY", "INTERLOCK_DEBUG", "NO_COLOR", "VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)
    state = tmp_path / "state"
    monkeypatch.setenv("INTERLOCK_STATE", str(state))
    return state


USAGE: list[list[str]] = [
    ["frobnicate"], ["runn", "shell", "ls"], ["--bogus"], ["status", "--bogus"], ["run"], ["run", "shell"],
    ["run", "shell", "ls", "--bogus"], ["run", "Shell!", "ls"], ["run", "shell", "ls", "--timeout", "soon"],
    ["run", "shell", "ls", "--timeout", "0"], ["run", "shell", "ls", "--priority", "101"],
    ["run", "shell", "ls", "--priority", "high"], ["run", "shell", "ls", "--session", "a", "--continue"],
    ["run", "shell", "ls", "--session", "a b"], ["run", "shell", "ls", "--json", "--jsonl"],
    ["status", "extra"],
    ["run", "claude", "x", "--", "--model", "opus"], ["run", "shell", "x" * (4 * 1024 * 1024 + 1)],
    ["attach", "--json", "--jsonl"], ["approve"], ["deny"], ["cancel"], ["commands", "--only", "done"],
    ["commands", "--limit", "0"], ["commands", "--limit", "many"], ["approvals", "--only", "open"],
    ["sessions", "--only", "open"],
    ["status", "--url", "gateway"], ["status", "--url", "ftp://h"], ["status", "--url", "http://h:99999"],
    ["status", "--url", "http://h:port"], ["status", "--url", "http://[::1"], ["status", "--url", "http://u:p@h"],
    ["up", "--port", "70000"], ["up", "--root", "/does/not/exist"], ["gateway", "--port", "-1"],
    ["status", "--state", "/dev/null"], ["up", "--state", "/proc/interlock"], ["demo", "--sabotage", "all"],
    ["audit", "verify", "/does/not/exist"], ["audit", "export", "/does/not/exist/log"], ["config", "frob"],
    ["config", "reload", "--url", "http://h"],
    ["audit", "verify", "--key", "/dev/null"], ["run", "shell", "bad \udcff byte"],
    ["sessions", "edit"], ["sessions", "close", "@last"],
    ["approve", "apr_a", "--change", "\udcff"],
    ["audit", "verify", "/dev/zero"], ["audit", "verify", "/"], ["config", "import", "/dev/zero"],
    ["run", "shell", "ls", "--workspace", ""], ["ci", "shell", "ls", "--workspace", ""],
    ["policy", "test", "shell", "ls", "--workspace", ""],
]


@pytest.mark.req("G-7")
@pytest.mark.parametrize("words", USAGE, ids=lambda words: " ".join(words)[:50].encode("ascii", "replace").decode())
def test_an_invalid_argument_gives_one_sentence_and_status_2(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert dispatch(words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error[Usage]: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err


@pytest.mark.req("G-7")
@pytest.mark.parametrize("words", [["tenants", "suspend", ""], ["tenants", "restore", "../keys"],
                                   ["webhooks", "test", " "], ["webhooks", "test", "a/b"]])
def test_a_name_that_cannot_be_one_is_not_found(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(words) == 7
    assert f"There is no {words[0].removesuffix('s')} {words[-1]!r}. List them with: interlock {words[0]}" in \
        capsys.readouterr().err


@pytest.mark.req("G-7")
@pytest.mark.parametrize(("words", "option", "meant"), [
    (["backup", "b.tar.gz"], "--jsn", " Did you mean --json?"), (["backup", "b.tar.gz"], "--url", ""),
    (["status"], "--jsn", " Did you mean --json?"), (["status"], "--frob", ""),
])
def test_an_option_with_a_similar_name_is_suggested(
    words: list[str], option: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dispatch([*words, option]) == 2
    assert capsys.readouterr().err == (f"error[Usage]: Unknown option: {option}.{meant} "
                                       f"See: interlock {words[0]} --help\n")


@pytest.mark.req("G-7")
@pytest.mark.parametrize("words", [
    ["logs"], ["backup", "b.tar.gz"], ["restore", "b.tar.gz"], ["migrate", "--to", "postgresql://h/d"]])
def test_a_verb_on_this_hosts_files_accepts_no_gateway(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert dispatch([*words, "--url", "https://gate.example"]) == 2
    assert capsys.readouterr().err == f"error[Usage]: Unknown option: --url. See: interlock {words[0]} --help\n"


@pytest.mark.req("G-1", "A-7")
def test_an_unknown_adapter_is_a_mistake_of_the_config(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nowhere.mkdir(mode=0o700)
    (nowhere / "interlock.toml").write_text('[agents.x]\nadapter = "acpp"\ncommand = "x"\n')
    assert dispatch(["config", "check"]) == 2
    assert capsys.readouterr().out.endswith('interlock.toml:2: there is no adapter "acpp"; did you mean "acp"?\n')


@pytest.mark.req("G-1", "R-4")
def test_a_secret_that_the_gateway_would_refuse_is_a_mistake_of_the_config(
        nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nowhere.mkdir(mode=0o700)
    (nowhere / "interlock.toml").write_text('[hooks.gh]\nsecret_file = "s"\n[webhooks.w]\nurl = "https://h.example/"\n'
                                            'secret_file = "t"\n[hooks.other]\nsecret_env = "NOT_HERE"\n')
    (nowhere / "s").write_text("too-short")
    assert dispatch(["config", "check"]) == 2
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("[hooks.gh]: secret_file s has 9 characters")
    assert second.startswith("[webhooks.w]: secret_file ")
    assert dispatch(["config", "reload"]) == 2
    assert "the old settings stay" in capsys.readouterr().err


@pytest.mark.req("G-7")
def test_an_extra_argument_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["config", "check", "a.toml"]) == 2
    assert capsys.readouterr().err == (
        "error[Usage]: `interlock config check` takes no argument 'a.toml'. See: interlock config check --help\n")


@pytest.mark.req("G-7")
def test_an_unreadable_audit_log_gives_a_sentence(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nowhere.mkdir(mode=0o700)
    (nowhere / "gateway.pub").symlink_to("x" * 300)  # Unreadable for root, too: the name is too long for any file.
    assert dispatch(["audit", "verify"]) == 2
    assert capsys.readouterr().err.startswith(f"error[Usage]: {nowhere} cannot be read: ")


@pytest.mark.req("G-7")
def test_a_grant_that_cannot_be_confirmed_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A detached command has no terminal that answers: it would wait until its approval expires."""
    assert dispatch(["run", "shell", "ls", "--detach", "--yes"]) == 2
    assert "--yes answers from this terminal" in capsys.readouterr().err


@pytest.mark.req("G-3", "G-7")
@pytest.mark.parametrize("verb", ["status", "commands", "approvals", "sessions", "attach", "approve x", "deny x",
                                  "cancel x", "run shell ls", "audit export", "runner"])
def test_without_a_gateway_a_verb_explains_how_to_start_one(
    verb: str, nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere.mkdir(mode=0o700)
    (nowhere / "runner").mkdir()
    (nowhere / "runner" / "token").write_text("ilr_x")
    assert dispatch(verb.split()) == 6
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error[Unreachable]: No gateway runs on ")
    assert "interlock up" in err


@pytest.mark.req("G-3", "G-7")
def test_an_absent_gateway_is_named(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nowhere.mkdir(mode=0o700)
    (nowhere / "gateway.json").write_text('{"url":"http://127.0.0.1:9","pid":999999}')
    (nowhere / "owner.key").write_text("ilk_x")
    assert dispatch(["status"]) == 6
    err = capsys.readouterr().err
    assert "http://127.0.0.1:9 (process 999999)" in err
    assert err.count("\n") == 1


@pytest.mark.req("K-2", "G-7")
def test_a_missing_key_is_named_with_its_path(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["status", "--url", "http://127.0.0.1:9"]) == 8
    assert str(nowhere / "owner.key") in capsys.readouterr().err


@pytest.mark.req("K-2", "G-7")
@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"two words", b"line\nline\n"])
def test_a_key_file_without_a_key_is_reported(
    content: bytes, nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere.mkdir(mode=0o700)
    (nowhere / "owner.key").write_bytes(content)
    assert dispatch(["status", "--url", "http://127.0.0.1:9"]) == 2
    assert capsys.readouterr().err.startswith("error[Usage]: ")


@pytest.mark.req("K-2", "G-7")
def test_an_unreadable_key_file_is_reported(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (nowhere / "owner.key").mkdir(parents=True)
    assert dispatch(["status", "--url", "http://127.0.0.1:9"]) == 2
    err = capsys.readouterr().err
    assert "cannot be read" in err
    assert err.count("\n") == 1


@pytest.mark.req("G-1", "G-7")
def test_an_invalid_config_stops_a_process_before_it_starts(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nowhere.mkdir(mode=0o700)
    (nowhere / "interlock.toml").write_text("[gateway]\nprot = 1\n")
    for verb in ("up", "gateway", "runner", "agents", "config show", "config check"):
        assert dispatch(verb.split()) == 2
        out, err = capsys.readouterr()
        assert "interlock.toml:2" in out + err
        assert '"port"' in out + err
    assert not (nowhere / "ledger.db").exists()


@pytest.mark.req("G-7")
def test_an_unexpected_error_is_one_line_and_a_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(*_: object, **__: object) -> int:
        raise ZeroDivisionError("by hand")

    monkeypatch.setattr("interlock.cli.operations.gateway_status.status", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert dispatch(["status"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error[InternalError]: ")
    assert "Traceback" not in err
    kept = next(tmp_path.glob("interlock-error-*.log"))
    assert str(kept) in err
    assert "ZeroDivisionError: by hand" in kept.read_text()


@pytest.mark.req("G-7")
@pytest.mark.parametrize(("number", "line", "status"), [
    (errno.EACCES, "error[Usage]: /s/gateway.key cannot be read or written: Permission denied. Check who owns it", 2),
    (errno.EROFS, "error[Usage]: /s/gateway.key cannot be written: Read-only file system. Make that file system", 2),
    (errno.ENAMETOOLONG, "error[Usage]: /s/gateway.key cannot be read or written: File name too long. Name another", 2),
    (errno.ELOOP, f"error[Usage]: /s/gateway.key cannot be read or written: {os.strerror(errno.ELOOP)}. Name", 2),
    (errno.ENOSPC, "error[NoRoom]: /s/gateway.key could not be written: No space left on device. Make room", 1),
])
def test_a_file_that_the_host_refuses_is_named_and_is_not_a_defect(
    number: int, line: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    def fail(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number), "/s/gateway.key")

    monkeypatch.setattr("interlock.cli.operations.gateway_status.status", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert dispatch(["status"]) == status
    assert capsys.readouterr().err.startswith(line)
    assert list(tmp_path.glob("interlock-error-*")) == []


@pytest.mark.req("G-7")
@pytest.mark.parametrize(("raised", "status"), [(KeyboardInterrupt(), 130), (BrokenPipeError(), 141)])
def test_an_interruption_and_a_closed_pipe_print_nothing(
    raised: BaseException, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> int:
        raise raised

    monkeypatch.setattr("interlock.cli.operations.gateway_status.status", fail)
    assert dispatch(["status"]) == status
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.req("G-7")
def test_doctor_names_each_problem_with_its_remedy(nowhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "problem  gateway: No gateway runs on" in out
    assert "interlock up" in out
    nowhere.joinpath("owner.key").write_text("ilk_x")
    os.chmod(nowhere / "owner.key", 0o644)
    assert dispatch(["doctor"]) == 1
    assert "chmod 600" in capsys.readouterr().out


def started(words: str, where: str, unbuffered: str = "") -> subprocess.CompletedProcess[str]:
    """Run a verb with its standard streams redirected by a shell; `unbuffered` is PYTHONUNBUFFERED."""
    return subprocess.run(["/bin/sh", "-c", f"exec '{sys.executable}' -m interlock {words} {where}"],
                          capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONUNBUFFERED": unbuffered})


@pytest.mark.req("G-7")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", ["--version", "commands --help"])
def test_output_that_cannot_be_written_gives_one_sentence(words: str, unbuffered: str) -> None:
    full = started(words, ">/dev/full", unbuffered)
    assert full.returncode == 1
    assert full.stderr.startswith("error[NoRoom]: ")
    assert full.stderr.count("\n") == 1
    assert started(words, ">/dev/full 2>/dev/full", unbuffered).returncode == 1
    assert started("status --bogus", "2>/dev/full", unbuffered).returncode == 2


@pytest.mark.req("G-7")
def test_a_closed_standard_stream_discards_its_output() -> None:
    for streams in ("<&-", ">&-", "<&- >&- 2>&-"):
        done = started("--version", streams)
        assert (done.returncode, done.stderr) == (0, "")
    refused = started("status --bogus", "<&- >&-")
    assert refused.returncode == 2
    assert refused.stderr.startswith("error[Usage]: ")


@pytest.mark.req("G-7")
def test_help_with_a_closed_pipe_ends_like_every_verb() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "interlock", "run", "--help"], stdout=writer, stderr=subprocess.PIPE,
                          check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (BROKEN_PIPE, b"")


@pytest.mark.req("G-7")
def test_an_unknown_verb_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["sessions", "close", "@last"]) == 2
    assert "`interlock sessions` has no verb 'close'" in capsys.readouterr().err


@pytest.mark.req("G-7")
@pytest.mark.parametrize(("words", "remedy"), [
    ("--store mysql://x/y", "For one: --store postgresql://me@db/interlock"),
    ("--store postgresql://x/y --bus amqp://x", "For one: --bus nats://host:4222, beside --store."),
    ("--bus nats://x", "For one: --bus nats://host:4222, beside --store."),
    ("--tls-cert cert.pem", "Give --tls-cert and --tls-key together."),
])  # fmt: skip
def test_options_that_exclude_each_other_are_reported_with_a_remedy(
    words: str, remedy: str, nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dispatch(["gateway", *words.split()]) == 2
    assert capsys.readouterr().err.rstrip().endswith(remedy)
    assert not (nowhere / "ledger.db").exists()


@pytest.mark.req("G-7", "X-6")
def test_an_endless_file_is_read_up_to_its_limit_and_a_pipe_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(transcript_sources, "MAX_FILE_BYTES", 1_000)
    assert dispatch(["sessions", "doctor", "/dev/zero"]) == 2
    assert "is larger than 1000 bytes" in capsys.readouterr().err
    reading, writing = os.pipe()
    try:
        os.write(writing, b'{"type":"session","version":3,"id":"x","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/"}\n')
        os.close(writing)
        assert dispatch(["sessions", "doctor", f"/dev/fd/{reading}"]) in (0, 1)
        assert "0 entries" in capsys.readouterr().out
    finally:
        os.close(reading)


class Interrupted(ModuleType):
    """A module while whose reading Ctrl-C comes."""

    def __getattr__(self, name: str) -> object:
        raise KeyboardInterrupt


@pytest.mark.req("G-7")
def test_ctrl_c_during_the_first_imports_gives_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ExitStatus.INTERRUPTED == INTERRUPTED
    monkeypatch.setitem(sys.modules, "interlock.cli.dispatch", Interrupted("dispatch"))
    with pytest.raises(SystemExit) as ended:
        main(["status"])
    assert ended.value.code == ExitStatus.INTERRUPTED


@pytest.mark.req("G-7")
@pytest.mark.parametrize("width", ["0", "", "000"])
def test_a_terminal_without_a_known_width_shows_help(
    width: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    assert dispatch(["--help"]) == 0
    assert "Usage: interlock COMMAND" in capsys.readouterr().out
