"""Hooks and cron jobs of the config, as the gateway reads them: secrets that are read, defaults that are filled in."""

from __future__ import annotations

import base64
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from interlock.app.hooks import SECRET_CHARS_MIN, cron_jobs, open_hooks
from interlock.config import Config, ConfigError, parse

pytestmark = pytest.mark.req("R-4")
LONG = "s" * SECRET_CHARS_MIN
STANDARD = "whsec_" + base64.b64encode(b"x" * 24).decode()


def config(text: str) -> Config:
    return parse(text, "interlock.toml")


def test_a_secret_is_read_from_a_state_file_or_a_variable(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"  {LONG}\n")
    hooks = open_hooks(config('[hooks.one]\nsecret_file = "secret"\n[hooks.two]\nsecret_env = "TWO"\nagent = "Claude"\n'
                              'auth = "token"\ntenant = "acme"'), tmp_path, {"TWO": LONG + "2"})
    assert {name: hook.secret for name, hook in hooks.items()} == {"one": LONG.encode(), "two": f"{LONG}2".encode()}
    assert (hooks["one"].agent_id, hooks["one"].tenant_id, hooks["one"].auth) == ("shell", "default", "hmac")
    assert (hooks["two"].agent_id, hooks["two"].tenant_id, hooks["two"].auth) == ("claude", "acme", "token")


def test_a_standard_webhooks_secret_is_decoded_from_base64(tmp_path: Path) -> None:
    text = '[hooks.one]\nauth = "standard"\nsecret_env = "ONE"'
    assert open_hooks(config(text), tmp_path, {"ONE": STANDARD})["one"].secret == b"x" * 24


@pytest.mark.parametrize(("auth", "value", "expected"), [
    ("hmac", None, "secret_env ONE: there is no such variable"), ("hmac", "  ",
    "secret_env ONE: there is no such variable"),
    ("hmac", LONG[1:], f"has {SECRET_CHARS_MIN - 1} characters"), ("token", "x", "has 1 characters"),
    ("standard", "whsec_%%", "is not `whsec_` and base64"),
    ("standard", "whsec_" + base64.b64encode(b"x" * 23).decode(), "has 23 bytes"),
])
def test_an_invalid_secret_is_reported_but_not_shown(
    tmp_path: Path, auth: str, value: str | None, expected: str
) -> None:
    with pytest.raises(ConfigError) as failed:
        open_hooks(config(f'[hooks.one]\nauth = "{auth}"\nsecret_env = "ONE"'), tmp_path,
                   {} if value is None else {"ONE": value})
    [sentence] = failed.value.sentences
    assert sentence.startswith("[hooks.one]: ")
    assert expected in sentence
    assert value is None or len(value.strip()) < 8 or value not in sentence


def test_every_mistake_is_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff" * 40)
    (tmp_path / "directory").mkdir()
    with pytest.raises(ConfigError) as failed:
        open_hooks(config('[hooks.a]\nsecret_file = "none"\n[hooks.b]\nsecret_file = "binary"\n[hooks.c]\n'
                          'secret_file = "directory"\n[hooks.d]\nsecret_env = "D"'), tmp_path, {"D": LONG})
    sentences = failed.value.sentences
    assert [sentence.split(":")[0] for sentence in sentences] == ["[hooks.a]", "[hooks.b]", "[hooks.c]"]
    assert "No such file" in sentences[0]
    assert "Is a directory" in sentences[2]


def test_a_job_has_its_own_session_and_the_zone_of_the_chats() -> None:
    jobs = cron_jobs(config('[agents.claude]\nadapter = "claude"\n[session]\ntimeZone = "Europe/Berlin"\n'
                            'workspace = "/w"\n[cron.nightly]\nschedule = "0 3 * * *"\nmessage = "go"'))
    [job] = jobs
    assert (job.id, job.tenant_id, job.agent_id, job.text) == ("nightly", "default", "claude", "go")
    assert (job.zone, job.zone_name, job.workspace) == (ZoneInfo("Europe/Berlin"), "Europe/Berlin", "/w")
    assert job.key == "agent:claude:cron:nightly"
    assert job.enabled


def test_a_jobs_own_settings_take_precedence() -> None:
    [job] = cron_jobs(config('[session]\ntimeZone = "Europe/Berlin"\nworkspace = "/w"\n'
                             '[cron.one]\nschedule = "* * * * *"\n'
                             'message = "x"\nagent = "Other"\ntime_zone = "Asia/Tokyo"\nworkspace = "/v"\n'
                             'key = "main"\nenabled = false'))
    assert (job.agent_id, job.zone_name, job.workspace, job.enabled) == ("other", "Asia/Tokyo", "/v", False)
    assert job.key == "agent:other:main"


def test_without_a_zone_the_hosts_zone_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    [job] = cron_jobs(config('[cron.one]\nschedule = "* * * * *"\nmessage = "x"'))
    assert (job.zone, job.zone_name) == (ZoneInfo("Asia/Tokyo"), "local")
