"""The parts of OpenClaw's config that have an equivalent here: sessions, compaction, bindings, hooks and cron jobs
(G-1).

A setting that would mean something else here is left out, and reported: a binding with fewer conditions than before
would match chats that were never meant for its agent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import msgspec

from interlock.config.chats import CronSection, HookSection, SessionSection
from interlock.config.contexts import AgentCompactionSection, CompactionSection
from interlock.protocol.identifiers import AGENT_ID
from interlock.session.chat.chat_route import Binding

TOKEN_FILE = "openclaw-hooks.secret"
"""Where the hooks' token is stored, in the state directory."""
NO_MEANING = "has no meaning here"
_ELSEWHERE = {
    "scope": "every chat has a session of its own", "resetTriggers": "/new and /reset are the words",
    "store": "the view lies in the state directory", "mainKey": "the main key is `main`",
    "maintenance": "see [retention]",
}
_ENV = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_PLACE = re.compile(r"\{\{\s*([A-Za-z0-9_.\[\]-]+)\s*\}\}")
_SECTIONS = frozenset({"session", "compaction", "agents", "bindings", "hooks", "cron", "$schema", "meta"})

Table = dict[str, Any]


class ImportedConfig(NamedTuple):
    """The result of an import: `tables` in the form of `interlock.toml`, the imported keys by their names there, and
    the omitted ones with the reason."""

    tables: Table
    taken: list[str]
    left: list[tuple[str, str]]
    token: str | None = None
    """The hooks' token, to be stored in `TOKEN_FILE`."""


class _Reading:
    """Collects what is imported and what is left out."""

    def __init__(self) -> None:
        self.tables: Table = {}
        self.taken: list[str] = []
        self.left: list[tuple[str, str]] = []
        self.token: str | None = None

    def put(self, path: str, table: tuple[str, ...], name: str, value: Any) -> None:
        """Copy a value from `path` to a table."""
        at = self.tables
        for part in table:
            at = at.setdefault(part, {})
        at[name] = value
        self.taken.append(path)

    def leave(self, path: str, why: str = NO_MEANING) -> None:
        """Record a value as left out."""
        self.left.append((path, why))

    def checked(self, path: str, kind: Any, value: Any) -> bool:
        """Return whether a value is valid for a section; if not it is left out, with the reason."""
        try:
            msgspec.convert(value, kind, strict=True)
        except msgspec.ValidationError as error:
            self.leave(path, str(error).partition(" - at ")[0].lower())
            return False
        return True


def translate(source: Mapping[str, Any], jobs: Mapping[str, Any] | None = None) -> ImportedConfig:
    """Translate OpenClaw's config, and its file of cron jobs. Never raises: what cannot be read is left out, and
    reported."""
    reading = _Reading()
    for name in source:
        if name not in _SECTIONS:
            reading.leave(name, "is set up in its own way here, or not at all")
    _session(reading, _dict(source.get("session")))
    _compaction(reading, _dict(source.get("compaction")), "compaction")
    _agents(reading, _dict(source.get("agents")))
    _bindings(reading, source.get("bindings"))
    _hooks(reading, _dict(source.get("hooks")))
    cron = _dict(source.get("cron"))
    for name in cron:
        reading.leave(f"cron.{name}")
    if jobs is not None:
        _jobs(reading, jobs.get("jobs"), enabled=cron.get("enabled") is not False)
    return ImportedConfig(reading.tables, reading.taken, reading.left, reading.token)


