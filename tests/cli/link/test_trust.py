"""Certificates that verify a gateway: the named ones, its own, or the system's."""

from __future__ import annotations

import ssl
from pathlib import Path

import msgspec
import pytest

from interlock.cli.config.place import GATEWAY_FILE, GatewayFile
from interlock.cli.link import trust
from interlock.cli.verb_error import Trouble

pytestmark = pytest.mark.req("L-2")
URL = "https://127.0.0.1:8642"


def running(state: Path, cert: Path | str, url: str = URL) -> None:
    (state / GATEWAY_FILE).write_bytes(msgspec.json.encode(GatewayFile(url, 1, str(cert))))


def test_a_plaintext_connection_has_nothing_to_check(tmp_path: Path) -> None:
    assert trust.tls("http://127.0.0.1:8642", tmp_path) is None


def test_a_foreign_gateway_is_checked_with_the_systems_certificates(tmp_path: Path) -> None:
    running(tmp_path, tmp_path / "cert.pem", "https://other.example")

    context = trust.tls(URL, tmp_path)

    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_an_unusable_certificate_of_this_states_gateway_gives_a_sentence(tmp_path: Path) -> None:
    running(tmp_path, tmp_path / "missing.pem")
    with pytest.raises(Trouble, match="cannot be read"):
        trust.tls(URL, tmp_path)
    (tmp_path / "empty.pem").write_text("no certificate")
    running(tmp_path, tmp_path / "empty.pem")
    with pytest.raises(Trouble, match="There is no certificate in"):
        trust.tls(URL + "/", tmp_path)


def test_unusable_named_certificates_give_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(Trouble, match=r"ca\.pem cannot be used") as named:
        trust.tls(URL, tmp_path, tmp_path / "ca.pem")
    monkeypatch.setenv("INTERLOCK_CA", str(tmp_path / "absent.pem"))
    with pytest.raises(Trouble, match=r"absent\.pem cannot be used"):
        trust.tls(URL, tmp_path)

    assert "--ca" in named.value.remedy


def test_only_an_untrusted_certificate_has_this_remedy() -> None:
    assert "--ca FILE" in trust.remedy("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed")
    assert trust.remedy("Connection refused") == ""
