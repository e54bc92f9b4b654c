"""Which gateway a verb goes to, and what the file of contexts may be (Y-11)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from interlock.app import chat_bridge
from interlock.cli.access.context_verbs import listing, remove, use
from interlock.cli.access.login import login, logout
from interlock.cli.config.place import Where
from interlock.cli.host import chat_bridges
from interlock.cli.link import contexts, renewal
from interlock.cli.link.contexts import Context, Contexts, LoginRenewal
from interlock.cli.link.gateway_link import GatewayLink, locate, renewed_key
from interlock.cli.tasks.run import chosen_workspace
from interlock.cli.verb_error import Trouble
from interlock.sdk.credential import credential_headers, login_credential

pytestmark = pytest.mark.req("Y-11")

WORK = Context("work", "http://127.0.0.1:7421", "key", "ilk_work", directory="/home/ann/project")
BOX = Context("box", "http://127.0.0.1:7422", "key", "ilk_box")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("INTERLOCK_URL", "INTERLOCK_KEY", "INTERLOCK_ON", "INTERLOCK_CA", "INTERLOCK_STATE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A machine with a gateway of its own and two logins, of which `work` is in use."""
    (tmp_path / "owner.key").write_text("ilk_owner\n")
    (tmp_path / "gateway.json").write_text(json.dumps({"url": "http://127.0.0.1:7420", "pid": 1}))
    contexts.write(tmp_path, Contexts("work", [WORK, BOX]))
    return tmp_path


