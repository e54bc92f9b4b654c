"""An approval is a notice on a phone: it opens the console's page, shows the request only if asked to, and never
carries a vote (O-11)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from channels.post_server import PostServer, post_server
from interlock.app.webhooks import open_ways
from interlock.backends.outgoing.http import HttpOutgoing
from interlock.channels.notice import CUT, QUOTE, text_of
from interlock.channels.ntfy import MESSAGE_BYTES, NtfyChannel, Topic
from interlock.config import Config, ConfigError, parse
from interlock.ports.channel import ApprovalNotice, NotAsked

pytestmark = [pytest.mark.anyio, pytest.mark.req("O-11")]
ASKING = ApprovalNotice(approval_id="apr_01", title="$ rm -r build", digest="ab", input='{"command":"rm -r build"}',
                        expires_at="later", agent_title="tidy up", agent_id="claude", runner_id="den",
                        workspace="/srv/w",
                        requested_by="user:ann", lines="$ rm -r build\nRead and decide: https://evil.example/a/1")
PUBLIC = "https://gw.example"
LINK_LINE = "Read and decide: https://gw.example/a/apr_01"


def channel(server: PostServer, *, details: bool = False, token: str | None = "tk_secret",
            public_url: str | None = PUBLIC) -> NtfyChannel:
    return NtfyChannel(Topic(f"{server.url}/approvals", token, 4, details, public_url), HttpOutgoing(["127.0.0.1/32"]))


async def test_a_notice_is_one_post_that_opens_the_page_and_shows_nothing_of_the_request() -> None:
    async with post_server() as server:
        await channel(server).ask("dlv_1", 0, ASKING)
    (line, headers, body), = server.got
    assert (line, body.decode()) == ("POST /approvals", LINK_LINE)
    assert (headers["title"], headers["click"], headers["priority"], headers["authorization"]) == (
        "1 approval waits", "https://gw.example/a/apr_01", "4", "Bearer tk_secret")
    assert headers["x-sequence-id"] == "apr_01", "the same notice sent again replaces the first"
    assert set(headers) - {"host", "accept", "accept-encoding", "connection", "user-agent"} == {
        "title", "priority", "tags", "x-sequence-id", "click", "authorization", "content-type", "content-length"}


@pytest.mark.req("P-8", "H-4")
async def test_no_notice_has_a_voting_button() -> None:
    async with post_server() as server:
        await channel(server, details=True).ask("dlv_1", 0, ASKING)
    (_, headers, body), = server.got
    assert not {"actions", "x-actions", "action"} & set(headers)
    assert b"vote" not in body


@pytest.mark.req("H-4")
async def test_details_name_agent_host_directory_and_person_and_quote_each_line() -> None:
    async with post_server() as server:
        await channel(server, details=True).ask("dlv_1", 0, ASKING)
    assert server.got[0].body.decode().split("\n") == [
        LINK_LINE, "agent claude on den in /srv/w for user:ann", f"{QUOTE}$ rm -r build",
        f"{QUOTE}Read and decide: https://evil.example/a/1"]


async def test_a_gateway_out_of_a_phones_reach_names_the_verb_instead_of_a_link() -> None:
    async with post_server() as server:
        await channel(server, token=None, public_url=None).ask("dlv_1", 0, ASKING)
    (_, headers, body), = server.got
    assert body.decode() == "Read and decide at a terminal: interlock approve apr_01"
    assert not {"click", "authorization"} & set(headers)


@pytest.mark.req("H-4")
@pytest.mark.parametrize("lines", ["x" * 9_000, "ü\n" * 4_000, "😀" * 3_000])
def test_details_that_do_not_fit_are_truncated_with_a_remark(lines: str) -> None:
    text = text_of(msgspec.structs.replace(ASKING, lines=lines), None, details=True, max_bytes=MESSAGE_BYTES)
    assert len(text.encode()) <= MESSAGE_BYTES
    assert text.endswith(f"\n{CUT}")


@pytest.mark.req("H-4")
def test_misleading_characters_are_visible_and_an_earlier_truncation_is_reported() -> None:
    hidden = msgspec.structs.replace(ASKING, lines="rm \u202egnp.exe", workspace="/w\u200b", is_cut=True)
    text = text_of(hidden, None, details=True, max_bytes=MESSAGE_BYTES)
    assert "\u202e" not in text
    assert "\u200b" not in text
    assert text.endswith(f"\n{CUT}")


@pytest.mark.parametrize(("status", "final", "sentence"), [
    (500, False, "status 500"), (429, False, "status 429"), (403, False, "needs a token"), (413, True, "status 413")])
async def test_a_rejected_notice_reports_the_reason_and_whether_it_is_retried(
        status: int, final: bool, sentence: str) -> None:
    async with post_server() as server:
        server.status = status
        with pytest.raises(NotAsked, match=sentence) as caught:
            await channel(server).ask("dlv_1", 0, ASKING)
    assert caught.value.final is final


async def test_an_absent_server_is_tried_again() -> None:
    async with post_server() as server:
        away = channel(server)
    with pytest.raises(NotAsked, match="cannot be asked") as caught:
        await away.test("dlv_1", 0)
    assert not caught.value.final


def config(text: str) -> Config:
    gateway = '[gateway]\nhosts = ["gw.example"]\nbehind_proxy = true\n[outgoing]\nallow = ["127.0.0.1/32"]\n'
    return parse(gateway + text, "interlock.toml")


@pytest.mark.req("G-1")
async def test_a_configured_topic_is_a_channel_beside_webhooks(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("tk_secret\n")
    async with post_server() as server:
        ways = open_ways(config(f'[ntfy.phone]\nurl = "{server.url}/t"\ntoken_file = "token"\ndetails = true\n'),
                         tmp_path, HttpOutgoing(["127.0.0.1/32"]))
        hook = ways.hooks["default", "phone"]
        assert (hook.kind, hook.host) == ("ntfy", "127.0.0.1")
        await ways.channels["default", "phone"].ask("dlv_1", 0, ASKING)
        await hook.channel.test("dlv_2", 0)
    first, second = server.got
    assert (first.headers["click"], first.headers["authorization"]) == (f"{PUBLIC}/a/apr_01", "Bearer tk_secret")
    assert second.headers["title"] == "Interlock can reach you"


@pytest.mark.req("G-1")
@pytest.mark.parametrize(("text", "sentence"), [
    ('[ntfy.p]\nurl = "https://ntfy.sh/"\n', "a topic's address"),
    ('[ntfy.p]\nurl = "https://ntfy.sh/a/b"\n', "a topic's address"),
    ('[ntfy.p]\nurl = "https://ntfy.sh/t?auth=x"\n', "a topic's address"),
    ('[ntfy.p]\nurl = "https://ntfy.sh/t"\ntoken_file = "none"\n', "token_file .*none cannot be read"),
    ('[ntfy.p]\nurl = "https://ntfy.sh/t"\ntoken_file = "two"\n', "one word without spaces"),
    ('[ntfy.p]\nurl = "https://ntfy.sh/t"\npriority = 6\n', "priority"),
    ('[ntfy.p]\nurl = "https://ntfy.sh/t"\n[webhooks.p]\nurl = "https://h.example"\nsecret_env = "S"\n',
     "two ways to the approvers of tenant 'default' have the name 'p'"),
    ('[apprise.p]\n', "url_file"),
    ('[apprise.p]\nurl_file = "two"\n', "has 2 URLs"),
])
def test_a_mistake_in_the_config_gives_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "two").write_text("one two\nthree\n")
    with pytest.raises(ConfigError, match=sentence):
        open_ways(config(text), tmp_path, HttpOutgoing(["127.0.0.1/32"]))


def service(server: PostServer, tmp_path: Path, scheme: str = "json") -> Any:
    (tmp_path / "url").write_text(f"# a secret\n{scheme}://ann:hunter2@{server.url.removeprefix('http://')}/hook\n")
    return open_ways(config('[apprise.chat]\nurl_file = "url"\n'), tmp_path, HttpOutgoing()).hooks["default", "chat"]


@pytest.mark.needs("apprise")
@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
async def test_an_apprise_service_gets_the_same_notice(tmp_path: Path) -> None:
    async with post_server() as server:
        hook = service(server, tmp_path)
        assert (hook.kind, hook.host) == ("apprise", "json")
        await hook.channel.ask("dlv_1", 0, ASKING)
    (line, _, body), = server.got
    sent = msgspec.json.decode(body)
    assert (line, sent["title"], sent["message"]) == ("POST /hook", "1 approval waits", LINK_LINE)


@pytest.mark.needs("apprise")
@pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")
async def test_a_failing_apprise_service_gives_one_sentence_without_its_secrets(tmp_path: Path) -> None:
    async with post_server() as server:
        server.status = 500
        hook = service(server, tmp_path)
        with pytest.raises(NotAsked, match="could not send to json") as caught:
            await hook.channel.test("dlv_1", 0)
        assert "hunter2" not in str(caught.value)
        with pytest.raises(ConfigError, match="not one that Apprise can use") as refused:
            service(server, tmp_path, "nonsense")
        assert "hunter2" not in str(refused.value)