def _dict(value: object) -> Table:
    return cast("Table", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _section(reading: _Reading, path: str, kind: type, table: tuple[str, ...], values: Table) -> None:
    """Copy each value that the section has under the same name, if it is valid there."""
    known = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    for name, value in values.items():
        if name not in known:
            reading.leave(f"{path}.{name}", _ELSEWHERE.get(name, NO_MEANING))
        elif reading.checked(f"{path}.{name}", known[name], value):
            reading.put(f"{path}.{name}", table, name, value)


def _session(reading: _Reading, session: Table) -> None:
    plain = dict(session)
    for name, read in (("sendPolicy", _send_policy), ("resetByType", _by_type), ("identityLinks", _links)):
        if name in plain:
            read(reading, plain.pop(name))
    if plain.get("mainKey") == "main":
        del plain["mainKey"]
    _section(reading, "session", SessionSection, ("session",), plain)


def _by_type(reading: _Reading, rules: object) -> None:
    for kind, rule in _dict(rules).items():
        here = "direct" if kind == "dm" else kind
        if reading.checked(f"session.resetByType.{kind}", _type_of(SessionSection, "resetByType"), {here: rule}):
            reading.put(f"session.resetByType.{kind}", ("session", "resetByType"), here, rule)


def _links(reading: _Reading, links: object) -> None:
    if not reading.checked("session.identityLinks", _type_of(SessionSection, "identityLinks"), links):
        return
    try:
        SessionSection(identity_links=cast("dict[str, list[str]]", links))
    except ValueError as error:
        reading.leave("session.identityLinks", str(error).partition(": ")[2])
        return
    reading.put("session.identityLinks", ("session",), "identityLinks", links)


def _send_policy(reading: _Reading, policy: object) -> None:
    found = _dict(policy)
    rules: list[Table] = []
    for number, rule in enumerate(_list(found.get("rules"))):
        path, match = f"session.sendPolicy.rules[{number}]", _dict(_dict(rule).get("match"))
        ours: Table = {"action": _dict(rule).get("action")}
        for name, value in match.items():
            if name == "keyPrefix" and value in ("cron:", "hook:"):
                ours["channel"] = value.rstrip(":")
            elif name == "chatType" and value == "dm":
                ours["chatType"] = "direct"
            else:
                ours[name] = value
        if isinstance(prefix := ours.get("keyPrefix"), str) and not prefix.startswith("agent:"):
            reading.leave(path, "keyPrefix: keys begin with `agent:` and the agent's id here")
        elif reading.checked(path, _rule_kind(), ours):
            rules.append(ours)
            reading.taken.append(path)
    if rules:
        reading.tables.setdefault("session", {}).setdefault("sendPolicy", {})["rules"] = rules
    if found.get("default") in ("allow", "deny"):
        reading.put("session.sendPolicy.default", ("session", "sendPolicy"), "default", found["default"])


def _rule_kind() -> type:
    from interlock.session.chat.send_policy import SendRule

    return SendRule


def _type_of(kind: type, name: str) -> Any:
    return next(field.type for field in msgspec.structs.fields(kind) if field.encode_name == name)


def _compaction(reading: _Reading, values: Table, path: str) -> None:
    _section(reading, path, CompactionSection, ("compaction",), {
        name: value for name, value in values.items() if name not in ("windows", "beforeCompact")})


def _agents(reading: _Reading, agents: Table) -> None:
    defaults = _dict(agents.get("defaults"))
    for name in defaults:
        if name != "compaction":
            reading.leave(f"agents.defaults.{name}", "is the agent's own matter: see [agents.ID]")
    path, compaction = "agents.defaults.compaction", _dict(defaults.get("compaction"))
    both = {name: compaction.pop(name) for name in ("enabled", "reserveTokens", "keepRecentTokens")
            if name in compaction}
    _compaction(reading, both, path)
    flush = _dict(compaction.pop("memoryFlush", None))
    _section(reading, path, AgentCompactionSection, ("agents", "defaults", "compaction"), compaction)
    _section(reading, f"{path}.memoryFlush", _type_of(AgentCompactionSection, "memoryFlush"),
             ("agents", "defaults", "compaction", "memoryFlush"), flush)
    for number, agent in enumerate(_list(agents.get("list"))):
        named = _dict(agent).get("id")
        if _dict(agent).get("default") is True and isinstance(named, str) and AGENT_ID.fullmatch(named):
            reading.put(f"agents.list[{number}].default", ("session",), "defaultAgent", named)
        reading.leave(f"agents.list[{number}]", "an agent is set up as [agents.ID]: see `interlock agents`")


def _bindings(reading: _Reading, bindings: object) -> None:
    for number, binding in enumerate(_list(bindings)):
        path, entry = f"bindings[{number}]", _dict(binding)
        ours: Table = {"agent": entry.get("agentId")}
        why = ""
        for name, value in _dict(entry.get("match")).items():
            if name in ("peer", "parentPeer"):
                kind, place = _dict(value).get("kind"), _dict(value).get("id")
                here = "parent_peer" if name == "parentPeer" else "peer" if kind in ("direct", "dm") else "group_id"
                ours[here] = place
            elif name == "accountId" and value == "*":
                continue
            elif name in ("channel", "accountId", "guildId", "teamId"):
                ours[re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)] = value
            else:
                why = f"match.{name} cannot be held here, and without it more chats would fit"
        if why:
            reading.leave(path, why)
        elif reading.checked(path, Binding, ours):
            reading.tables.setdefault("bindings", []).append(ours)
            reading.taken.append(path)


