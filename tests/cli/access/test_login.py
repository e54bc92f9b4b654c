"""Logging in to a gateway: at a real issuer on loopback, with a one-time code, with a key; and the contexts (Y-11)."""

from __future__ import annotations

import asyncio
import json
import ssl
import stat
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from certificates import certificates
from cli.host.test_runner_pair import Place
from cli.host.test_up import PATIENCE_S, read_until
from interlock.sdk import Interlock
from proof.access.oidc_issuer import DeviceLogin, Issuer

pytestmark = [pytest.mark.anyio, pytest.mark.long]

CLIENT = "interlock-cli"
CONFIG = """
[oidc.corp]
issuer = "{issuer}"
audience = ["interlock"]
tenant = "default"
roles_claim = "groups"
login_client = "interlock-cli"
[oidc.corp.roles]
ops = "operator"
[outgoing]
allow = ["127.0.0.1/32"]
"""


class Office:
    """A gateway that accepts the tokens of an issuer, and a person's machine elsewhere."""

    def __init__(self, base: Path, issuer: Issuer) -> None:
        self.issuer = issuer
        self.issuer.device = DeviceLogin(CLIENT, self.claims)
        self.gateway, self.client = Place(base / "gateway"), Place(base / "desk")
        self.gateway.state.mkdir(mode=0o700)
        (self.gateway.state / "interlock.toml").write_text(CONFIG.format(issuer=issuer.url))
        self.process = self.gateway.start("gateway", "--port", "0")
        printed = read_until(self.process.stderr, "the gateway listens on ")
        self.url = printed.rsplit(" ", 1)[1].strip()

    @property
    def device(self) -> DeviceLogin:
        assert self.issuer.device is not None
        return self.issuer.device

    def claims(self) -> dict[str, Any]:
        now = int(time.time())
        return {"iss": self.issuer.url, "aud": "interlock", "sub": "ann", "iat": now, "exp": now + 300,
                "groups": ["ops"], "jti": str(self.device.issued)}

    async def type_(self, *words: str) -> subprocess.CompletedProcess[str]:
        return await asyncio.to_thread(self.client.call, *words)

    async def who(self) -> str:
        ran = await self.type_("whoami")
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.split(" · ")[0]

    @property
    def file(self) -> Path:
        return self.client.state / "contexts.json"

    def make_due(self) -> None:
        """Have the login be renewed by the next verb."""
        held = json.loads(self.file.read_text())
        held["known"][0]["renew_ms"] = 1
        self.file.write_text(json.dumps(held))

    def kept(self) -> dict[str, Any]:
        return json.loads(self.file.read_text())["known"][0]


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    async with Issuer() as issuer:
        there = await asyncio.to_thread(Office, tmp_path, issuer)
        yield there
        there.process.terminate()
        await asyncio.to_thread(there.process.communicate, timeout=PATIENCE_S)


@pytest.mark.req("Y-11")
async def test_an_issuer_login_is_stored_privately_renewed_and_ended(office: Office) -> None:
    ran = await office.type_("login", office.url, "--on", "work", "--no-open")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "work\n"
    assert f"open {office.issuer.url}/device-page and enter the code WDJB-MJHT" in ran.stderr
    assert f"logged in to {office.url} as corp:ann (operator)" in ran.stderr
    assert stat.S_IMODE(office.file.stat().st_mode) == 0o600
    assert await office.who() == "user:corp:ann"
    assert office.device.issued == 1

    office.make_due()
    both = await asyncio.gather(office.who(), office.who())  # The second would spend a refresh token that is spent.
    assert both == ["user:corp:ann", "user:corp:ann"]
    assert office.device.issued == 2
    assert office.kept()["renewal"]["refresh_token"] == "refresh-2"

    ran = await office.type_("logout")
    assert ran.stdout == "logged out of work\n"
    assert office.device.refresh_tokens == set()
    assert "refresh-2" not in office.file.read_text()
    ran = await office.type_("whoami")
    assert (ran.returncode, "logged out of work" in ran.stderr) == (8, True)
    assert (await office.type_("contexts", "use", "local")).returncode == 0
    assert "No gateway runs on" in (await office.type_("whoami")).stderr


