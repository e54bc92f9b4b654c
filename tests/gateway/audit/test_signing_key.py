"""The signing key, the heads beside the database, and what a check of both finds (U-2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.gateway.audit.signing_key import KeyUnusable, load_or_make_key, load_public_key

pytestmark = pytest.mark.anyio


# --- the key ---


@pytest.mark.req("U-2")
def test_the_key_is_made_once_and_belongs_to_its_owner_alone(tmp_path: Path) -> None:
    key = load_or_make_key(tmp_path)
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {
        "gateway.key": 0o600, "gateway.pub": 0o600
    }  # fmt: skip
    assert load_or_make_key(tmp_path).private_bytes_raw() == key.private_bytes_raw()
    public = load_public_key(tmp_path / "gateway.pub")
    assert public == key.public_key()
    (tmp_path / "gateway.pub").unlink()
    load_or_make_key(tmp_path)
    assert load_public_key(tmp_path / "gateway.pub") == public


def test_an_invalid_key_file_is_refused_and_not_changed(tmp_path: Path) -> None:
    (tmp_path / "gateway.key").write_bytes(b"rubbish")
    with pytest.raises(KeyUnusable, match=r"gateway\.key is not a private key"):
        load_or_make_key(tmp_path)
    assert (tmp_path / "gateway.key").read_bytes() == b"rubbish"
    with pytest.raises(KeyUnusable, match="not a public key"):
        load_public_key(tmp_path / "gateway.key")
    with pytest.raises(KeyUnusable, match="not a public key"):
        load_public_key(tmp_path / "none")


# --- signing ---


# --- changes made past the ledger ---


# --- what a log is joined to before it is signed again ---


# --- the bound on what is unsigned ---


# --- a person accepts a log ---
