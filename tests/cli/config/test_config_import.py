"""`interlock config import`: the equivalents of OpenClaw's config, and nothing present is lost (G-1)."""

from __future__ import annotations

import json
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest

from interlock import config
from interlock.app.chats import chat_settings
from interlock.app.hooks import cron_jobs, open_hooks
from interlock.cli.config.config_import import import_
from interlock.cli.config.place import Where
from interlock.cli.exit_status import ExitStatus
from interlock.cli.verb_error import Trouble
from interlock.config.openclaw import translate
from interlock.session.chat.chat_route import Chat, agent_for, chat_key
from interlock.session.chat.resets import ResetRule
from interlock.session.chat.send_policy import may_send

OPENCLAW = """
// ~/.openclaw/openclaw.json
{
  $schema: "https://openclaw.ai/schema.json",
  agents: {
    defaults: {
      workspace: "~/.openclaw/workspace",
      model: { primary: "anthropic/claude-sonnet-4-5", fallbacks: [] },
      compaction: {
        mode: "safeguard",
        reserveTokensFloor: 24000,
        keepRecentTokens: 30000,
        memoryFlush: { enabled: true, softThresholdTokens: 6000, prompt: 'Write it down. "NO_REPLY" if nothing.' },
      },
    },
    list: [{ id: "work", default: true, workspace: "~/work" }, { id: "home" }],
  },
  compaction: { enabled: true, reserveTokens: 20000 },
  session: {
    scope: "per-sender",
    dmScope: "per-channel-peer",
    identityLinks: { alice: ["telegram:123456789", "discord:987654321012345678"] },
    reset: { mode: "daily", atHour: 4, idleMinutes: 120 },
    resetByType: {
      thread: { mode: "daily", atHour: 4 },
      dm: { mode: "idle", idleMinutes: 240 },
      group: { mode: "idle", idleMinutes: 120 },
    },
    resetByChannel: { discord: { mode: "idle", idleMinutes: 10080 } },
    resetTriggers: ["/new", "/reset"],
    store: "~/.openclaw/agents/{agentId}/sessions/sessions.json",
    mainKey: "main",
    sendPolicy: {
      rules: [
        { action: "deny", match: { channel: "discord", chatType: "group" } },
        { action: "deny", match: { keyPrefix: "cron:" } },
        { action: "deny", match: { keyPrefix: "slack:" } },
      ],
      default: "allow",
    },
  },
  bindings: [
    { agentId: "work", match: { channel: "telegram", accountId: "*", peer: { kind: "dm", id: "77" } } },
    { agentId: "home", match: { channel: "whatsapp", peer: { kind: "group", id: "1203@g.us" } } },
    { agentId: "home", match: { channel: "discord", guildId: "55", roles: ["admin"] } },
  ],
  channels: { telegram: { botToken: "123:abc", }, },
  hooks: {
    enabled: true,
    token: "a-shared-secret-of-hooks",
    path: "/hooks",
    mappings: [
      { match: { path: "gmail" }, action: "agent", agentId: "work", sessionKey: "hook:gmail:{{messages[0].id}}",
        messageTemplate: "From {{messages[0].from}}: {{messages[0].subject}}" },
      { id: "alarm", action: "wake", textTemplate: "{{text}}" },
      { id: "odd", messageTemplate: "{{#if a}}x{{/if}}" },
    ],
  },
  cron: { enabled: true, maxConcurrentRuns: 2 },
}
"""
JOBS = {"version": 1, "jobs": [
    {"id": "3f2a-morning", "name": "Morning", "enabled": True, "agentId": "work", "sessionTarget": "isolated",
     "schedule": {"kind": "cron", "expr": "0 7 * * 1-5", "tz": "Europe/Berlin"},
     "payload": {"kind": "agentTurn", "message": "Write the report."}},
    {"id": "tick", "schedule": {"kind": "every", "everyMs": 60000}, "payload": {"kind": "systemEvent", "text": "x"}},
    {"id": "off", "enabled": False, "sessionTarget": "main", "schedule": {"kind": "cron", "expr": "0 7 * * *"},
     "payload": {"kind": "systemEvent", "text": "wake up"}},
    {"id": "bad", "schedule": {"kind": "cron", "expr": "0 0 31 4 *"}, "payload": {"message": "never"}},
]}


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """OpenClaw's directory; the state directory is beside it."""
    home = tmp_path / "openclaw"
    (home / "cron").mkdir(parents=True)
    (home / "openclaw.json").write_text(OPENCLAW)
    (home / "cron/jobs.json").write_text(json.dumps(JOBS))
    return home