@pytest.mark.req("Y-11")
async def test_a_refusal_is_short_for_the_user_and_detailed_in_the_gateways_log(office: Office) -> None:
    honest = office.device.claims
    office.device.claims = lambda: {**honest(), "aud": "another"}
    ran = await office.type_("login", office.url, "--no-open")
    assert ran.returncode == 8
    assert "error[Unauthorized]: The issuer let you in, and the gateway does not accept its token." in ran.stderr
    assert "another" not in ran.stderr
    assert not office.file.exists()
    printed = await asyncio.to_thread(read_until, office.process.stderr, "token_refused")
    assert "aud" in printed
    assert "another" in printed


@pytest.mark.req("Y-11")
@pytest.mark.parametrize(("refusals", "status", "says"), [
    (["access_denied"], 8, "The login was refused at the issuer."),
    (["expired_token"], 5, "The login was not confirmed in time."),
    (["unauthorized_client"], 8, "ended the login (unauthorized_client)"),
])
async def test_an_error_of_the_issuer_ends_the_login(
    office: Office, refusals: list[str], status: int, says: str
) -> None:
    office.device.refusals = refusals
    ran = await office.type_("login", office.url, "--no-open")
    assert (ran.returncode, says in ran.stderr) == (status, True), ran.stderr
    assert not office.file.exists()


@pytest.mark.req("Y-11")
async def test_an_opaque_access_token_is_ignored_in_favour_of_the_id_token(office: Office) -> None:
    office.device.opaque = True
    assert (await office.type_("login", office.url, "--no-open")).returncode == 0
    assert office.kept()["renewal"]["form"] == "id_token"
    assert await office.who() == "user:corp:ann"


@pytest.mark.req("Y-11")
async def test_a_renewal_that_the_issuer_refuses_asks_for_a_new_login(office: Office) -> None:
    assert (await office.type_("login", office.url, "--on", "work", "--no-open")).returncode == 0
    office.make_due()
    office.device.refresh_tokens.clear()
    ran = await office.type_("whoami")
    assert ran.returncode == 8
    assert "Log in again with: interlock login --on work" in ran.stderr
    assert (await office.type_("login", "--on", "work", "--no-open")).returncode == 0
    assert await office.who() == "user:corp:ann"


class TwoHosts:
    """A gateway over TLS without an issuer, and a person's machine elsewhere."""

    def __init__(self, base: Path) -> None:
        self.pem = certificates(base / "pem", "localhost")
        self.gateway, self.client = Place(base / "gateway"), Place(base / "desk")
        self.process = self.gateway.start("gateway", "--port", "0", "--tls-cert", str(self.pem.cert),
                                          "--tls-key", str(self.pem.key))
        printed = read_until(self.process.stderr, "the gateway listens on https://127.0.0.1:")
        self.url = "https://localhost:" + printed.rsplit(":", 1)[1].strip()


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[TwoHosts]:
    there = TwoHosts(tmp_path)
    yield there
    there.process.terminate()
    there.process.communicate(timeout=PATIENCE_S)


@pytest.mark.req("Y-11")
def test_a_one_time_code_logs_in_over_tls_and_ends_the_login_there(hosts: TwoHosts) -> None:
    code = hosts.gateway.call("console", "--no-open", "--role", "viewer", "--json")
    link = json.loads(code.stdout)["url"] if code.returncode == 0 else ""
    secret = link.rpartition("#")[2] or _code(hosts)
    untrusted = hosts.client.call("login", hosts.url, "--code", secret)
    assert untrusted.returncode == 6
    assert "--ca" in untrusted.stderr
    ran = hosts.client.call("login", f"{hosts.url}/console/#{secret}", "--on", "box", "--ca", str(hosts.pem.ca))
    assert ran.returncode == 0, ran.stderr
    assert hosts.client.document("whoami")["key_id"]
    [session] = hosts.gateway.document("console", "sessions")["items"]
    assert session["label"].startswith("interlock login on ")
    again = hosts.client.call("login", hosts.url, "--code", secret, "--ca", str(hosts.pem.ca))
    assert (again.returncode, "was used" in again.stderr) == (8, True)
    assert hosts.client.call("logout").returncode == 0
    assert hosts.gateway.document("console", "sessions")["items"] == []


def _code(hosts: TwoHosts) -> str:
    """Create a code on a gateway that was installed without the console."""
    key = (hosts.gateway.state / "owner.key").read_text().strip()
    with Interlock(hosts.url, key, tls=ssl.create_default_context(cafile=hosts.pem.ca)) as gateway:
        return gateway.browsers.make_code(roles=["viewer"]).code
