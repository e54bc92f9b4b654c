"""Writes the pages of `docs/reference/` from the program itself: verbs, exit statuses, REST paths, config, frames.

`python docs/reference/generate.py` writes them all; a test asserts that what lies here is what this prints.
"""

from __future__ import annotations

import inspect
import re
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec

from interlock import config
from interlock.cli import verbs
from interlock.cli.exit_status import BY_CODE, BY_STATE, ExitStatus
from interlock.command import machine
from interlock.protocol.api.operation import READERS
from interlock.protocol.api.table import OPERATIONS
from interlock.protocol.codes import MEANINGS
from interlock.protocol.envelope import DPS_VERSION
from interlock.protocol.frames import ENVELOPE, FRAMES, Direction, FrameType, Origin
from interlock.protocol.problems import PROBLEMS
from interlock.sdk import pages, problems, resources
from interlock.sdk.exchange import ATTEMPTS, PAUSE_MAX_S, RETRY_AFTER_MAX_S, RETRYABLE_CODES, STREAM_GIVE_UP_S
from interlock.sdk.methods import EventMethod, Every, Pieces
from interlock.sdk.multiplexer import Watched
from interlock.sdk.prompt_stream import PARTS
from interlock.session import turn

HERE = Path(__file__).parent
NOTE = "<!-- Written by docs/reference/generate.py from the program; change the program, then run it again. -->"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Write a table; a bar inside a cell is escaped."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


def page(title: str, *lines: str) -> str:
    """Write a whole page."""
    return "\n".join((f"# {title}", "", NOTE, "", *lines)) + "\n"


def paragraph(*sentences: str) -> list[str]:
    """Write text of one paragraph, wrapped as the other pages are."""
    return [*textwrap.wrap(" ".join(sentences), 120, break_long_words=False, break_on_hyphens=False), ""]


# --- the command line ---
class Option(typing.NamedTuple):
    """One argument or option of a verb."""

    names: tuple[str, ...]
    kind: str
    help: str

    @property
    def written(self) -> str:
        """As it stands in the table."""
        bare = self.kind == "bool" or not self.names[0].startswith("-")
        value = "" if bare else " " + self.kind.rpartition(" ")[2].upper()
        return ", ".join(f"`{name}{value}`" for name in self.names)


def every_verb() -> Iterator[tuple[str, verbs.CliVerb]]:
    """Give each verb with the words that name it."""
    for verb in (*verbs.DAILY_VERBS, *verbs.THING_VERBS, *verbs.SETUP_VERBS):
        yield verb.name, verb
    for itself, _, _ in verbs.GROUPED:
        yield itself.name, itself
    for group, members in (*((itself.name, below) for itself, below, _ in verbs.GROUPED),
                           ("audit", verbs.AUDIT_VERBS), ("config", verbs.CONFIG_VERBS),
                           ("completion", verbs.COMPLETION_VERBS)):
        for verb in members:
            yield f"{group} {verb.name}", verb


def options(words: str) -> list[Option]:
    """Read the arguments of a verb as the command line itself parses them."""
    app: Any = verbs.build()
    for word in words.split():
        app = app[word]
    told = _docstring_parameters(app.default_command)
    found: list[Option] = []
    for argument in app.assemble_argument_collection():
        if not argument.show:
            continue
        first, *others = argument.names
        names = (first, *(name for name in others if not name.startswith(("--no-", "--empty-"))))
        helped = argument.parameter.help or told.get(argument.field_info.names[0], "")
        found.append(Option(names, _type(argument.hint), helped))
    return found


