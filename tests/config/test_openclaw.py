"""OpenClaw's config, value by value (G-1): imported if it has an equivalent, and otherwise skipped with a reason."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.config.openclaw import TOKEN_FILE, ImportedConfig, translate

pytestmark = pytest.mark.req("G-1")
TOKEN = "a-token-of-enough-characters"
JOB = {"id": "nightly", "schedule": {"kind": "cron", "expr": "0 3 * * *"}, "payload": {"message": "tidy up"}}


def left(found: ImportedConfig) -> dict[str, str]:
    return dict(found.left)


def hook(token: str = TOKEN, **mapping: Any) -> ImportedConfig:
    return translate({"hooks": {"token": token, "mappings": [{"match": {"path": "ci"}, **mapping}]}})


@pytest.mark.parametrize(("source", "tables"), [
    ({}, {}),
    ({"session": {"dmScope": "per-peer", "mainKey": "main"}}, {"session": {"dmScope": "per-peer"}}),
    ({"session": {"resetByType": {"dm": {"mode": "idle"}}}},
    {"session": {"resetByType": {"direct": {"mode": "idle"}}}}),
    ({"session": {"sendPolicy": {"default": "deny", "rules": [
        {"action": "allow", "match": {"chatType": "dm", "channel": "slack"}}]}}},
     {"session": {"sendPolicy": {"rules": [{"action": "allow", "chatType": "direct", "channel": "slack"}],
                                 "default": "deny"}}}),
    ({"bindings": [{"agentId": "work", "match": {"channel": "slack", "accountId": "*", "peer": {"kind": "group",
                                                                                               "id": "7"}}}]},
     {"bindings": [{"agent": "work", "channel": "slack", "group_id": "7"}]}),
    ({"agents": {"list": [{"id": "work", "default": True}]}}, {"session": {"defaultAgent": "work"}}),
    ({"compaction": {"reserveTokens": 5}}, {"compaction": {"reserveTokens": 5}}),
    ({"agents": {"defaults": {"compaction": {"enabled": False, "memoryFlush": {"enabled": False}}}}},
     {"compaction": {"enabled": False}, "agents": {"defaults": {"compaction": {"memoryFlush": {"enabled": False}}}}}),
])
def test_settings_with_the_same_meaning_are_imported(source: dict[str, Any], tables: dict[str, Any]) -> None:
    found = translate(source)
    assert found.tables == tables
    assert bool(found.taken) == bool(tables)


@pytest.mark.parametrize(("source", "path"), [
    ({"gateway": {"port": 1}}, "gateway"), ({"session": {"scope": "global"}}, "session.scope"),
    ({"session": {"mainKey": "work"}}, "session.mainKey"), ({"session": {"dmScope": 7}}, "session.dmScope"),
    ({"session": {"identityLinks": {"a": ["x"]}}}, "session.identityLinks"),
    ({"session": {"resetByType": {"room": {}}}}, "session.resetByType.room"),
    ({"session": {"sendPolicy": {"rules": [{"action": "deny", "match": {"keyPrefix": "telegram:"}}]}}},
     "session.sendPolicy.rules[0]"),
    ({"bindings": [{"agentId": "work", "match": {"roles": ["x"]}}]}, "bindings[0]"),
    ({"bindings": [{"agentId": "no/such", "match": {}}]}, "bindings[0]"), ({"bindings": [{}]}, "bindings[0]"),
    ({"agents": {"defaults": {"model": "x"}}}, "agents.defaults.model"), ({"hooks": {"path": "/h"}}, "hooks.path"),
    ({"cron": {"enabled": True}}, "cron.enabled"),
])
def test_settings_with_another_meaning_are_left_out_with_a_reason(source: dict[str, Any], path: str) -> None:
    found = translate(source)
    assert left(found)[path]
    assert path not in found.taken
    assert found.tables.get("bindings", []) == []


def test_a_hook_keeps_its_token_in_a_file_of_the_state_directory() -> None:
    found = hook(messageTemplate="{{repo.name}} at {{commits[0].id}}", agentId="work", sessionKey="hook:ci")
    assert found.tables["hooks"]["ci"] == {
        "auth": "token", "secret_file": TOKEN_FILE, "agent": "work", "key": "hook:ci",
        "message": "{/repo/name} at {/commits/0/id}"}
    assert found.token == TOKEN
    named = hook("${CI_TOKEN}")
    assert named.tables["hooks"]["ci"]["secret_env"] == "CI_TOKEN"
    assert named.token is None


@pytest.mark.parametrize(("token", "mapping"), [
    ("short", {}), (TOKEN, {"match": {"path": "a b"}}), (TOKEN, {"match": {}}), (TOKEN, {"action": "wake"}),
    (TOKEN, {"transform": {"module": "x.js"}}), (TOKEN, {"messageTemplate": "{{a b}}"}),
    (TOKEN, {"messageTemplate": 7}), (TOKEN, {"agentId": "no/such"}),
])
def test_a_hook_that_cannot_be_imported_completely_is_left_out(token: str, mapping: dict[str, Any]) -> None:
    found = hook(token, **mapping)
    assert "hooks" not in found.tables
    assert found.token is None
    assert left(found)["hooks.mappings[0]"]


@pytest.mark.parametrize(("change", "job"), [
    ({}, {"schedule": "0 3 * * *", "message": "tidy up"}),
    ({"enabled": False, "agentId": "work", "sessionTarget": "main"},
     {"schedule": "0 3 * * *", "message": "tidy up", "agent": "work", "key": "main", "enabled": False}),
    ({"schedule": {"kind": "cron", "expr": "0 3 * * *", "tz": "Europe/Berlin"}},
     {"schedule": "0 3 * * *", "message": "tidy up", "time_zone": "Europe/Berlin"}),
])
def test_a_job_is_imported_with_its_time(change: dict[str, Any], job: dict[str, Any]) -> None:
    assert translate({}, {"jobs": [{**JOB, **change}]}).tables == {"cron": {"nightly": job}}


def test_jobs_that_were_disabled_as_a_whole_stay_disabled() -> None:
    assert translate({"cron": {"enabled": False}}, {"jobs": [JOB]}).tables["cron"]["nightly"]["enabled"] is False


@pytest.mark.parametrize("change", [{"id": "a b"}, {"schedule": {"kind": "every", "everyMs": 5}}, {"payload": {}},
                                    {"schedule": {"kind": "cron", "expr": "noon"}}])
def test_a_job_without_an_equivalent_is_left_out(change: dict[str, Any]) -> None:
    found = translate({}, {"jobs": [{**JOB, **change}]})
    assert found.tables == {}
    assert left(found)["cron jobs[0]"]


ODD = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(
    inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=6)
NAMES = st.sampled_from(["session", "compaction", "agents", "bindings", "hooks", "cron", "other"])
INNER = st.sampled_from(["sendPolicy", "rules", "resetByType", "identityLinks", "defaults", "list", "mappings", "match",
                         "peer", "token", "compaction", "memoryFlush", "x"])


@given(st.dictionaries(NAMES, ODD | st.dictionaries(INNER, ODD | st.dictionaries(INNER, ODD, max_size=3), max_size=4)),
       st.none() | st.dictionaries(st.just("jobs"), ODD))
def test_no_content_of_a_file_raises(source: dict[str, Any], jobs: dict[str, Any] | None) -> None:
    found = translate(source, jobs)
    assert {path for path, _ in found.left}.isdisjoint(found.taken)


@pytest.mark.parametrize("source", [{"hooks": {"mappings": 5}}, {"agents": {"list": {"a": 1}}},
                                    {"session": {"sendPolicy": {"rules": None}}}, {"bindings": "x"}])
def test_a_value_instead_of_a_list_counts_as_empty(source: dict[str, Any]) -> None:
    assert translate(source).tables == {}