@pytest.mark.parametrize(("on", "url", "environ", "expected"), [
    (None, None, {}, ("http://127.0.0.1:7421", "ilk_work")),
    ("box", None, {}, ("http://127.0.0.1:7422", "ilk_box")),
    ("local", None, {}, ("http://127.0.0.1:7420", "ilk_owner")),
    (None, None, {"INTERLOCK_ON": "box"}, ("http://127.0.0.1:7422", "ilk_box")),
    ("work", None, {"INTERLOCK_ON": "box"}, ("http://127.0.0.1:7421", "ilk_work")),
    (None, None, {"INTERLOCK_URL": "http://127.0.0.1:9", "INTERLOCK_ON": "box"}, ("http://127.0.0.1:9", "ilk_owner")),
    ("box", None, {"INTERLOCK_URL": "http://127.0.0.1:9"}, ("http://127.0.0.1:7422", "ilk_box")),
    (None, "http://127.0.0.1:7422/", {}, ("http://127.0.0.1:7422", "ilk_box")),
    (None, "http://127.0.0.1:7420", {}, ("http://127.0.0.1:7420", "ilk_owner")),
    ("box", None, {"INTERLOCK_KEY": "ilk_given"}, ("http://127.0.0.1:7422", "ilk_given")),
])
def test_the_most_specific_name_of_a_gateway_takes_precedence(
    state: Path, monkeypatch: pytest.MonkeyPatch, on: str | None, url: str | None, environ: dict[str, str],
    expected: tuple[str, str],
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    found = locate(Where(state=state, on=on, url=url))
    assert (found.url, found.key) == expected


@pytest.mark.parametrize(("where", "says"), [
    ({"on": "gone"}, "There is no context 'gone'; there are: local, work, box."),
    ({"on": "box", "url": "http://127.0.0.1:9"}, "--on and --url both name a gateway."),
])
def test_a_wrong_context_name_is_reported(state: Path, where: dict[str, str], says: str) -> None:
    with pytest.raises(Trouble) as caught:
        locate(Where(state=state, **where))
    assert caught.value.sentence == says


def test_the_directory_of_a_context_is_the_workspace_unless_another_is_named(state: Path) -> None:
    link = GatewayLink(Where(state=state))
    assert chosen_workspace(None, link) == "/home/ann/project"
    assert chosen_workspace(Path("/elsewhere"), link) == "/elsewhere"
    assert chosen_workspace(None, GatewayLink(Where(state=state, on="box"))) == str(Path.cwd())


def test_contexts_are_listed_without_their_credentials_used_and_removed(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listing(state=state, json=True)
    shown = capsys.readouterr().out
    assert "ilk_" not in shown
    assert [(one["name"], one["current"]) for one in json.loads(shown)["contexts"]] == [("work", True), ("box", False)]
    use("box", directory="/srv/app", state=state)
    assert contexts.read(state).current == "box"
    assert contexts.read(state).named("box").directory == "/srv/app"
    remove("box", state=state)
    assert contexts.read(state).current == "local"
    listing(state=state)
    assert "ilk_" not in capsys.readouterr().out
    for wrong in (lambda: use("box", state=state), lambda: remove("local", state=state),
                  lambda: use("work", directory="not/absolute", state=state)):
        with pytest.raises(Trouble):
            wrong()


def test_a_file_that_is_readable_by_others_or_damaged_is_refused_with_the_remedy(state: Path) -> None:
    path = state / contexts.CONTEXTS_FILE
    path.chmod(0o640)
    with pytest.raises(Trouble, match="open to other users") as caught:
        locate(Where(state=state))
    assert caught.value.remedy == f"Close it with: chmod 600 {path}"
    path.chmod(0o600)
    path.write_text("{")
    with pytest.raises(Trouble, match="damaged"):
        locate(Where(state=state))


@pytest.mark.parametrize("refused", [
    lambda: login("http://gate.example.org", key=True), lambda: login("https://gate.example.org", code="a", key=True),
    lambda: login("https://gate.example.org", on="local"), lambda: login("https://gate.example.org", on="a b"),
    lambda: login("https://gate.example.org", directory="here"), lambda: login("ftp://gate.example.org"),
    lambda: login(on="nowhere"), login, logout,
])
def test_an_impossible_login_is_refused_before_anything_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[[], int]
) -> None:
    monkeypatch.setenv("INTERLOCK_STATE", str(tmp_path))
    with pytest.raises(Trouble):
        refused()
    assert contexts.read(tmp_path) == Contexts()


def test_a_code_login_is_sent_in_two_halves_and_a_key_as_a_bearer() -> None:
    assert credential_headers("ilk_a") == {"Authorization": "Bearer ilk_a"}
    assert credential_headers(login_credential("S.half", "interlock_browser_1", "cookie")) == {
        "Interlock-Browser": "S.half", "Cookie": "interlock_browser_1=cookie", "Sec-Fetch-Site": "same-origin"}


def test_an_expired_login_asks_for_a_new_one(state: Path) -> None:
    ended = Context("old", "http://127.0.0.1:7", "code", "ilc_a~b=c", ends_ms=1, renew_ms=1)
    with pytest.raises(Trouble, match="has ended") as caught:
        renewal.fresh(ended, state)
    assert caught.value.remedy == "Log in again with: interlock login --on old"


@pytest.mark.anyio
async def test_an_unreachable_remote_gateway_gets_no_advice_to_start_it_here(state: Path) -> None:
    async with GatewayLink(Where(state=state, on="box")) as link:
        with pytest.raises(Trouble) as caught:
            await link.get("/v1/whoami")
    assert "interlock up" not in caught.value.remedy


def test_the_library_gets_a_key_that_is_renewed_in_time(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    renewable = LoginRenewal("http://127.0.0.1:7/token", "cli", "refresh", "access_token")
    login_ = Context("corp", "http://127.0.0.1:7423", "issuer", "first", ends_ms=9_999_999_999_999,
                     renew_ms=9_999_999_999_999, renewal=renewable)
    contexts.write(state, Contexts("corp", [login_]))
    where = Where(state=state)
    key = renewed_key(locate(where), where)
    assert callable(key)
    assert key() == "first"
    contexts.write(state, Contexts("corp", [msgspec.structs.replace(login_, credential="second")]))
    assert key() == "first"
    monkeypatch.setattr(renewal, "is_due", lambda one: one.credential == "first")
    assert key() == "second"
    assert renewed_key(locate(Where(state=state, on="local")), where) == "ilk_owner"


@pytest.mark.req("O-12", "O-13")
@pytest.mark.parametrize("service", ["telegram", "slack"])
def test_a_chat_bridge_gets_a_key_that_is_renewed_in_time(
    service: str, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(f"interlock.app.{service}")
    login_ = Context("corp", "http://127.0.0.1:7423", "issuer", "first", ends_ms=9_999_999_999_999,
                     renew_ms=9_999_999_999_999,
                     renewal=LoginRenewal("http://127.0.0.1:7/token", "cli", "refresh", "access_token"))
    contexts.write(state, Contexts("corp", [login_]))
    table = {"telegram": '[telegram]\ntoken_env = "T_TOKEN"\n',
             "slack": '[slack]\nbot_token_env = "B_TOKEN"\napp_token_env = "A_TOKEN"\n'}[service]
    (state / "interlock.toml").write_text(table)
    gates: list[chat_bridge.Gate] = []

    async def carry(state: Path, config: object, gate: chat_bridge.Gate) -> None:
        gates.append(gate)

    monkeypatch.setattr(f"interlock.app.{service}.run", carry)
    assert getattr(chat_bridges, service)(where=Where(state=state)) == 0
    (gate,) = gates
    assert callable(gate.key)
    monkeypatch.setattr(renewal, "is_due", lambda one: one.credential == "first")
    contexts.write(state, Contexts("corp", [msgspec.structs.replace(login_, credential="second")]))
    assert gate.key() == "second"