def _hooks(reading: _Reading, hooks: Table) -> None:
    token = hooks.get("token")
    secret = _secret(token) if isinstance(token, str) else None
    for name in hooks:
        if name not in ("token", "mappings", "enabled"):
            reading.leave(f"hooks.{name}", "hooks lie at /v1/hooks/NAME" if name == "path" else NO_MEANING)
    for number, mapping in enumerate(_list(hooks.get("mappings"))):
        path, entry = f"hooks.mappings[{number}]", _dict(mapping)
        name = str(_dict(entry.get("match")).get("path") or entry.get("id") or "").strip("/").lower()
        text = _template(entry.get("messageTemplate") or entry.get("textTemplate"))
        key = entry.get("sessionKey")
        if hooks.get("enabled") is False:
            reading.leave(path, "hooks are off there")
        elif secret is None:
            reading.leave(path, "hooks.token: a hook needs a secret of at least 16 characters")
        elif AGENT_ID.fullmatch(name) is None:
            reading.leave(path, "it has no name (`match.path` or `id`) of a-z, 0-9, - and _")
        elif entry.get("action", "agent") != "agent" or entry.get("transform") is not None:
            reading.leave(path, "only what is sent to an agent is taken, and nothing that is run on the way")
        elif text is None:
            reading.leave(path, "its template says more than names of values")
        else:
            ours: Table = {"auth": "token", **secret, **({"message": text} if text else {}),
                           **({"agent": entry["agentId"]} if "agentId" in entry else {}),
                           **({"key": key} if isinstance(key, str) and "{{" not in key else {})}
            if reading.checked(path, HookSection, ours):
                reading.put(path, ("hooks",), name, ours)
                reading.token = token if "secret_file" in secret else None


def _secret(token: str) -> dict[str, str] | None:
    if (named := _ENV.fullmatch(token)) is not None:
        return {"secret_env": named[1]}
    return {"secret_file": TOKEN_FILE} if len(token) >= 16 and token.isprintable() else None


def _template(text: object) -> str | None:
    """Return `{{a.b[0]}}` as `{/a/b/0}`; "" if there is none, None for what has no equivalent."""
    if text is None:
        return ""
    if not isinstance(text, str):
        return None
    fields: Callable[[re.Match[str]], str] = lambda found: "\0/" + "/".join(  # noqa: E731
        part for part in re.split(r"[.\[\]]", found[1]) if part) + "\1"
    written = _PLACE.sub(fields, text)
    return None if "{" in written or "}" in written else written.replace("\0", "{").replace("\1", "}")


def _jobs(reading: _Reading, jobs: object, *, enabled: bool) -> None:
    for number, job in enumerate(_list(jobs)):
        entry = _dict(job)
        path, job_id = f"cron jobs[{number}]", str(entry.get("id") or entry.get("jobId") or "").lower()
        schedule, payload = _dict(entry.get("schedule")), _dict(entry.get("payload"))
        ours: Table = {
            "schedule": schedule.get("expr"), "message": payload.get("message") or payload.get("text"),
            **({"time_zone": schedule["tz"]} if "tz" in schedule else {}),
            **({"agent": entry["agentId"]} if entry.get("agentId") else {}),
            **({"key": "main"} if entry.get("sessionTarget") == "main" else {}),
            **({"enabled": False} if entry.get("enabled") is False or not enabled else {}),
        }
        if AGENT_ID.fullmatch(job_id) is None:
            reading.leave(path, "it has no id of a-z, 0-9, - and _")
        elif schedule.get("kind") != "cron":
            reading.leave(path, f"a job is due by five fields here, not `{schedule.get('kind')}`")
        elif reading.checked(path, CronSection, ours):
            reading.put(path, ("cron",), job_id, ours)
