"""The config in force without its secrets (K-4), in any form of an address or a table."""

from __future__ import annotations

import pytest

from interlock.config.loader import parse
from interlock.config.redacted import show
from interlock.config.sections import ClusterSection, Config

pytestmark = pytest.mark.req("G-1", "K-4")


def shown(text: str) -> str:
    return show(parse(text, "f"))


@pytest.mark.parametrize(("store", "written"), [
    ("postgresql://ann:secret@db/x", "postgresql://ann:(redacted)@db/x"),
    ("postgresql://ann:sec@ret@db/x", "postgresql://ann:(redacted)@db/x"),
    ("postgresql://ann@db/x?sslmode=verify-full", "postgresql://ann@db/x?sslmode=verify-full"),
    ("postgresql://db/x?user=ann&password=secret&a=b", "postgresql://db/x?user=ann&password=(redacted)&a=b"),
    ("postgresql://db/x?sslpassword=secret", "postgresql://db/x?sslpassword=(redacted)"),
    ("postgresql://db", "postgresql://db"),
])
def test_a_database_url_shows_no_password(store: str, written: str) -> None:
    assert f'store = "{written}"' in show(Config(cluster=ClusterSection(store=store)))


@pytest.mark.parametrize(("bus", "written"), [
    ("nats://a:secret@one,tls://b:secret@two:4222", "nats://a:(redacted)@one,tls://b:(redacted)@two:4222"),
    ("nats://secret@one", "nats://(redacted)@one"), ("nats://one:4222,nats://two", "nats://one:4222,nats://two"),
])
def test_a_bus_url_shows_no_password_and_no_token(bus: str, written: str) -> None:
    text = show(Config(cluster=ClusterSection(store="postgresql://db", bus=bus)))
    assert f'bus = "{written}"' in text
    assert "secret" not in text


@pytest.mark.parametrize("url", ["https://h.example/secret", "https://h.example?token=secret", "https://h.example#secret",
                                 "https://ann:secret@h.example/x", "https://secret@h.example"])
@pytest.mark.parametrize("table", ['[webhooks.ops]\nsecret_env = "E"', "[ntfy.ops]",
                                   '[compaction.beforeCompact]\nsecretEnv = "E"'])
def test_only_the_host_of_a_receivers_url_is_shown(table: str, url: str) -> None:
    text = shown(f'{table}\nurl = "{url}"\n')
    assert "secret" not in text.replace("secret_", "").replace("secretE", "").replace("secretF", "")
    assert 'url = "https://h.example/(redacted)"' in text or "https://h.example/(redacted)" in text


def test_variables_that_look_secret_and_every_header_are_left_out() -> None:
    text = shown('''[agents.a]
adapter = "acp"
command = "x"
env = {API_KEY = "s1", MY_PASSWD = "s2", github_token = "s3", MODE = "plain"}
[agents.a.mcp.web]
url = "https://mcp.example"
headers = {X-Plain = "s4"}
''')
    assert "plain" in text
    assert [secret for secret in ("s1", "s2", "s3", "s4") if f'"{secret}"' in text] == []


@pytest.mark.parametrize("text", [
    "", '[policy]\nuse = ["readonly"]\n[[policy.rules]]\nname = "a \\"b\\""\neffect = "ask"\ntool = ["x", "y"]\n',
    '[[budgets]]\nname = "day"\nusd_per_day = "5"\n', '[[bindings]]\nagent = "a"\nchannel = "slack"\n',
    '[cron.night]\nschedule = "0 3 * * *"\nmessage = "tidy\\nup"\n[hooks.ci]\nsecret_env = "E"\n',
    '[slack]\nbot_token_env = "A"\napp_token_env = "B"\n[slack.people.U012AB3CD]\nowner = true\n',
    '[push]\ncontact = "mailto:a@b"\n[apprise.chat]\nurl_env = "E"\n[[redaction.rules]]\nname = "n"\nregex = "x+"\n',
])
def test_the_shown_config_reads_back_as_the_same_config(text: str) -> None:
    config = parse(text, "f")
    assert parse(show(config), "shown") == config
