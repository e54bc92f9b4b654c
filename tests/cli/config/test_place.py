"""Files of the state directory (G-2): which are private, which are written atomically, and which process runs."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from interlock.backends.sqlite.lock import LOCK_NAME, lock_state
from interlock.cli.config.place import (
    GATEWAY_FILE,
    UP_LOCK,
    GatewayFile,
    OnHost,
    Where,
    gateway_file,
    holder,
    option_for,
    read_within,
    state_directory,
    up_is_starting,
    up_process,
    writable,
    write_private,
)
from interlock.cli.host.up import take_lock
from interlock.cli.verb_error import Trouble
from interlock.protocol.limits import READY_TIMEOUT_S

pytestmark = pytest.mark.req("G-2")


def test_a_private_file_is_written_atomically_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file"
    write_private(path, b"one")
    write_private(path, b"two")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"two", 0o600)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [one.name for one in path.parent.iterdir()] == ["file"], "nothing is left beside it"


@pytest.mark.parametrize(("raw", "found"), [
    (b'{"url":"http://x","pid":7}', GatewayFile("http://x", 7)), (b"", None), (b"{}", None), (b"\xff", None), (b"[]",
    None)])
def test_the_running_gateway_is_read_or_none(tmp_path: Path, raw: bytes, found: GatewayFile | None) -> None:
    assert gateway_file(tmp_path) is None
    (tmp_path / GATEWAY_FILE).write_bytes(raw)
    assert gateway_file(tmp_path) == found


def test_an_impossible_state_directory_gives_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(Trouble, match="state directory") as caught:
            state_directory(place)
        assert caught.value.status == 2
    assert Where(state=tmp_path).directory() == tmp_path


def test_a_verb_that_reads_does_not_make_the_directory_that_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("INTERLOCK_URL", raising=False)
    mistyped = tmp_path / "granted"
    for where in (Where(state=mistyped), OnHost(mistyped)):
        with pytest.raises(Trouble, match=r"The state directory .* does not exist"):
            where.directory()
    clients = tmp_path / "client"
    assert Where(state=clients, url="http://gateway.example").directory() == clients
    monkeypatch.setenv("INTERLOCK_STATE", str(tmp_path / "variable"))
    assert Where().directory() == OnHost().directory() == tmp_path / "variable"
    assert not list(tmp_path.iterdir())
    assert OnHost(tmp_path / "new").made_directory().is_dir()


@pytest.mark.parametrize("url", [None, "http://gateway.example"])
@pytest.mark.parametrize("word", ["granted", "running", "waiting_approval"])
def test_a_state_of_work_that_is_named_as_the_directory_is_explained(
    word: str, url: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("INTERLOCK_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Trouble, match=r"The state directory .* does not exist") as refused:
        Where(state=Path(word), url=url).directory()
    assert refused.value.remedy == f"To list what is in a state, write --only {word}."
    assert not list(tmp_path.iterdir())


def test_a_directory_is_tested_before_it_is_used(tmp_path: Path) -> None:
    (tmp_path / ".probe").touch()  # As a verb leaves it that is killed at this point.
    assert writable(tmp_path) == tmp_path
    assert list(tmp_path.iterdir()) == []
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(Trouble, match="cannot be written"):
        writable(tmp_path / "nowhere")


def test_an_up_counts_as_starting_within_its_time_limit_while_it_lives(tmp_path: Path) -> None:
    assert not up_is_starting(tmp_path), "none was ever started"
    lock, held = tmp_path / UP_LOCK, take_lock(tmp_path)
    os.utime(lock, (1_000, 1_000))
    assert up_is_starting(tmp_path, 1_000 + READY_TIMEOUT_S - 1)
    assert not up_is_starting(tmp_path, 1_000 + READY_TIMEOUT_S)
    assert not up_is_starting(tmp_path, 999), "the clock was set back"
    for text in ("", "nonsense", "0", "-1", str(2**40), "4194305"):
        lock.write_text(text)
        os.utime(lock, (1_000, 1_000))
        assert not up_is_starting(tmp_path, 1_001)
    os.close(held)


def test_a_process_that_has_the_number_of_an_ended_up_is_none(tmp_path: Path) -> None:
    os.close(take_lock(tmp_path))
    assert (tmp_path / UP_LOCK).read_text() == f"{os.getpid()}\n"
    assert up_process(tmp_path) is None


def test_two_looks_at_a_lock_that_is_free_take_neither_for_its_holder(tmp_path: Path) -> None:
    lock_state(tmp_path).release()
    with open(tmp_path / LOCK_NAME) as other:
        fcntl.flock(other, fcntl.LOCK_SH)
        assert holder(tmp_path / LOCK_NAME) is None


def test_a_file_is_read_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert [read_within(path, limit) for limit in (4, 5, 6)] == [None, b"12345", b"12345"]


def test_a_device_without_an_end_is_read_up_to_a_limit() -> None:
    """It states a size of zero."""
    assert read_within(Path("/dev/zero"), 1_000) is None
    assert read_within(Path(os.devnull), 1_000) == b""


@pytest.mark.req("G-2", "G-3")
def test_a_directory_is_named_unless_verbs_find_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_STATE", "/dev/null")  # It is not available, and not needed.
    assert option_for(tmp_path / "a b") == f" --state '{tmp_path}/a b'"
    monkeypatch.setenv("INTERLOCK_STATE", str(tmp_path))
    assert option_for(tmp_path) == ""