def _docstring_parameters(verb: Callable[..., Any]) -> dict[str, str]:
    _, _, section = inspect.cleandoc(verb.__doc__ or "").partition("Parameters\n----------\n")
    found = re.findall(r"^(\w+)\n((?:    .+\n?)+)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def cli() -> str:
    """Write cli.md."""
    lines = paragraph(
        "Examples and options of each verb, as `interlock VERB --help` shows them. Standard output is the result;",
        "progress, hints and errors go to standard error. `--json` prints one document; ignore fields that you do",
        "not know. Ids may be shortened to a unique beginning, and `@last` names the newest.")
    for words, verb in every_verb():
        lines += [f"## interlock {words}", "", verb.line, "", "```", *verb.examples, "```", ""]
        found = options(words)
        if found:
            lines += [*table(("argument", "what it does"), ((one.written, one.help) for one in found)), ""]
    lines += ["## Variables", "", *table(("variable", "what it does"), (
        ("`INTERLOCK_STATE`", "the state directory, where `--state` is not given"),
        ("`INTERLOCK_URL`", "the gateway's URL, where `--url` is not given"),
        ("`INTERLOCK_KEY`", "the key, in place of `owner.key` in the state directory"),
        ("`INTERLOCK_DEBUG`", "set to anything: an error shows its traceback"),
        ("`INTERLOCK_BELL`", "`off`: no bell and no desktop notice when something waits for your answer"),
        ("`NO_COLOR`", "set to anything: no colour, and an agent's text as it was written"),
    )), "", "## Exit statuses", "", *table(("status", "means", "set by"), (
        (str(int(status)), status.name.lower().replace("_", " "), _causes(status)) for status in ExitStatus))]
    lines += ["", *paragraph(
        "A denied tool alone sets no status: the command may have succeeded without it. The last lines name what was",
        "denied, by whom or by which rule, and why, and `--json` has it in `denials`. Any code that is not",
        "named here is 1. A command that was never started in time is 5, an approval that expired is 3.")]
    return page("Verbs and exit statuses", *lines[:-1])


def _causes(status: ExitStatus) -> str:
    states = [f"state `{state}`" for state, of in BY_STATE.items() if of is status]
    codes = [f"`{code}`" for code, of in BY_CODE.items() if of is status]
    return ", ".join((*states, *codes)) or {ExitStatus.INTERRUPTED: "Ctrl-C; the work continues"}.get(status, "")


# --- REST ---
def rest() -> str:
    """Write rest.md."""
    lines = paragraph(
        "Every path answers under `/v1`, and without it too. Send `Authorization: Bearer KEY` always; every POST",
        "needs `Idempotency-Key` (8 to 255 visible ASCII characters). `GET /healthz` and `GET /readyz` need no",
        "key, nor does `POST /v1/runners/pair`, whose code is the credential. Bodies are JSON in UTF-8, and an",
        "unknown field is refused; a command's `id`, `created_at`, `tenant_id` and `actor` are the gateway's to set:",
        "in a body they are ignored, and `Interlock-Ignored-Fields` in the answer names them. An integer may be",
        "written `1.0`. Errors are `application/problem+json`:",
        "[each by its code](../how-to/errors.md). All of it, with every answer and every code that each operation",
        "can give, is in the [OpenAPI document](../../spec/openapi.json), which a gateway serves at",
        "`GET /openapi.json` without a key.")
    rows: list[tuple[str, ...]] = []
    bodies: dict[str, type[msgspec.Struct]] = {}
    for one in OPERATIONS:
        if one.body is not None:
            bodies[one.body.__name__] = one.body
        roles = ", ".join(sorted(one.roles))
        roles = "no key" if one.public else "any role" if one.roles == READERS else roles
        body = f"[{one.body.__name__}](#{one.body.__name__.lower()})" if one.body is not None else ""
        rows.append((f"`{one.method} /v1{one.path}`", " ".join(f"`{name}`" for name in one.query), body, roles,
                     ", ".join(one.media)))
    lines += [*table(("operation", "query", "body", "roles", "answers"), rows), ""]
    bodies |= {kind.__name__: kind for body in list(bodies.values()) for kind in _nested(body)}
    for name, body in bodies.items():
        fields = ((f"`{field.encode_name}`", _type(field.type), _default(field))
                  for field in msgspec.structs.fields(body))
        lines += [f"## {name}", "", _first(body), "", *table(("field", "type", "default"), fields), ""]
    lines += ["## Streams", "", *paragraph(
        "`since` is an opaque cursor, exclusive; without it a stream is read from its start. With `Accept:",
        "text/event-stream` the same path stays open; an SSE `id` is the cursor, and `Last-Event-ID` beats",
        "`since`. `wait` (seconds, at most 30) holds a poll open until something comes. A command's stream ends",
        "after the `state` event with a terminal state; a reconnect past its end is answered 204."), *paragraph(
        "Many streams go over one connection at the WebSocket `/v1/stream`; the OpenAPI document says how. There is",
        "no page for a browser yet."),
              "## Codes", "", *table(("code", "status", "retryable", "means"), (
                  (f"`{code}`", str(kind.status), "yes" if kind.retryable else "no", kind.title)
                  for code, kind in PROBLEMS.items()))]
    return page("REST paths", *lines)


def _nested(body: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for field in msgspec.structs.fields(body):
        for kind in (field.type, *typing.get_args(field.type)):
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                yield kind


# --- config ---
MEANING = {
    "gateway.host": "a loopback address; any other needs TLS or a trusted proxy, and is refused at the start without",
    "gateway.port": "where it listens; a taken 7420 makes `up` choose a free one, any other port is kept",
    "gateway.hosts": "host names it answers for beside loopback, as a proxy in front sends them",
    "gateway.origins": "origins of other sites whose pages may use it; its own console needs none",
    "gateway.buffer_policy": "what a runner gives up of a session while the link is down and its 64 MiB are full: "
    "`RING` the oldest content, `DROP` the newest; `NONE` keeps none; what is lost is counted and "
    "reported",
    "policy.use": "ready-made rules that come behind those of the file: `readonly`, `edits`, `ci`, `boxed`; "
                  "`interlock policy use` sets it",
    "policy.remember_described": "whether a yes may be remembered for every call of one kind that an agent only "
    "describes, in its session alone",
    "policy.on_unasked": "what becomes of a turn in which an agent that asks used a tool without a yes: `cancel` "
                         "ends it and its command fails, `tell` reports it",
    "policy.rules": "`[[policy.rules]]`, see below",
    "budget.name": "what people are shown; what is used is kept under it",
    "budget.tenant": "the tenant; all of them without",
    "budget.agent": "a glob of agent ids, or several; all of them without",
    "budget.session": "a glob of session keys, or a session's id",
    "budget.each": "who has a pot of a day's money: the tenant, each agent, or each session",
    "budget.tokens_per_turn": "tokens in and out of the model in one turn",
    "budget.usd_per_day": "US dollars of a day of UTC, as a text such as `\"2.50\"`",
    "budget.required": "how many people must let the work continue",
    "budget.groups": "quorums by role, as in a rule of policy",
    "budget.self": "who asked for the work may let it continue",
    "budget.ttl": "how long is waited for an answer: `\"15m\"`, `\"24h\"`; without, `limits.approval_ttl_ms`",
    "limits.timeout_ms": "how long a command may run that says nothing itself; stands still while it waits for a yes",
    "limits.approval_ttl_ms": "how long an approval may be answered; at most 30 days",
    "limits.queue_ttl_ms": "how long a command may wait for its start",
    "limits.pause_ttl_ms": "how long a command may stay paused before it ends as timed out",
    "limits.detach_ttl_ms": "how long a runner may be away before its command fails with AgentLost",
    "runner.roots": "directories that workspaces may lie in; none: where `up` was started",
    "runner.outbox_bytes": "what a session may hold back while the link is down; past it, output is lost and counted",
    "gateway.tls_cert": "PEM file with the certificate and its chain; SIGHUP reads it again",
    "gateway.tls_key": "PEM file with the certificate's key, not encrypted",
    "gateway.behind_proxy": "a TLS proxy is in front: X-Forwarded-For of trusted ones counts, and a public address "
    "may be bound, which then takes clear connections from them alone",
    "gateway.trusted_proxies": "addresses or networks of the proxies; loopback always is one",
    "runner.drain_ms": "after SIGTERM turns that run may end by themselves for so long; no new one begins; 0: they are "
    "cancelled at once, as they are after a second signal",
    "runner.check_agents": "whether the runner checks by itself, in the background, how a known agent asks that was "
                           "never checked or has changed",
    "runner.agent_idle_ms": "an agent without a turn for so long is ended; its session stays",
    "rates.principal_a_minute": "requests of one principal, for long; 0: no limit",
    "rates.principal_burst": "and so many at once",
    "rates.tenant_a_minute": "requests of a tenant, for long; 0: no limit",
    "rates.tenant_burst": "and so many at once",
    "rates.refused_a_minute": "refused credentials of one address (IPv6: one /64); past it a refused one "
    "is answered 429; good credentials of that address are never held up; 0: no limit",
    "rates.principal_streams": "event streams that one principal may have open at a time, on this gateway, be they "
    "server-sent events, subscriptions of a WebSocket or connections of ACP; one more is answered 429; 0: no limit",
    "rates.tenant_streams": "and a tenant",
    "rates.tenant_commands_a_day": "executes of a tenant in a day of UTC; 0: no limit",
    "rates.principal_commands_a_day": "executes of one principal in a day of UTC; 0: no limit",
    "redaction.rules": "`[[redaction.rules]]`, see below",
    "redact.name": "for people; stands in the text where no replacement is given",
    "redact.regex": "RE2's syntax: no look-around and no back-references, and never slow",
    "redact.replacement": "`\\1` is the first group; none: `(redacted: NAME)`",
    "compaction.enabled": "whether conversations are compacted by themselves; `interlock sessions compact` always is",
    "compaction.reserveTokens": "room in the window for the next prompt and answer; at most a quarter of the window",
    "compaction.keepRecentTokens": "the end of the conversation that is never summarised; at most half of what fits",
    "compaction.windows": "`{\"provider/model\" = TOKENS}`: context windows, where the catalog or the agent is wrong",
    "compaction.beforeCompact": "a hook that may cancel a compaction or supply its summary; see below",
    "before.url": "where a signed POST goes before each compaction; https, or a network of `outgoing.allow`",
    "before.secretFile": "file that holds the secret, `whsec_…`; below the state directory unless it is absolute",
    "before.secretEnv": "or the variable of the gateway's environment that holds it",
    "before.timeoutMs": "how long the hook may take",
    "before.required": "whether a hook that does not answer cancels the compaction; else it continues without",
    "agents.defaults.compaction": "see the two tables below",
    "agents.defaults.contextPruning": "old tool results in what is sent to a model; see below",
    "pruning.enabled": "whether old tool results are cut short in requests; the transcript keeps them whole",
    "pruning.softTrimRatio": "over this share of the window long results keep their beginning and end",
    "pruning.hardClearRatio": "over this share the oldest results are cleared, until it is reached",
    "pruning.minPrunableChars": "nothing is done while the results that could be cut have fewer characters",
    "pruning.keepLastAssistants": "what came with the last so many messages of the agent stays",
    "pruning.maxChars": "a result is long from here on",
    "pruning.headChars": "what is kept of its beginning",
    "pruning.tailChars": "and of its end",
    "pruning.placeholder": "what stands for one that was cleared",
    "floor.reserveTokensFloor": "raises `compaction.reserveTokens` to this; 0 disables it",
    "floor.memoryFlush": "the silent turn before a compaction; see below",
    "flush.enabled": "whether the agent is asked to write down what must last before its conversation is compacted",
    "flush.softThresholdTokens": "so many tokens before the compaction",
    "flush.prompt": "what it is sent; `{date}` is the day. A hint at `NO_REPLY` is added where it has none",
    "flush.systemPrompt": "what its instructions say in addition, for this turn",
    "session.dmScope": "how far direct messages are kept apart: all in the agent's main session, or one for each peer",
    "session.identityLinks": "people by name, each with their `channel:peer`: one session for all of them",
    "session.reset": "when a key begins a new session; see below",
    "session.resetByType": "what differs in threads, groups and direct chats, field by field",
    "session.resetByChannel": "what holds in a channel, in place of all the rest",
    "session.idleMinutes": "the old name of `session.reset.idleMinutes`; alone it means mode `idle`",
    "session.timeZone": "where the daily hour is meant, such as `Europe/Berlin`; left out, the host's own",
    "session.defaultAgent": "who answers where no binding fits; left out, the config's only agent, else `shell`",
    "session.workspace": "where sessions of chats work, absolute on the runner; left out, its first root",
    "session.models": "what `/new MODEL` may name, beside `provider/model`",
    "session.sendPolicy": "which chats are answered; see below",
    "binding.agent": "who answers",
    "binding.channel": "of this channel",
    "binding.account_id": "that came in over this account of ours",
    "binding.team_id": "of this team",
    "binding.guild_id": "of this guild",
    "binding.group_id": "of this group, room or channel",
    "binding.parent_peer": "in a thread below this peer",
    "binding.peer": "with this peer",
    "reset.mode": "`daily` at the hour, and when idle too if `idleMinutes` says so; `idle`; or `none`",
    "reset.atHour": "the hour of the daily reset, local time; 4 where nothing is said",
    "reset.idleMinutes": "how long nothing was sent; 60 in mode `idle` where nothing is said",
    "send.default": "what holds where no rule fits and the session says nothing itself",
    "send.rules": "`action` allow or deny, and for what: `channel`, `chatType`, `keyPrefix`; the first one decides",
    "outgoing.allow": "networks inside that the gateway itself may ask, in clear too: an issuer or a webhook of the "
    "house; all else is asked over https at public addresses alone",
    "audit.s3_bucket": "a bucket with Object Lock; each signed checkpoint goes there too, and cannot be removed there",
    "audit.s3_prefix": "what its objects' names begin with",
    "audit.s3_endpoint": "the store's URL, where it is not AWS",
    "audit.s3_region": "its region; credentials are those of the environment, as for every S3 program",
    "objects.s3_bucket": "a bucket for files and large tool results; without it they lie in the state directory",
    "objects.s3_prefix": "what its objects' names begin with",
    "objects.s3_endpoint": "the store's URL, where it is not AWS",
    "objects.s3_region": "its region; credentials are those of the environment, as for every S3 program",
    "audit.lock_days": "days for which the store refuses to delete or overwrite a checkpoint",
    "cluster.store": "address of the PostgreSQL database that several gateways share, `postgresql://…`; a password is "
    "better kept in libpq's password file. Without it the ledger is a file of the state directory",
    "cluster.bus": "addresses of the NATS servers that they share, `nats://…`, with commas between them",
    "retention.days": "frames, events and files are forgotten so long after a session's last turn; transcripts and the "
    "audit log never; 0: nothing is",
    "metrics.open_to": "networks that read `/metrics` without a credential; all others need a key of the tenant "
    "`default` whose role is operator, auditor, admin or owner",
    "webhooks.url": "where a signed POST goes for each approval that waits; https, or a network of `outgoing.allow`",
    "webhooks.tenant": "whose approvals",
    "webhooks.secret_file": "file that holds the secret, `whsec_…`; below the state directory unless it is absolute",
    "webhooks.secret_env": "or the variable of the gateway's environment that holds it",
    "push.contact": "an address of yours, `mailto:` or `https:`, that each push service is sent: they ask for one",
    "push.details": "whether the notice holds agent, host, directory, person and the redacted request; without it, "
                    "only that an approval waits",
    "ntfy.url": "the topic's URL, such as `https://ntfy.sh/TOPIC`; https, or a network of `outgoing.allow`",
    "ntfy.tenant": "whose approvals",
    "ntfy.details": "whether the notice holds agent, host, directory, person and the redacted request; without it, "
                    "only that an approval waits",
    "ntfy.token_file": "file that holds the access token, if the topic needs one; below the state directory unless it "
                       "is absolute",
    "ntfy.token_env": "or the variable of the gateway's environment that holds it",
    "ntfy.priority": "ntfy's priority, from 1 (min) to 5 (max)",
    "slack.bot_token_file": "file that holds the bot's token, `xoxb-…`; below the state directory unless it is "
                            "absolute",
    "slack.bot_token_env": "or the variable of the environment that holds it",
    "slack.app_token_file": "file that holds the app-level token for Socket Mode, `xapp-…`",
    "slack.app_token_env": "or the variable of the environment that holds it",
    "slack.api_url": "the Web API's URL",
    "slack.ask": "channels or members whose chats show approvals; without it each of `people` in their own",
    "slack.people": "who may write and decide, by Slack member ID; keys as for `[telegram.people.ID]`",
    "apprise.tenant": "whose approvals",
    "apprise.details": "as for ntfy",
    "apprise.url_file": "file that holds one Apprise URL, with the service's secrets; below the state directory unless "
                        "it is absolute",
    "apprise.url_env": "or the variable of the gateway's environment that holds it",
    "telegram.token_file": "file that holds the bot's token; below the state directory unless it is absolute",
    "telegram.token_env": "or the variable of the environment that holds it",
    "telegram.api_url": "the Bot API's URL, where it is a server of one's own",
    "telegram.groups": "in groups the bot hears what names it or replies to it, or `all` that known people say",
    "telegram.ask": "chats in which approvals are asked; without it each of `people` is asked in their own",
    "telegram.people": "who may write and decide, by Telegram id; see below",
    "person.key_file": "file with the key that what this person says and votes goes out under",
    "person.key_env": "or the variable of the environment that holds it",
    "person.owner": "or the owner key of this state directory",
    "oidc.issuer": "the issuer's URL, exactly as its tokens name it in `iss`; its keys are found by discovery",
    "oidc.audience": "`aud` must name one of these",
    "oidc.tenant": "the tenant of all its tokens; or else `tenant_claim`",
    "oidc.tenant_claim": "the claim that names the tenant; `a.b` is a claim inside another",
    "oidc.tenants": "the tenants that this issuer may name in its claim",
    "oidc.person_claim": "the claim that says who: the person is `NAME:VALUE` in votes and audit",
    "oidc.roles_claim": "the claim with the roles: a list, or words apart",
    "oidc.roles": "what each of those words is here: viewer, operator, approver, auditor or admin; others give nothing",
    "oidc.default_roles": "what every token of this issuer gives",
    "oidc.algorithms": "what a token may be signed with; public keys alone",
    "oidc.types": "what `typ` may say; one without is refused",
    "oidc.leeway_ms": "by how much the clocks of issuer and gateway may differ",
    "oidc.login_client": "the public client of `interlock login`, to which the issuer allows the device grant",
    "oidc.login_scopes": "what that client asks for; `offline_access` has most issuers give a refresh token",
    "agents": "`[agents.ID]`, see below",
    "hooks.agent": "the agent that receives it; without it `session.defaultAgent`",
    "hooks.key": "the session key; without it each delivery has a session of its own",
    "hooks.workspace": "absolute on the runner",
    "hooks.tenant": "whose it is",
    "cron.agent": "the agent that receives it; without it `session.defaultAgent`",
    "cron.key": "the session key; without it the job's own, `agent:AGENT:cron:ID`",
    "cron.workspace": "absolute on the runner",
    "cron.tenant": "whose it is",
    "hooks.auth": "`hmac`: HMAC-SHA256 of the raw body; `standard`: Standard Webhooks; `token`: the secret itself",
    "hooks.secret_file": "the file that holds the secret, in the state directory unless absolute",
    "hooks.secret_env": "the variable of the gateway's environment that holds it",
    "hooks.signature_header": "where `hmac` is shown, in hex or base64, with or without `sha256=`",
    "hooks.token_header": "where `token` is shown; without it `Authorization: Bearer`",
    "hooks.delivery_header": "what the sender numbers its deliveries with; without it a body counts once in ten "
    "minutes",
    "hooks.message": "what the agent is sent: `{name}`, `{delivery}`, `{body}`, and `{/a/b}` for a value in JSON",
    "cron.schedule": "minute, hour, day, month, weekday",
    "cron.message": "what the agent is sent",
    "cron.time_zone": "where the schedule is meant; without it `session.timeZone`, else the host's own",
    "cron.enabled": "false keeps it from being sent",
    "rule.name": "shown to everyone who is asked, and written into the audit log",
    "rule.effect": "what happens when every match field that is set holds",
    "rule.tenant": "the tenant; all of them without",
    "rule.door": "`command`: before an agent starts; `tool`: inside its turn",
    "rule.type": "the command's type: `execute`, or one that is answered at once: `pause`, `resume`, `close`, "
    "`compact`, `reset`, `patch`, `archive`, `restore`, `release`, `drain`, `undrain`, `label`, "
    "`branch`, `fork`, `import`, `repair`; left out, an execute alone is concerned. `ask` answers those with "
    "ApprovalRequired, and they go through once it is granted. A `cancel` never is",
    "rule.agent": "glob over the agent's id",
    "rule.origin": "who gave the command",
    "rule.tool": "glob over the tool's name, as the agent gives it",
    "rule.kind": "glob over the agent's own word for what the tool does: read, edit, execute, …",
    "rule.runner": "the runner's name",
    "rule.workspace": "the session's workspace, a directory as its runner names it",
    "rule.person": "whose session it is: `user:ann`, or the person who drives the agent that asked",
    "rule.words": "a program and its words, such as `git status **`: `*` is part of a word, `**` at the end any number "
                  "of plain arguments",
    "rule.command": "regular expression of RE2 for one simple command, or for the whole line with its operators "
                    "written out; in an allow rule no repeated dot or class may match an operator",
    "rule.command_line": "the whole line itself, letter by letter",
    "rule.shell": "operators that may stand between the commands of an allow rule: `pipe`, `and`, `or`, `sequence`",
    "rule.url": "glob over the URLs in the tool's input and its commands",
    "rule.described": "whether the agent only describes the call and does not send its input; no allow rule about the "
                      "input covers such a call",
    "rule.box": "`true` for an agent whose box limits its writes and its network, `false` for every other one; or a "
                "list of parts that its box must have: `walls`, `writes`, `network`, `programs`, `staged`",
    "rule.workspace_files": "globs of files that configure an agent, as the approval shows their paths; with `door = "
                            "\"workspace\"` alone. An allow rule must fit every file",
    "rule.until": "the moment from which the rule no longer holds, such as `2026-12-24T18:00:00Z`",
    "rule.session": "a session's id",
    "rule.digest": "the SHA-256 of the input's bytes, hex, as an approval shows it",
    "rule.path": "glob over the paths in the tool's input, below the workspace as named from there, else absolute; "
                 "one that begins in the workspace allows nothing outside it",
    "rule.permission": "whether the agent asks before its tools, or never",
    "rule.cost_over": "matches once the session has cost more than this many USD, as far as its agent tells",
    "rule.hours": "\"09:00-18:00\"; a span may go over midnight",
    "rule.zone": "the time zone of `hours`",
    "rule.signed": "count only votes that are signed with a registered key",
    "rule.require_independent": "count no vote that the asker could have cast, and no two that one person could have: "
                                "with their own key, or one that they made",
    "rule.below": "a program of a boxed agent that is allowed may start whatever it wants (`hold = \"programs\"`)",
    "rule.dangerous": "with `effect = \"ask\"`: people decide on the whole card each time, so a chat shows a link "
                      "instead of buttons, and no \"always\" passes it",
    "rule.required": "how many different people must say yes",
    "rule.groups": "roles of which at least `min` must say yes, all of them needed",
    "rule.deny_threshold": "how many must say no",
    "rule.ttl": "how long an approval of this rule may be answered: \"90s\", \"15m\", \"24h\", \"2d\"",
    "rule.reason": "sent with a denial",
    "rule.self": "whether the yes of the person who gave the command counts",
    "agent.adapter": "`acp`: an Agent Client Protocol agent; `exec`: any program, one process a turn",
    "agent.command": "the program, by path or found on PATH",
    "agent.args": "its arguments; `{prompt}` is replaced by the prompt (`exec`), else the prompt is the last one; an "
                  "argument that begins with a prompt `-…` gets a space before it, so that it is not an option",
    "agent.env": "variables it gets beside the allow-list; names with KEY, TOKEN, SECRET … are not shown",
    "agent.env_pass": "credentials of the runner's own environment that it gets as well, by name; other variables go "
                      "into `env`",
    "agent.roots": "directories this agent may work in, in place of the runner's",
    "agent.trusted_kinds": "believe its word that a tool only reads, and allow those without asking",
    "agent.name": "a name for people",
    "agent.asks": "whether the agent asks before its tools; with `false` the whole command is held",
    "agent.evidence": "`declared`: an `acp` agent is believed to ask until `interlock agents check` has seen "
                      "otherwise; `required`: its whole command is held until a check has seen it ask",
    "agent.mode": "the mode that an `acp` agent is put into when it opens, in place of its own",
    "agent.workspace_files": "files of a workspace that configure the agent: `ignore` has it ignore them if it can be "
                             "made to, and else asks before it starts; `ask` has it read them after a yes; `trust` "
                             "asks no one",
    "agent.modes": "modes that `--mode` may choose although they are not known to ask before each tool; in one of them "
                   "a command waits for an approval as a whole",
    "agent.asking_modes": "ids of modes in which the agent asks before each tool, beside those that Interlock knows of "
                          "it; `interlock agents check` adds the one that it saw asking",
    "agent.model": "`provider/model` that a `builtin` agent asks; else one of the first provider whose key is there",
    "agent.base_url": "where that provider's API is: any OpenAI-compatible server, under a name of your own",
    "agent.api_key_env": "the variable of the runner's environment, or of `env`, that holds the API key",
    "agent.box": "the walls around its processes, a table of its own: see `[agents.ID.box]` below",
    "agent.mcp": "MCP servers that an agent of the adapter `acp` or `claude`, or codex by `exec`, gets, tables of "
                 "their own: see `[agents.ID.mcp.NAME]` below",
    "mcp.command": "a program that speaks MCP on standard input and output: an absolute path, or a name on PATH",
    "mcp.args": "its arguments",
    "mcp.env": "variables that it gets; names with KEY, TOKEN, SECRET … are not shown",
    "mcp.env_pass": "credentials of the runner's own environment that it gets as well, by name",
    "mcp.url": "in place of a program: the address of a server that speaks MCP over HTTP",
    "mcp.headers": "headers of its requests",
    "mcp.header_env": "by header the variable of the runner's environment that holds its value, as "
                      "`Authorization = \"DOCS_TOKEN\"`",
    "box.walls": "`best`: what the host has, `namespace` before `landlock`; `none` hides nothing at all",
    "box.hide": "files and directories that it can neither read nor change, absolute or from `~/`; the state directory "
                "always is among them",
    "box.write": "with it, it changes nothing but its workspace, temporary files and these; without it, whatever the "
                 "runner's user may",
    "box.on_unavailable": "what happens on a host without walls: `refuse` to start it, or `start` it without",
    "box.hold": "with `programs` each program that its processes start waits for policy or a person",
    "box.between_turns": "with held programs: beginnings of command lines that start without a question while the "
                         "agent works on no command, as when a session opens",
    "box.sockets": "sockets of other programs that stay open to it, of `ssh-agent`, `gpg-agent`, `docker`, `dbus`, "
                   "`tmux`; in a mount namespace all others of these are hidden",
    "box.changes": "`staged`: what it writes in its workspace lands there only after a yes",
    "box.network": "`all`: the host's; `none`: one of its own with loopback alone; `model`: that, and a proxy to its "
                   "model's hosts; or a list of hosts and ports that the proxy leads to",
    "agent.context_window": "tokens that the model takes, where its provider's catalog does not know it; 0 asks that",
}


def config_page() -> str:
    """Write config.md; a key without a meaning above is an error."""
    lines = paragraph(
        "`interlock config path` says where the file lies, `check` what is wrong with it, `show` what is in force.",
        "A missing file is all defaults; an unknown key is an error. `interlock config reload`, or SIGHUP to `up`,",
        "to the gateway and to the runner, reads again: the gateway `[policy]`,",
        "`[[budgets]]`, `[limits]`, `[session]`, `[compaction]`, `[agents.defaults]`, `[[bindings]]`, `[hooks]`,",
        "`[cron]`, `[oidc]`, `[rates]`,",
        "`[redaction]`, `[webhooks]`, `[ntfy]`, `[apprise]`, `[push]`, the TLS certificate and",
        "`[outgoing]` for what asks then again; the runner",
        "`[agents.ID]` and `runner.roots`, which its gateways receive in another hello. Everything else needs `up`",
        "to start again. A file with an error changes nothing, and the verb and both logs say what is wrong.")
    for section in msgspec.structs.fields(config.Config):
        if section.name in ("policy", "budgets", "agents", "oidc", "redaction", "webhooks", "ntfy", "apprise",
                            "push", "bindings", "telegram", "slack", "hooks", "cron", "defaults"):
            continue
        lines += [f"## [{section.name}]", "", *_keys(section.name, typing.cast("type", section.type)), ""]
    from interlock.box.spec import BoxSpec
    from interlock.command.policy.budget import BudgetRule
    from interlock.command.policy.policy import Rule
    from interlock.config.chats import SendPolicySection
    from interlock.config.contexts import (
        AgentCompactionSection,
        BeforeCompactSection,
        ContextPruningSection,
        DefaultsSection,
        MemoryFlushSection,
    )
    from interlock.ports.mcp_spec import McpSpec
    from interlock.session.chat.chat_route import Binding
    from interlock.session.chat.resets import ResetRule

    lines += ["## [[policy.rules]]", "", *paragraph(
        "The first rule that matches decides: shipped denials, then denials and quorums (`required` above 1), then",
        "what people said always or never to, then the rest, then the shipped default. A list of texts holds when one",
        "of them does. An allow rule about the input covers all of it, a denial needs one part.",
        "[By example](../how-to/policies.md)."),
              *_keys("policy", config.PolicySection), "", *_keys("rule", Rule), "", "## [[budgets]]", "", *paragraph(
        "At its limit a session pauses and asks whether to continue. [How to set them](../how-to/budgets.md)."),
              *_keys("budget", BudgetRule), "", "## [[redaction.rules]]", "", *paragraph(
        "Applied in order to the texts of what leaves for logs, webhooks and exports of conversations, never to ids;",
        "credentials are kept out without any rule."),
              *_keys("redact", config.RedactionRule), "", "## [oidc.NAME]", "", *paragraph(
        "[How to connect an issuer](../how-to/oidc.md)."), *_keys("oidc", config.OidcSection), "",
              "## [webhooks.NAME]", "", *paragraph(
        "Where approvers are asked, signed as [Standard Webhooks](https://www.standardwebhooks.com) says. "
        "[How to notify people](../how-to/notifications.md)."), *_keys("webhooks", config.WebhookSection), "",
              "## [ntfy.NAME]", "", *paragraph(
        "Where approvers are notified on their phones. [How to connect a topic](../how-to/ntfy.md)."),
              *_keys("ntfy", config.NtfySection), "",
              "## [apprise.NAME]", "", *paragraph(
        "Where approvers are notified through a service that [Apprise](https://github.com/caronc/apprise) reaches;",
        "needs the extra `apprise`. [How to connect one](../how-to/ntfy.md#any-other-service-by-apprise)."),
              *_keys("apprise", config.AppriseSection), "",
              "## [push]", "", *paragraph(
        "Approvers are notified in the browsers where they turned it on, through the push services of these. "
        "[How to approve from a phone](../how-to/phone.md)."),
              *_keys("push", config.PushSection), "",
              "## [telegram]", "", *paragraph("[How to connect a bot](../how-to/telegram.md)."),
              *_keys("telegram", config.TelegramSection), "", "## [telegram.people.ID]", "",
              *_keys("person", config.PersonSection), "",
              "## [slack]", "", *paragraph("[How to connect an app](../how-to/slack.md)."),
              *_keys("slack", config.SlackSection), "",
              "## [[bindings]]", "", *paragraph(
        "Which agent answers a chat: the most specific binding that fits (peer, parent peer, group or guild, team, "
        "account, channel), else `session.defaultAgent`. [By example](../how-to/sessions.md)."),
              *_keys("binding", Binding), "", "## session.reset", "", *paragraph(
        "The same keys stand in `session.resetByType.thread`, `.group` and `.direct`, and in "
        "`session.resetByChannel.CHANNEL`."), *_keys("reset", ResetRule), "",
              "## session.sendPolicy", "", *_keys("send", SendPolicySection), "",
              "## compaction.beforeCompact", "", *paragraph(
        "[What it is asked and may answer](../how-to/compaction.md)."), *_keys("before", BeforeCompactSection), "",
              "## [agents.defaults]", "", *_keys("agents.defaults", DefaultsSection), "",
              "## [agents.defaults.compaction]", "", *_keys("floor", AgentCompactionSection), "",
              "## [agents.defaults.compaction.memoryFlush]", "", *_keys("flush", MemoryFlushSection), "",
              "## [agents.defaults.contextPruning]", "", *_keys("pruning", ContextPruningSection), "",
              "## [hooks.NAME]", "", *paragraph(
        "What another program may say at `POST /v1/hooks/NAME`. [How to use them](../how-to/sessions.md)."),
              *_keys("hooks", config.HookSection), "", "## [cron.ID]", "", *paragraph(
        "What is sent to an agent again and again. [How to use them](../how-to/sessions.md)."),
              *_keys("cron", config.CronSection), "",
              "## [agents.ID]", "", *paragraph(
        "[How to connect one](../how-to/agents.md). `shell` and `builtin` are there, unless the file names others."),
              *_keys("agent", config.AgentSpec), "", "## [agents.ID.box]", "", *paragraph(
        "Walls of the kernel around one agent. Without this section the state directory is hidden from it wherever the",
        "host can do that. [How to box an agent](../how-to/box-an-agent.md)."),
              *_keys("box", BoxSpec), "", "## [agents.ID.mcp.NAME]", "", *paragraph(
                  "An MCP server that the agent gets in each conversation, by the name NAME.",
                  "[How to give an agent MCP servers](../how-to/agents.md#mcp-servers)."),
              *_keys("mcp", McpSpec)]
    return page("The config file", *lines)


def _keys(prefix: str, kind: type) -> Iterator[str]:
    return table(("key", "type", "default", "what it does"), (
        (f"`{field.encode_name}`", _type(field.type), _default(field), MEANING[f"{prefix}.{field.encode_name}"])
        for field in msgspec.structs.fields(kind)))


# --- frames ---
def frames() -> str:
    """Write frames.md."""
    ways = {Direction.C: "runner → gateway", Direction.M: "gateway → runner", Direction.BOTH: "both"}
    lines = [*paragraph(
        "The link between gateway and runner: one JSON object a WebSocket message, `{type, payload, message_id,",
        "session_id, seq, timestamp, metadata}`. *Durable* frames carry a `seq` and wait in an outbox until they are",
        "acknowledged; *transient* ones are deltas that the following durable frame repeats whole; *link* frames",
        "belong to one connection. An unknown type is durable, and is kept."),
             *table(("type", "direction", "class", "payload"), (
                 (f"`{row.name}`", ways[row.direction], row.frame_class.value, _fields(row.payload))
                 for row in FRAMES.values())),
             "", *paragraph(
        "A field with `?` may be absent."),
             "## Codes of the link", "", *table(("code", "means", "who can mend it"), (
                 (f"`{code}`", meaning.sentence, meaning.fault.value) for code, meaning in MEANINGS.items()))]
    return page("Frames", *lines)


# --- the protocol ---
MARKS = {
    Origin.S: "the published seed documents of RAWP-DPS",
    Origin.R: "other public pages of the same specification",
    Origin.P: "Interlock's own profile, where the published text is silent or could not be found; not RAWP",
}


def protocol() -> str:
    """Write protocol.md."""
    lines = paragraph(
        f"Gateway and runner speak RAWP-DPS (`{DPS_VERSION}`) with a profile of Interlock's own. This page tells the",
        "two apart, word by word. A mark stands with every name; a payload's field that is not listed under",
        "*published* is of our profile, also in a frame whose name is published. The fields themselves are in",
        "[Frames](frames.md); for other programs there is a [JSON Schema](../../spec/rawp.schema.json) and an",
        "[AsyncAPI document](../../spec/asyncapi.json). `interlock conformance` checks an implementation.")
    lines += [*table(("mark", "from"), ((origin.value, text) for origin, text in MARKS.items())), "",
              "## Envelope", "",
              *table(("field", "mark"), ((f"`{field}`", origin.value) for field, origin in ENVELOPE.items())), "",
              "## Frames", "", *paragraph(
        "*needs*: the feature that an agent, or a runner, must offer in `session.capabilities` before the frame is",
        "obeyed. Without it the answer is `session.error` with `UNSUPPORTED_CAPABILITY`, and nothing else changes."),
              *table(("type", "mark", "direction", "class", "needs", "published fields", "fields of our profile"),
                     map(_row, FRAMES.values())), ""]
    moves = ((phase, kind, to) for phase, after in turn.MOVES.items() for kind, to in after.items())
    lines += ["## A session", "", *paragraph(
        "Which durable frame of a runner may come when, from the table that gateway and runner both obey. What is",
        "not drawn is refused with `UNKNOWN_TURN` or `PROMPT_IN_PROGRESS`, recorded, and changes nothing. In every",
        "phase these may come and move none:", ", ".join(f"`{name}`" for name in sorted(turn.NEUTRAL)),
        "(but capabilities open a closed session). `usage` is the phase in which a turn owes its usage."),
              *_diagram("closed", _joined(moves)), ""]
    steps = ((state, "", to) for state, after in machine.MOVES.items() for to in sorted(after))
    lines += ["## A command", "", *paragraph(
        "A command (given over REST or the command line) becomes a prompt in a session; these are its states. It",
        "begins as", " or ".join(f"`{state}`" for state in sorted(machine.INITIAL)) + "."),
              *_diagram("", [*(("[*]", "", state) for state in sorted(machine.INITIAL)), *steps,
                             *((state, "", "[*]") for state in machine.STATES if state in machine.TERMINAL)])]
    return page("The protocol", *lines)


def _row(row: FrameType) -> tuple[str, ...]:
    ways = {Direction.C: "runner → gateway", Direction.M: "gateway → runner", Direction.BOTH: "both"}
    published = ", ".join(f"`{field}` {origin.value}" for field, origin in row.published.items())
    ours = ", ".join(f"`{field.encode_name}`" for field in msgspec.structs.fields(row.payload)
                     if field.encode_name not in row.published)
    return (f"`{row.name}`", row.origin.value, ways[row.direction], row.frame_class.value,
            ", ".join(f"`{one}`" for one in sorted(row.features)), published, ours)


def _joined(moves: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """One arrow for all that leads from one phase to the same other."""
    by_ends: dict[tuple[str, str], list[str]] = {}
    for before, kind, after in moves:
        by_ends.setdefault((before, after), []).append(kind)
    return [(before, "<br>".join(kinds), after) for (before, after), kinds in by_ends.items()]


def _diagram(first: str, arrows: Iterable[tuple[str, str, str]]) -> list[str]:
    begin = [f"    [*] --> {first}"] if first else []
    return ["```mermaid", "stateDiagram-v2", *begin, *(
        f"    {before} --> {after}" + (f" : {label}" if label else "") for before, label, after in arrows), "```"]


def _fields(payload: type[msgspec.Struct]) -> str:
    return ", ".join(f"`{field.encode_name}{'' if field.required else '?'}`"
                     for field in msgspec.structs.fields(payload)) or "nothing"


# --- the Python library ---
def sdk() -> str:
    """Write sdk.md."""
    lines = paragraph(
        "`interlock.sdk` holds `Interlock`, which blocks, and `AsyncInterlock`, whose methods are awaited and whose",
        "streams are read with `async for`. Both have these rooms and methods; the arguments and the types of the",
        "answers are the same. Every change takes `idempotency_key` too, and makes one where none is given; the key",
        "stays the same however often the request must be sent. [Tutorial](../sdk-tutorial.md).")
    for name, room in {**resources.RESOURCES, "": resources.GatewayMethods}.items():
        path = f"gateway.{name}" if name else "gateway"
        rows = [(f"`{path}.{method}({_arguments(verb.ask)})`", _given(verb), _first(verb.ask))
                for method, verb in vars(room).items() if hasattr(verb, "ask")]
        if room is resources.CommandMethods:
            rows.append((f"`{path}.wait(command_id, within_s)`", "Command", _first(pages.wait)))
        lines += [f"## {name.capitalize() or 'Gateway'}", "", _first(room), "",
                  *table(("method", "returns", "what it does"), rows), ""]
    lines += ["## A prompt as parts", "", *paragraph(
        "`gateway.stream(prompt, on_approval=…, **target)` submits a prompt, with the arguments of `commands.submit`,",
        "and yields its parts until it has ended, `Lost` and `Reattached` among them."),
              *table(("part", "attributes", "what it is"), (
                  (f"`{one.__name__}`", ", ".join(f"`{field.name}`" for field in fields(one)), _first(one))
                  for one in PARTS)), ""]
    watched = [method for name, method in vars(Watched).items() if name in ("command", "session", "events", "drop")]
    lines += ["## Watching many streams", "", *paragraph(
        "`gateway.watch()` follows any number of streams over one WebSocket. Say what to follow, before or inside the",
        "loop over it; the loop ends when every stream has. It yields `StreamEvent` with the `ref` of its stream,",
        "`StreamEnd` for a stream that has ended or, with `error`, could not begin, and `Lost` and `Reattached` for "
        "the connection."),
              *table(("method", "what it does"), (
                  (f"`watch.{one.__name__}({_arguments(one).removeprefix('self, ')})`", _first(one))
                  for one in watched)), ""]
    lines += ["## Exceptions", "", *paragraph(
        "`InterlockError` is the root. `Unreachable`: no answer came. `NotAGateway`: what answered is none.",
        "`StillRunning`: a wait ran out. `Refused`: the gateway said no, with `problem`, `status`, `detail`, `hint`,",
        "`retryable`, `errors` and `retry_after_s`; each code has a class of its own in `interlock.sdk.problems`:",
        ", ".join(f"`{code}`" for code in problems.BY_CODE) + ". [Each by its code](../how-to/errors.md).")]
    lines += ["## What is sent again", "", *paragraph(
        "A read, or a change under its key, whose connection was lost; and what was answered",
        ", ".join(f"`{code}`" for code in sorted(RETRYABLE_CODES)) + f", after `Retry-After` (up to "
        f"{RETRY_AFTER_MAX_S:.0f} s). At most {ATTEMPTS} times, with growing pauses up to {PAUSE_MAX_S:.0f} s. Pairing",
        "a runner is sent once. Streams continue after their last durable event, for as long as a gateway is away, up",
        f"to {STREAM_GIVE_UP_S:.0f} s, and say `Lost` and `Reattached`.")]
    return page("The Python library", *lines[:-1])


def _arguments(ask: Callable[..., Any]) -> str:
    found = inspect.signature(ask).parameters.values()
    return ", ".join(f"**{one.name}" if one.kind is one.VAR_KEYWORD else one.name
                     for one in found if one.name != "idempotency_key")


def _given(verb: Any) -> str:
    told = str(inspect.signature(verb.ask).return_annotation)
    kind = told.partition("[")[2].rpartition("]")[0].replace("dict[str, Any]", "dict")
    if isinstance(verb, Every):
        return f"the items of every {kind}, one by one"
    if isinstance(verb, Pieces):
        return "bytes, piece by piece"
    return f"a stream of {kind}" if isinstance(verb, EventMethod) else kind


# --- types ---
def _type(kind: Any) -> str:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return ", ".join((_type(arguments[0]), *(found for one in arguments[1:] if (found := _bounds(one)))))
    if origin is typing.Literal:
        return " \\| ".join(f'"{one}"' for one in arguments).replace("\\|", "|")
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type(one) for one in arguments if one not in (type(None), msgspec.UnsetType))
    if origin is list:
        return f"list of {_type(arguments[0])}"
    if origin is tuple:
        return _type(arguments[0])
    if origin is dict:
        return f"table of {_type(arguments[1])}"
    if kind is msgspec.Raw:
        return "any JSON"
    return {"str": "text", "int": "number", "float": "number", "Any": "any"}.get(
        getattr(kind, "__name__", ""), getattr(kind, "__name__", str(kind)))


def _bounds(meta: Any) -> str:
    """Say what a msgspec.Meta allows."""
    low = getattr(meta, "ge", None)
    high = getattr(meta, "le", None)
    if low is not None and high is not None:
        return f"{low} to {high}"
    return f"from {low}" if low is not None else f"up to {high}" if high is not None else ""


def _default(field: Any) -> str:
    if field.required:
        return "needed"
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    if value is None or value is msgspec.UNSET:
        return ""
    return f"`{msgspec.json.encode(value).decode()}`"


def _first(thing: object) -> str:
    return inspect.cleandoc(thing.__doc__ or "").partition("\n\n")[0].replace("\n", " ")


PAGES: dict[str, Callable[[], str]] = {"cli.md": cli, "rest.md": rest, "sdk.md": sdk, "config.md": config_page,
                                   "frames.md": frames, "protocol.md": protocol}


def main() -> None:
    """Write every page."""
    for name, make in PAGES.items():
        (HERE / name).write_text(make(), "utf-8")


if __name__ == "__main__":
    main()