def taken_over(there: Path, **more: Any) -> tuple[int, Path]:
    state = there.parent / "state"
    state.mkdir(exist_ok=True)
    return import_(there / "openclaw.json", where=Where(state=state), **more), state


@pytest.mark.req("G-1", "I-1", "R-1", "R-3", "R-4")
def test_a_realistic_foreign_config_keeps_its_meaning(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done, state = taken_over(there, json=True)
    report = json.loads(capsys.readouterr().out)
    assert (done, report["written"], report["backup"]) == (ExitStatus.DONE, True, None)
    read = config.load(state / "interlock.toml")
    settings = chat_settings(read)
    # Resets, in OpenClaw's terms.
    assert settings.resets.reset == ResetRule(mode="daily", at_hour=4, idle_minutes=120)
    assert settings.resets.by_type == {"thread": ResetRule(mode="daily", at_hour=4),
                                       "direct": ResetRule(mode="idle", idle_minutes=240),
                                       "group": ResetRule(mode="idle", idle_minutes=120)}
    assert settings.resets.by_channel == {"discord": ResetRule(mode="idle", idle_minutes=10080)}
    # Keys and agents of chats.
    ann = Chat("telegram", "direct", peer="77")
    assert agent_for(ann, settings.bindings, settings.default_agent) == "work"
    assert chat_key(ann, "work", settings.naming) == "agent:work:telegram:dm:77"
    assert chat_key(Chat("discord", "direct", peer="987654321012345678"), "work", settings.naming) == (
        "agent:work:dm:alice")
    assert agent_for(Chat("whatsapp", "group", group_id="1203@g.us"), settings.bindings, "none") == "home"
    # A binding whose match cannot be held whole must take no other chat.
    assert agent_for(Chat("discord", "group", group_id="1", guild_id="55"), settings.bindings, "none") == "none"
    # The senders that get an answer.
    assert not may_send(settings.sending, None, Chat("discord", "group", group_id="1"), "k")
    assert not may_send(settings.sending, None, Chat("cron", "direct"), "agent:work:cron:x")
    assert may_send(settings.sending, None, ann, "k")
    # Compaction.
    assert (read.compaction.enabled, read.compaction.reserve_tokens, read.compaction.keep_recent_tokens) == (
        True, 20_000, 30_000)
    flush = read.defaults.compaction
    assert (flush.reserve_tokens_floor, flush.memory_flush.soft_threshold_tokens) == (24_000, 6_000)
    assert flush.memory_flush.prompt == 'Write it down. "NO_REPLY" if nothing.'
    # Hooks and jobs.
    hook = open_hooks(read, state)["gmail"]
    assert (hook.secret, hook.agent_id, hook.key, hook.message) == (
        b"a-shared-secret-of-hooks", "work", None, "From {/messages/0/from}: {/messages/0/subject}")
    assert stat.S_IMODE((state / "openclaw-hooks.secret").stat().st_mode) == 0o600
    jobs = {job.id: job for job in cron_jobs(read)}
    assert set(jobs) == {"3f2a-morning", "off"}
    morning = jobs["3f2a-morning"]
    assert (morning.key, morning.zone_name) == ("agent:work:cron:3f2a-morning", "Europe/Berlin")
    assert (jobs["off"].key, jobs["off"].enabled) == ("agent:work:main", False)
    # Every setting that was left out is reported with the reason.
    left = {one["name"]: one["why"] for one in report["left"]}
    assert left["session.scope"] == "every chat has a session of its own"
    assert "more chats would fit" in left["bindings[2]"]
    assert {"channels", "session.store", "session.resetTriggers", "agents.defaults.workspace", "cron.maxConcurrentRuns",
            "agents.defaults.compaction.mode", "hooks.path", "hooks.mappings[1]", "hooks.mappings[2]", "cron jobs[1]",
            "cron jobs[3]", "session.sendPolicy.rules[2]", "agents.list[0]"} <= left.keys()
    assert all(left.values())


@pytest.mark.req("G-1")
def test_a_written_config_reads_back_unchanged(there: Path) -> None:
    _, state = taken_over(there)
    text = (state / "interlock.toml").read_text()
    assert config.parse(config.show(config.parse(text, "f")), "f") == config.parse(text, "f")


@pytest.mark.req("G-1")
def test_an_existing_config_is_preserved_and_backed_up(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = there.parent / "state"
    state.mkdir()
    mine = '# my own\n[gateway]\nport = 7421  # chosen\n\n[agents.work]\nadapter = "acp"\n'
    (state / "interlock.toml").write_text(mine)
    taken_over(there)
    text = (state / "interlock.toml").read_text()
    assert text.startswith(mine)
    assert config.parse(text, "f").gateway.port == 7421
    assert [path.read_text() for path in state.glob("interlock.toml.bak-*")] == [mine]
    assert "not set up here yet: home;" in capsys.readouterr().err


@pytest.mark.req("G-1")
def test_an_existing_setting_is_never_replaced_without_a_question(there: Path) -> None:
    state = there.parent / "state"
    state.mkdir()
    mine = ('[session]\ndmScope = "main"\n\n[cron.own]\nschedule = "0 1 * * *"\nmessage = "mine"\n'
            "[limits]\ntimeout_ms = 5\n")
    (state / "interlock.toml").write_text(mine)
    with pytest.raises(Trouble, match="already contains settings of session, so nothing was changed") as trouble:
        taken_over(there)
    assert trouble.value.status == ExitStatus.CONFLICT
    assert [path.name for path in state.iterdir()] == ["interlock.toml"]
    assert (state / "interlock.toml").read_text() == mine
    taken_over(there, replace=True)
    read = config.load(state / "interlock.toml")
    assert (read.session.dm_scope, read.limits.timeout_ms, read.cron["own"].message) == ("per-channel-peer", 5, "mine")
    assert [path.read_text() for path in state.glob("interlock.toml.bak-*")] == [mine]


@pytest.mark.req("G-1")
def test_a_dry_run_writes_nothing_and_prints_a_config(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, state = taken_over(there, dry_run=True)
    assert list(state.iterdir()) == []
    assert tomllib.loads(capsys.readouterr().out)["session"]["dmScope"] == "per-channel-peer"


@pytest.mark.req("G-1")
@pytest.mark.parametrize(("text", "sentence"), [
    ("{", "is not JSON5"), ("[1]", "holds no object"), ("{a: 1, a: 2}", "is not JSON5"), ("\0", "is not JSON5"),
])
def test_a_file_that_is_not_a_config_gives_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "openclaw.json").write_text(text)
    with pytest.raises(Trouble, match=sentence):
        import_(tmp_path / "openclaw.json", where=Where(state=tmp_path / "state"))
    assert not (tmp_path / "state/interlock.toml").exists()
    with pytest.raises(Trouble, match="cannot be read"):
        import_(tmp_path / "none.json", where=Where(state=tmp_path / "state"))


@pytest.mark.req("G-1")
def test_invalid_values_are_skipped_one_by_one() -> None:
    found = translate({"session": {"dmScope": "everyone", "idleMinutes": 0, "reset": {"atHour": 77}, "identityLinks":
                                   {"a": ["nocolon"]}, "resetByType": {"crowd": {}}, "sendPolicy": "no"},
                       "bindings": [7, {"match": {}}, {"agentId": "B A D"}], "compaction": {"reserveTokens": "lots"},
                       "hooks": {"token": "short", "mappings": [{"id": "x"}, None]}, "agents": {"list": [None]}},
                      {"jobs": [None, {"id": "x", "schedule": {"kind": "cron"}}]})
    assert (found.tables, found.taken, found.token) == ({}, [], None)
    assert {name.partition("[")[0] for name, _ in found.left} >= {
        "session.dmScope", "session.idleMinutes", "session.reset", "session.identityLinks",
        "session.resetByType.crowd", "bindings", "compaction.reserveTokens", "hooks.mappings", "cron jobs"}


@pytest.mark.req("G-1")
def test_a_token_from_the_environment_stays_there() -> None:
    found = translate({"hooks": {"token": "${HOOKS_TOKEN}", "mappings": [{"id": "x", "messageTemplate": "{{a.b}}"}]}})
    assert found.tables == {"hooks": {"x": {"auth": "token", "secret_env": "HOOKS_TOKEN", "message": "{/a/b}"}}}
    assert found.token is None
