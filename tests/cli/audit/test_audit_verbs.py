"""`interlock audit export`: the file appears complete under its name, and nothing beside it is touched (U-5)."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import httpx2
import pytest

from cli.scripted import Script, link_to
from interlock.cli.audit import audit_verbs
from interlock.cli.exit_status import ExitStatus
from interlock.cli.verb_error import Trouble

pytestmark = pytest.mark.req("U-5")
EXPORT = "GET /v1/audit/export"


def test_an_export_leaves_a_file_alone_that_another_one_into_the_same_file_is_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, other = tmp_path / "log", tmp_path / "log.part"
    other.write_text("the other's half")
    script = Script({EXPORT: [lambda _: httpx2.Response(200, content=b"record\ncheckpoint\n")]})
    monkeypatch.setattr(audit_verbs, "GatewayLink", lambda _: link_to(script, tmp_path))

    assert audit_verbs.export(log) == ExitStatus.DONE
    assert log.read_bytes() == b"record\ncheckpoint\n"
    assert other.read_text() == "the other's half"
    assert not list(tmp_path.glob(".interlock-export-*"))


def test_standard_output_that_is_full_is_not_called_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script({EXPORT: [lambda _: httpx2.Response(200, content=b"record\ncheckpoint\n")]})
    monkeypatch.setattr(audit_verbs, "GatewayLink", lambda _: link_to(script, tmp_path))
    with Path("/dev/full").open("wb", buffering=0) as full, monkeypatch.context() as patched:
        patched.setattr("sys.stdout", SimpleNamespace(buffer=full, isatty=full.isatty))
        with pytest.raises(OSError, match="No space left"):
            audit_verbs.export()


def test_only_a_file_is_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Trouble, match="is not a file"):
        audit_verbs.export(tmp_path / "pipe", force=True)
