"""A proof file is checked offline: without the gateway's key it proves nothing, and one that does not hold fails."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from interlock.cli.audit.audit_proof import verify_proof
from interlock.cli.config.place import Where
from interlock.cli.exit_status import ExitStatus
from interlock.cli.verb_error import Trouble
from interlock.gateway.audit.signing_key import PUBLIC_NAME, load_or_make_key

pytestmark = pytest.mark.req("O-10")


@pytest.fixture
def where(tmp_path: Path) -> Where:
    tmp_path.chmod(0o700)
    return Where(state=tmp_path)


def test_without_a_key_or_a_file_the_message_names_the_missing_option(where: Where, tmp_path: Path) -> None:
    proof = tmp_path / "proof.json"
    with pytest.raises(Trouble, match="Without the gateway's public key"):
        verify_proof(proof, None, where, json=False)
    load_or_make_key(tmp_path)
    with pytest.raises(Trouble, match="cannot be read"):
        verify_proof(proof, None, where, json=False)
    (tmp_path / "bad.pub").write_text("no key")
    with pytest.raises(Trouble) as trouble:
        verify_proof(proof, tmp_path / "bad.pub", where, json=False)
    assert "--key" in trouble.value.remedy


@pytest.mark.parametrize("content", [b"", b"not json", b"{}", b"[" * 5_000])
def test_a_file_that_proves_nothing_fails_in_one_sentence(
        content: bytes, where: Where, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load_or_make_key(tmp_path)
    (tmp_path / "proof.json").write_bytes(content)

    assert verify_proof(tmp_path / "proof.json", tmp_path / PUBLIC_NAME, where, json=False) == ExitStatus.FAILED
    assert capsys.readouterr().out.startswith("not ok")
    assert verify_proof(tmp_path / "proof.json", None, where, json=True) == ExitStatus.FAILED
    assert msgspec.json.decode(capsys.readouterr().out)["ok"] is False
