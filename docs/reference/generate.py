"""Writes the pages of `docs/reference/` from the program itself: verbs, exit statuses, REST paths, config, frames.

`python docs/reference/generate.py` writes them all; a test asserts that the pages equal this output.
"""

from __future__ import annotations

import functools
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
        """The text in the table."""
        bare = self.kind == "bool" or not self.names[0].startswith("-")
        choices = re.findall(r'"([^"]*)"', self.kind)
        value = "" if bare else " " + ("/".join(choices) if choices else self.kind.rpartition(" ")[2].upper())
        return ", ".join(f"`{name}{value}`" for name in self.names)


def every_verb() -> Iterator[tuple[str, verbs.CliVerb]]:
    """Yield each verb with the words that name it."""
    for verb in (*verbs.DAILY_VERBS, *verbs.THING_VERBS, *verbs.SETUP_VERBS):
        yield verb.name, verb
    for itself, _, _ in verbs.GROUPED:
        yield itself.name, itself
    for group, members in (*((itself.name, below) for itself, below, _ in verbs.GROUPED),
                           ("audit", verbs.AUDIT_VERBS), ("config", verbs.CONFIG_VERBS),
                           ("completion", verbs.COMPLETION_VERBS)):
        for verb in members:
            yield f"{group} {verb.name}", verb


@functools.cache
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
        "Examples and options of each verb, as `interlock VERB --help` shows them. The result is written to standard",
        "output, and progress, hints and errors to standard error. `--json` prints one document; ignore fields that",
        "you do not know. Ids may be shortened to a unique prefix, and `@last` names the newest.")
    for words, verb in every_verb():
        lines += [f"## interlock {words}", "", verb.line, "", "```", *verb.examples, "```", ""]
        found = options(words)
        if found:
            lines += [*table(("argument", "what it does"), ((one.written, one.help) for one in found)), ""]
    lines += ["## Variables", "", *table(("variable", "what it does"), (
        ("`INTERLOCK_STATE`", "the state directory, if `--state` is not set"),
        ("`INTERLOCK_URL`", "the gateway's URL, if `--url` is not set"),
        ("`INTERLOCK_KEY`", "the key, instead of `owner.key` in the state directory"),
        ("`INTERLOCK_DEBUG`", "with any value, an error shows its traceback"),
        ("`INTERLOCK_BELL`", "`off`: no bell and no desktop notice when something waits for your answer"),
        ("`NO_COLOR`", "with any value, no colour, and an agent's text unchanged"),
    )), "", "## Exit statuses", "", *table(("status", "meaning", "set by"), (
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
        "Every path is served under `/v1`, and without it too. Always send `Authorization: Bearer KEY`; every POST",
        "needs `Idempotency-Key` (8 to 255 visible ASCII characters). `GET /healthz` and `GET /readyz` need no",
        "key, nor does `POST /v1/runners/pair`, whose code is the credential. Bodies are JSON in UTF-8, and an",
        "unknown field is refused; the gateway sets a command's `id`, `created_at`, `tenant_id` and `actor`: in a body",
        "they are ignored, and the response header `Interlock-Ignored-Fields` names them. An integer may be",
        "written `1.0`. Errors are `application/problem+json`:",
        "[each by its code](../how-to/errors.md). Every operation, with all its responses and codes, is in the",
        "[OpenAPI document](../../spec/openapi.json), which a gateway serves at",
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
    lines += [*table(("operation", "query", "body", "roles", "responses"), rows), ""]
    bodies |= {kind.__name__: kind for body in list(bodies.values()) for kind in _nested(body)}
    for name, body in bodies.items():
        fields = ((f"`{field.encode_name}`", _type(field.type), _default(field))
                  for field in msgspec.structs.fields(body))
        lines += [f"## {name}", "", _first(body), "", *table(("field", "type", "default"), fields), ""]
    lines += ["## Streams", "", *paragraph(
        "`since` is an opaque cursor, exclusive; without it a stream is read from its start. With `Accept:",
        "text/event-stream` the same path stays open; an SSE `id` is the cursor, and `Last-Event-ID` takes precedence",
        "over `since`. `wait` (seconds, at most 30) holds a poll open until an event arrives. A command's stream ends",
        "after the `state` event with a terminal state; a reconnect past its end is answered with 204."), *paragraph(
        "The WebSocket `/v1/stream` carries many streams over one connection; the OpenAPI document describes it."),
              "## Codes", "", *table(("code", "status", "retryable", "meaning"), (
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
    "gateway.host": "a loopback address; any other needs TLS or a trusted proxy, otherwise the gateway does not start",
    "gateway.port": "the port that it listens on; if 7420 is taken, `up` chooses a free one; any other port is kept",
    "gateway.hosts": "host names that it accepts beside loopback, as a proxy in front sends them",
    "gateway.origins": "origins of other sites whose pages may use it; its own console needs none",
    "gateway.buffer_policy": "which content of a session a runner drops while the link is down and its 64 MiB are "
    "full: `RING` the oldest, `DROP` the newest; `NONE` keeps none; losses are counted and reported",
    "policy.use": "presets whose rules follow those of the file: `readonly`, `edits`, `ci`, `boxed`; `interlock "
    "policy use` sets it",
    "policy.remember_described": "whether a yes may be remembered for every call of one kind that an agent only "
    "describes, in its session alone",
    "policy.on_unasked": "the effect on a turn in which an agent that asks used a tool without a yes: `cancel` ends "
    "it and its command fails, `tell` reports it",
    "policy.rules": "`[[policy.rules]]`, see below",
    "budget.name": "the name that people see, under which usage is kept",
    "budget.tenant": "the tenant; without it, all tenants",
    "budget.agent": "a glob of agent ids, or several; without it, all agents",
    "budget.session": "a glob of session keys, or a session's id",
    "budget.each": "the unit that has a day's amount of its own: the tenant, each agent, or each session",
    "budget.tokens_per_turn": "tokens in and out of the model in one turn",
    "budget.usd_per_day": "US dollars of a day of UTC, as a text such as `\"2.50\"`",
    "budget.required": "how many people must approve that the work continues",
    "budget.groups": "quorums by role, as in a rule of policy",
    "budget.self": "whether the requester of the work may approve that it continues",
    "budget.ttl": "how long the question may be answered: `\"15m\"`, `\"24h\"`; without it, `limits.approval_ttl_ms`",
    "limits.timeout_ms": "how long a command without a timeout of its own may run; the clock is stopped while it "
    "waits for an approval",
    "limits.approval_ttl_ms": "how long an approval may be answered; at most 30 days",
    "limits.queue_ttl_ms": "how long a command may wait for its start",
    "limits.pause_ttl_ms": "how long a command may stay paused before it ends as timed out",
    "limits.detach_ttl_ms": "how long a runner may be away before its command fails with AgentLost",
    "runner.roots": "directories that workspaces may lie in; without it, the directory in which `up` was started",
    "runner.outbox_bytes": "how much output of a session is kept while the link is down; above it, output is lost and "
    "counted",
    "gateway.tls_cert": "PEM file with the certificate and its chain; SIGHUP reads it again",
    "gateway.tls_key": "PEM file with the certificate's key, not encrypted",
    "gateway.behind_proxy": "a TLS proxy is in front: X-Forwarded-For of trusted proxies counts, and a public address "
    "may be bound, which then accepts unencrypted connections from them alone",
    "gateway.trusted_proxies": "addresses or networks of the proxies; loopback is always one",
    "runner.drain_ms": "how long running turns may continue after SIGTERM; no new turn begins; with 0 they are "
    "canceled at once, as they are after a second signal",
    "runner.check_agents": "whether the runner checks by itself, in the background, how a known agent asks that was "
    "never checked or has changed",
    "runner.agent_idle_ms": "an agent without a turn for this time is ended; its session remains",
    "rates.principal_a_minute": "requests of one principal, sustained; 0: no limit",
    "rates.principal_burst": "requests of one principal at once",
    "rates.tenant_a_minute": "requests of a tenant, sustained; 0: no limit",
    "rates.tenant_burst": "requests of a tenant at once",
    "rates.refused_a_minute": "refused credentials of one address (IPv6: one /64); above it a refused one is answered "
    "with 429; good credentials of that address are never delayed; 0: no limit",
    "rates.principal_streams": "event streams that one principal may have open at a time on this gateway: server-sent "
    "events, subscriptions of a WebSocket and connections of ACP; one more is answered with 429; as many WebSockets "
    "may be open, with or without subscriptions; 0: no limit",
    "rates.tenant_streams": "event streams that a tenant may have open at a time, and WebSockets; 0: no limit",
    "rates.tenant_commands_a_day": "executes of a tenant in a day of UTC; 0: no limit",
    "rates.principal_commands_a_day": "executes of one principal in a day of UTC; 0: no limit",
    "redaction.rules": "`[[redaction.rules]]`, see below",
    "redact.name": "the name that people see; it replaces the text if no replacement is set",
    "redact.regex": "RE2's syntax: no look-around, no back-references, linear time",
    "redact.replacement": "`\\1` is the first group; without it `(redacted: NAME)`",
    "compaction.enabled": "whether conversations are compacted automatically; `interlock sessions compact` is always "
    "available",
    "compaction.reserveTokens": "room in the window for the next prompt and answer; at most a quarter of the window",
    "compaction.keepRecentTokens": "the end of the conversation that is never summarised; at most half of what fits",
    "compaction.windows": "`{\"provider/model\" = TOKENS}`: context windows, if the catalog or the agent is wrong",
    "compaction.beforeCompact": "a hook that may cancel a compaction or supply its summary; see below",
    "before.url": "the address of a signed POST before each compaction; https, or a network of `outgoing.allow`",
    "before.secretFile": "file that holds the secret, `whsec_…`; below the state directory unless it is absolute",
    "before.secretEnv": "or the variable of the gateway's environment that holds it",
    "before.timeoutMs": "how long the hook may take",
    "before.required": "whether a hook without a response cancels the compaction; otherwise the compaction continues "
    "without it",
    "agents.defaults.compaction": "see the two tables below",
    "agents.defaults.contextPruning": "old tool results in requests to a model; see below",
    "pruning.enabled": "whether old tool results are shortened in requests; the transcript keeps them whole",
    "pruning.softTrimRatio": "above this share of the window long results keep their beginning and end",
    "pruning.hardClearRatio": "above this share the oldest results are cleared until the share is reached",
    "pruning.minPrunableChars": "nothing is shortened while the results that could be have fewer characters",
    "pruning.keepLastAssistants": "results after this number of the agent's last messages are kept",
    "pruning.maxChars": "the length from which a result is long",
    "pruning.headChars": "characters kept of its beginning",
    "pruning.tailChars": "characters kept of its end",
    "pruning.placeholder": "the text that replaces a cleared result",
    "floor.reserveTokensFloor": "raises `compaction.reserveTokens` to this; 0 disables it",
    "floor.memoryFlush": "the silent turn before a compaction; see below",
    "flush.enabled": "whether the agent is asked to write down lasting information before its conversation is "
    "compacted",
    "flush.softThresholdTokens": "this many tokens before the compaction",
    "flush.prompt": "the prompt that it is sent; `{date}` is the day. A hint at `NO_REPLY` is added if the prompt has "
    "none",
    "flush.systemPrompt": "additional instructions for this turn",
    "session.dmScope": "how direct messages are separated: all in the agent's main session, or one session for each "
    "peer",
    "session.identityLinks": "people by name, each with their `channel:peer`: one session for all of them",
    "session.reset": "when a key begins a new session; see below",
    "session.resetByType": "differences for threads, groups and direct chats, field by field",
    "session.resetByChannel": "the rule of a channel, which replaces all the others",
    "session.idleMinutes": "the old name of `session.reset.idleMinutes`; alone it means mode `idle`",
    "session.timeZone": "the time zone of the daily hour, such as `Europe/Berlin`; without it, the host's own",
    "session.defaultAgent": "the agent for chats that match no binding; without it, the config's only agent, else "
    "`shell`",
    "session.workspace": "the workspace of chats' sessions, absolute on the runner; without it, its first root",
    "session.models": "the models that `/new MODEL` may name, beside `provider/model`",
    "session.sendPolicy": "which chats are answered; see below",
    "binding.agent": "the agent that answers",
    "binding.channel": "of this channel",
    "binding.account_id": "received through this account of the config",
    "binding.team_id": "of this team",
    "binding.guild_id": "of this guild",
    "binding.group_id": "of this group, room or channel",
    "binding.parent_peer": "in a thread below this peer",
    "binding.peer": "with this peer",
    "reset.mode": "`daily` at the hour, and also when idle if `idleMinutes` is set; `idle`; or `none`",
    "reset.atHour": "the hour of the daily reset, local time; 4 if it is not set",
    "reset.idleMinutes": "the time without a message; 60 in mode `idle` if it is not set",
    "send.default": "the effect if no rule matches and the session has none of its own",
    "send.rules": "`action` allow or deny, and its scope: `channel`, `chatType`, `keyPrefix`; the first match decides",
    "outgoing.allow": "internal networks that the gateway itself may call, unencrypted too: your own issuer or "
    "webhook; everything else is called over https at public addresses alone",
    "audit.s3_bucket": "a bucket with Object Lock; each signed checkpoint is also stored there, and cannot be removed "
    "there",
    "audit.s3_prefix": "the prefix of its objects' names",
    "audit.s3_endpoint": "the store's URL, if it is not AWS",
    "audit.s3_region": "its region; credentials are those of the environment, as for every S3 program",
    "objects.s3_bucket": "a bucket for files and large tool results; without it they are in the state directory",
    "objects.s3_prefix": "the prefix of its objects' names",
    "objects.s3_endpoint": "the store's URL, if it is not AWS",
    "objects.s3_region": "its region; credentials are those of the environment, as for every S3 program",
    "audit.lock_days": "days for which the store refuses to delete or overwrite a checkpoint",
    "cluster.store": "address of the PostgreSQL database that several gateways share, `postgresql://…`; keep a "
    "password in libpq's password file. Without it the ledger is a file of the state directory",
    "cluster.bus": "addresses of the NATS servers that they share, `nats://…`, with commas between them",
    "retention.days": "frames, events and files are deleted this long after a session's last turn; transcripts and "
    "the audit log never are; 0: nothing is deleted",
    "metrics.open_to": "networks that read `/metrics` without a credential; all others need a key of the tenant "
    "`default` with the role operator, auditor, admin or owner",
    "webhooks.url": "the address of a signed POST for each approval that waits; https, or a network of "
    "`outgoing.allow`",
    "webhooks.tenant": "the tenant whose approvals it reports",
    "webhooks.secret_file": "file that holds the secret, `whsec_…`; below the state directory unless it is absolute",
    "webhooks.secret_env": "or the variable of the gateway's environment that holds it",
    "push.contact": "an address of yours, `mailto:` or `https:`, which is sent to each push service: they require one",
    "push.details": "whether the notice holds agent, host, directory, person and the redacted request; without it, "
    "only that an approval waits",
    "ntfy.url": "the topic's URL, such as `https://ntfy.sh/TOPIC`; https, or a network of `outgoing.allow`",
    "ntfy.tenant": "the tenant whose approvals it reports",
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
    "slack.people": "the people who may write and decide, by Slack member ID; keys as for `[telegram.people.ID]`",
    "apprise.tenant": "the tenant whose approvals it reports",
    "apprise.details": "as for ntfy",
    "apprise.url_file": "file that holds one Apprise URL, with the service's secrets; below the state directory "
    "unless it is absolute",
    "apprise.url_env": "or the variable of the gateway's environment that holds it",
    "telegram.token_file": "file that holds the bot's token; below the state directory unless it is absolute",
    "telegram.token_env": "or the variable of the environment that holds it",
    "telegram.api_url": "the Bot API's URL, if you run a server of your own",
    "telegram.groups": "in groups the bot reads the messages that name it or reply to it, or `all` messages of known "
    "people",
    "telegram.ask": "chats that show approvals; without it each of `people` is asked in their own",
    "telegram.people": "the people who may write and decide, by Telegram id; see below",
    "person.key_file": "file with the key under which this person's messages and votes are sent",
    "person.key_env": "or the variable of the environment that holds it",
    "person.owner": "or the owner key of this state directory",
    "oidc.issuer": "the issuer's URL, exactly as its tokens name it in `iss`; its keys are found by discovery",
    "oidc.audience": "`aud` must name one of these",
    "oidc.tenant": "the tenant of all its tokens; or else `tenant_claim`",
    "oidc.tenant_claim": "the claim that names the tenant; `a.b` is a claim inside another",
    "oidc.tenants": "the tenants that this issuer may name in its claim",
    "oidc.person_claim": "the claim that identifies the person, who is `NAME:VALUE` in votes and audit",
    "oidc.roles_claim": "the claim with the roles: a list, or words separated by spaces",
    "oidc.roles": "the role for each of those words: viewer, operator, approver, auditor or admin; other words grant "
    "nothing",
    "oidc.default_roles": "roles that every token of this issuer has",
    "oidc.algorithms": "algorithms that a token may be signed with; public keys alone",
    "oidc.types": "permitted values of `typ`; a token without it is refused",
    "oidc.leeway_ms": "how much the clocks of issuer and gateway may differ",
    "oidc.login_client": "the public client of `interlock login`, to which the issuer allows the device grant",
    "oidc.login_scopes": "the scopes that the client requests; with `offline_access` most issuers issue a refresh "
    "token",
    "agents": "`[agents.ID]`, see below",
    "hooks.agent": "the agent that receives it; without it `session.defaultAgent`",
    "hooks.key": "the session key; without it each delivery has a session of its own",
    "hooks.workspace": "absolute on the runner",
    "hooks.tenant": "the tenant that it belongs to",
    "cron.agent": "the agent that receives it; without it `session.defaultAgent`",
    "cron.key": "the session key; without it the job's own, `agent:AGENT:cron:ID`",
    "cron.workspace": "absolute on the runner",
    "cron.tenant": "the tenant that it belongs to",
    "hooks.auth": "`hmac`: HMAC-SHA256 of the raw body; `standard`: Standard Webhooks; `token`: the secret itself",
    "hooks.secret_file": "the file that holds the secret, in the state directory unless absolute",
    "hooks.secret_env": "the variable of the gateway's environment that holds it",
    "hooks.signature_header": "the header with the signature for `hmac`, in hex or base64, with or without `sha256=`",
    "hooks.token_header": "the header with the secret for `token`; without it `Authorization: Bearer`",
    "hooks.delivery_header": "the header with the sender's number of the delivery; without it a body counts once in "
    "ten minutes",
    "hooks.message": "the message that the agent is sent: `{name}`, `{delivery}`, `{body}`, and `{/a/b}` for a value "
    "in JSON",
    "cron.schedule": "minute, hour, day, month, weekday",
    "cron.message": "the message that the agent is sent",
    "cron.time_zone": "the time zone of the schedule; without it `session.timeZone`, else the host's own",
    "cron.enabled": "with false it is not sent",
    "rule.name": "shown to every approver, and written into the audit log",
    "rule.effect": "the decision if every match field that is set matches",
    "rule.tenant": "the tenant; without it, all tenants",
    "rule.door": "`command`: before an agent starts; `tool`: inside its turn",
    "rule.type": "the command's type: `execute`, or one that is answered at once: `pause`, `resume`, `close`, "
    "`compact`, `reset`, `patch`, `archive`, `restore`, `release`, `drain`, `undrain`, `label`, `branch`, `fork`, "
    "`import`, `repair`; without it, the rule concerns an execute alone. `ask` answers those with ApprovalRequired, "
    "and they succeed once it is granted. It never applies to a `cancel`",
    "rule.agent": "glob over the agent's id",
    "rule.origin": "the origin of the command",
    "rule.tool": "glob over the tool's name, as the agent reports it",
    "rule.kind": "glob over the agent's own word for the tool's kind: read, edit, execute, …",
    "rule.runner": "the runner's name",
    "rule.workspace": "the session's workspace, a directory as its runner names it",
    "rule.person": "the person of the session: `user:ann`, or the person who drives the agent that made the request",
    "rule.words": "a program and its words, such as `git status **`: `*` is part of a word, `**` at the end any "
    "number of plain arguments",
    "rule.command": "regular expression of RE2 for one simple command, or for the whole line with its operators "
    "written out; in an allow rule no repeated dot or class may match an operator",
    "rule.command_line": "the whole line itself, letter by letter",
    "rule.shell": "operators that may be between the commands of an allow rule: `pipe`, `and`, `or`, `sequence`",
    "rule.url": "glob over the URLs in the tool's input and its commands",
    "rule.described": "whether the agent only describes the call and does not send its input; no allow rule about the "
    "input covers such a call",
    "rule.box": "`true` for an agent whose box limits its writes and its network, `false` for every other one; or a "
    "list of parts that its box must have: `walls`, `writes`, `network`, `programs`, `staged`",
    "rule.workspace_files": "globs of files that configure an agent, as the approval shows their paths; with `door = "
    "\"workspace\"` alone. An allow rule must match every file",
    "rule.until": "the instant from which the rule is no longer in force, such as `2026-12-24T18:00:00Z`",
    "rule.session": "a session's id",
    "rule.digest": "the SHA-256 of the input's bytes, hex, as an approval shows it",
    "rule.path": "glob over the paths in the tool's input: relative to the workspace for paths below it, else "
    "absolute; a glob that begins in the workspace allows nothing outside it",
    "rule.permission": "whether the agent asks before its tools, or never",
    "rule.cost_over": "matches once the session has cost more than this many USD, as far as its agent reports it",
    "rule.hours": "\"09:00-18:00\"; a span may cross midnight",
    "rule.zone": "the time zone of `hours`",
    "rule.signed": "count only votes that are signed with a registered key",
    "rule.require_independent": "count no vote that the requester could have cast, and no two that one person could "
    "have cast: with their own key, or with one that they created",
    "rule.below": "an allowed program of a boxed agent may start any other (`hold = \"programs\"`)",
    "rule.dangerous": "with `effect = \"ask\"`: people decide on the whole card each time, so a chat shows a link "
    "instead of buttons, and no \"always\" lets it pass",
    "rule.required": "how many different people must vote yes",
    "rule.groups": "roles of which at least `min` must vote yes, all of them needed",
    "rule.deny_threshold": "how many people must vote no",
    "rule.ttl": "how long an approval of this rule may be answered: \"90s\", \"15m\", \"24h\", \"2d\"",
    "rule.reason": "sent with a denial",
    "rule.self": "whether the yes of the person who sent the command counts",
    "agent.adapter": "`acp`: an Agent Client Protocol agent; `exec`: any program, one process a turn",
    "agent.command": "the program, by path or found on PATH",
    "agent.args": "its arguments; `{prompt}` is replaced by the prompt (`exec`), else the prompt is the last one; an "
    "argument that begins with a prompt `-…` gets a space before it, so that it is not an option",
    "agent.env": "variables that it gets beside the allow-list; names with KEY, TOKEN, SECRET … are not shown",
    "agent.env_pass": "credentials of the runner's own environment that it gets as well, by name; other variables "
    "belong in `env`",
    "agent.roots": "directories that this agent may work in; they replace the runner's",
    "agent.trusted_kinds": "trust the agent's report that a tool only reads, and allow such tools without a question",
    "agent.name": "a name for people",
    "agent.asks": "whether the agent asks before its tools; with `false` the whole command is held",
    "agent.evidence": "`declared`: an `acp` agent is believed to ask until `interlock agents check` has shown "
    "otherwise; `required`: its whole command is held until a check has seen it ask",
    "agent.mode": "the mode that an `acp` agent is switched to when it opens; it replaces its own",
    "agent.workspace_files": "files of a workspace that configure the agent: with `ignore` it ignores them if it can "
    "be made to, and else an approval comes before its start; with `ask` it reads them after a yes; with `trust` no "
    "one is asked",
    "agent.modes": "modes that `--mode` may choose although they are not known to ask before each tool; in one of "
    "them a command waits for an approval as a whole",
    "agent.asking_modes": "ids of modes in which the agent asks before each tool, beside those that Interlock knows; "
    "`interlock agents check` adds the one in which it saw the agent ask",
    "agent.model": "`provider/model` that a `builtin` agent uses; else a model of the first provider with a key",
    "agent.base_url": "the address of that provider's API: any OpenAI-compatible server, under a name of your own",
    "agent.api_key_env": "the variable of the runner's environment, or of `env`, that holds the API key",
    "agent.box": "the walls around its processes, a table of its own: see `[agents.ID.box]` below",
    "agent.mcp": "MCP servers that an agent of the adapter `acp` or `claude`, or codex by `exec`, gets, tables of "
    "their own: see `[agents.ID.mcp.NAME]` below",
    "mcp.command": "a program that speaks MCP on standard input and output: an absolute path, or a name on PATH",
    "mcp.args": "its arguments",
    "mcp.env": "variables that it gets; names with KEY, TOKEN, SECRET … are not shown",
    "mcp.env_pass": "credentials of the runner's own environment that it gets as well, by name",
    "mcp.url": "instead of a program: the address of a server that speaks MCP over HTTP",
    "mcp.headers": "headers of its requests",
    "mcp.header_env": "for each header the variable of the runner's environment that holds its value, as "
    "`Authorization = \"DOCS_TOKEN\"`",
    "box.walls": "`best`: what the host supports, `namespace` before `landlock`; `none` hides nothing at all",
    "box.hide": "files and directories that it can neither read nor change, absolute or from `~/`; the state "
    "directory is always one of them",
    "box.write": "if it is set, the agent changes nothing but its workspace, temporary files and these; without it, "
    "everything that the runner's user may change",
    "box.on_unavailable": "the effect on a host without walls: `refuse` to start the agent, or `start` it without them",
    "box.hold": "with `programs` each program that its processes start waits for policy or a person",
    "box.between_turns": "with held programs: beginnings of command lines that start without a question while the "
    "agent works on no command, as when a session opens",
    "box.sockets": "sockets of other programs that remain open to it, of `ssh-agent`, `gpg-agent`, `docker`, `dbus`, "
    "`tmux`; in a mount namespace all others of these are hidden",
    "box.changes": "`staged`: its changes in its workspace land there only after a yes",
    "box.network": "`all`: the host's; `none`: one of its own with loopback alone; `model`: that, and a proxy to its "
    "model's hosts; or a list of hosts and ports that the proxy leads to",
    "agent.context_window": "tokens that the model accepts, if its provider's catalog does not know it; with 0 the "
    "catalog is used",
}


def config_page() -> str:
    """Write config.md; a key without a meaning above is an error."""
    lines = paragraph(
        "`interlock config path` prints the path of the file, `check` its errors, `show` the values in force.",
        "If the file is missing, all values are defaults; an unknown key is an error. `interlock config reload`, or",
        "SIGHUP to `up`, to the gateway and to the runner, reloads the following: the gateway `[policy]`,",
        "`[[budgets]]`, `[limits]`, `[session]`, `[compaction]`, `[agents.defaults]`, `[[bindings]]`, `[hooks]`,",
        "`[cron]`, `[oidc]`, `[rates]`,",
        "`[redaction]`, `[webhooks]`, `[ntfy]`, `[apprise]`, `[push]`, the TLS certificate and",
        "`[outgoing]` for later requests; the runner",
        "`[agents.ID]` and `runner.roots`, which its gateways receive in another hello. Everything else needs a",
        "restart of `up`. A file with an error changes nothing, and the verb and both logs report the error.")
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
        "remembered rules, then the rest, then the shipped default. A list of texts matches if one of them does.",
        "An allow rule about the input must cover all of it; a denial needs one part.",
        "[By example](../how-to/policies.md)."),
              *_keys("policy", config.PolicySection), "", *_keys("rule", Rule), "", "## [[budgets]]", "", *paragraph(
        "At its limit a session pauses and asks whether to continue. [How to set them](../how-to/budgets.md)."),
              *_keys("budget", BudgetRule), "", "## [[redaction.rules]]", "", *paragraph(
        "Applied in order to texts in logs, webhooks and exports of conversations, never to ids; credentials are",
        "removed without any rule."),
              *_keys("redact", config.RedactionRule), "", "## [oidc.NAME]", "", *paragraph(
        "[How to connect an issuer](../how-to/oidc.md)."), *_keys("oidc", config.OidcSection), "",
              "## [webhooks.NAME]", "", *paragraph(
        "Signed requests to approvers, in the form of [Standard Webhooks](https://www.standardwebhooks.com). "
        "[How to notify people](../how-to/notifications.md)."), *_keys("webhooks", config.WebhookSection), "",
              "## [ntfy.NAME]", "", *paragraph(
        "Notices on approvers' phones. [How to connect a topic](../how-to/ntfy.md)."),
              *_keys("ntfy", config.NtfySection), "",
              "## [apprise.NAME]", "", *paragraph(
        "Notices to approvers through a service that [Apprise](https://github.com/caronc/apprise) reaches; needs the",
        "extra `apprise`. [How to connect one](../how-to/ntfy.md#any-other-service-by-apprise)."),
              *_keys("apprise", config.AppriseSection), "",
              "## [push]", "", *paragraph(
        "Approvers are notified in the browsers in which they turned notices on, through the browsers' push services. "
        "[How to approve from a phone](../how-to/phone.md)."),
              *_keys("push", config.PushSection), "",
              "## [telegram]", "", *paragraph("[How to connect a bot](../how-to/telegram.md)."),
              *_keys("telegram", config.TelegramSection), "", "## [telegram.people.ID]", "",
              *_keys("person", config.PersonSection), "",
              "## [slack]", "", *paragraph("[How to connect an app](../how-to/slack.md)."),
              *_keys("slack", config.SlackSection), "",
              "## [[bindings]]", "", *paragraph(
        "The agent that answers a chat: the most specific binding that matches (peer, parent peer, group or guild, "
        "team, account, channel), else `session.defaultAgent`. [By example](../how-to/sessions.md)."),
              *_keys("binding", Binding), "", "## session.reset", "", *paragraph(
        "The same keys are valid in `session.resetByType.thread`, `.group` and `.direct`, and in "
        "`session.resetByChannel.CHANNEL`."), *_keys("reset", ResetRule), "",
              "## session.sendPolicy", "", *_keys("send", SendPolicySection), "",
              "## compaction.beforeCompact", "", *paragraph(
        "[Its request and responses](../how-to/compaction.md)."), *_keys("before", BeforeCompactSection), "",
              "## [agents.defaults]", "", *_keys("agents.defaults", DefaultsSection), "",
              "## [agents.defaults.compaction]", "", *_keys("floor", AgentCompactionSection), "",
              "## [agents.defaults.compaction.memoryFlush]", "", *_keys("flush", MemoryFlushSection), "",
              "## [agents.defaults.contextPruning]", "", *_keys("pruning", ContextPruningSection), "",
              "## [hooks.NAME]", "", *paragraph(
        "Messages that another program may send at `POST /v1/hooks/NAME`. [How to use them](../how-to/sessions.md)."),
              *_keys("hooks", config.HookSection), "", "## [cron.ID]", "", *paragraph(
        "Messages that are sent to an agent on a schedule. [How to use them](../how-to/sessions.md)."),
              *_keys("cron", config.CronSection), "",
              "## [agents.ID]", "", *paragraph(
        "[How to connect one](../how-to/agents.md). `shell` and `builtin` exist unless the file names others."),
              *_keys("agent", config.AgentSpec), "", "## [agents.ID.box]", "", *paragraph(
        "Walls of the kernel around one agent. Without this section the state directory is hidden from it if the host",
        "supports that. [How to box an agent](../how-to/box-an-agent.md)."),
              *_keys("box", BoxSpec), "", "## [agents.ID.mcp.NAME]", "", *paragraph(
                  "An MCP server that the agent gets in each conversation, by the name NAME.",
                  "[How to give an agent MCP servers](../how-to/agents.md#mcp-servers)."),
              *_keys("mcp", McpSpec)]
    return page("The config file", *lines)


def _keys(prefix: str, kind: type) -> Iterator[str]:
    return table(("key", "type", "default", "meaning"), (
        (f"`{field.encode_name}`", _type(field.type), _default(field), MEANING[f"{prefix}.{field.encode_name}"])
        for field in msgspec.structs.fields(kind)))


# --- frames ---
def frames() -> str:
    """Write frames.md."""
    ways = {Direction.C: "runner → gateway", Direction.M: "gateway → runner", Direction.BOTH: "both"}
    lines = [*paragraph(
        "The link between gateway and runner: one JSON object a WebSocket message, `{type, payload, message_id,",
        "session_id, seq, timestamp, metadata}`. *Durable* frames carry a `seq` and wait in an outbox until they are",
        "acknowledged; *transient* frames are deltas whose whole content the following durable frame repeats; *link*",
        "frames belong to one connection. An unknown type is durable, and is kept."),
             *table(("type", "direction", "class", "payload"), (
                 (f"`{row.name}`", ways[row.direction], row.frame_class.value, _fields(row.payload))
                 for row in FRAMES.values())),
             "", *paragraph(
        "A field with `?` may be absent."),
             "## Codes of the link", "", *table(("code", "meaning", "who can fix it"), (
                 (f"`{code}`", meaning.sentence, meaning.fault.value) for code, meaning in MEANINGS.items()))]
    return page("Frames", *lines)


# --- the protocol ---
MARKS = {
    Origin.S: "the published seed documents of RAWP-DPS",
    Origin.R: "other public pages of the same specification",
    Origin.P: "Interlock's own profile, if the published text is silent or could not be found; not RAWP",
}


def protocol() -> str:
    """Write protocol.md."""
    lines = paragraph(
        f"Gateway and runner speak RAWP-DPS (`{DPS_VERSION}`) with a profile of Interlock's own. This page marks the",
        "origin of each name. A payload's field that is not listed under *published* belongs to Interlock's profile,",
        "also in a frame with a published name. The fields themselves are in",
        "[Frames](frames.md); for other programs there is a [JSON Schema](../../spec/rawp.schema.json) and an",
        "[AsyncAPI document](../../spec/asyncapi.json). `interlock conformance` checks an implementation.")
    lines += [*table(("mark", "from"), ((origin.value, text) for origin, text in MARKS.items())), "",
              "## Envelope", "",
              *table(("field", "mark"), ((f"`{field}`", origin.value) for field, origin in ENVELOPE.items())), "",
              "## Frames", "", *paragraph(
        "*needs*: the feature that an agent, or a runner, must offer in `session.capabilities` before the frame is",
        "obeyed. Without it the response is `session.error` with `UNSUPPORTED_CAPABILITY`, and nothing else changes."),
              *table(("type", "mark", "direction", "class", "needs", "published fields", "fields of the profile"),
                     map(_row, FRAMES.values())), ""]
    moves = ((phase, kind, to) for phase, after in turn.MOVES.items() for kind, to in after.items())
    lines += ["## A session", "", *paragraph(
        "The durable frames that a runner may send in each phase, from the table that gateway and runner both obey. A",
        "frame that is not drawn is refused with `UNKNOWN_TURN` or `PROMPT_IN_PROGRESS`, recorded, and changes",
        "nothing. In every phase the following are allowed and change none:",
        ", ".join(f"`{name}`" for name in sorted(turn.NEUTRAL)),
        "(but capabilities open a closed session). `usage` is the phase in which a turn owes its usage."),
              *_diagram("closed", _joined(moves)), ""]
    steps = ((state, "", to) for state, after in machine.MOVES.items() for to in sorted(after))
    lines += ["## A command", "", *paragraph(
        "A command (sent over REST or the command line) becomes a prompt in a session; these are its states. It",
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
    """Join all transitions between the same two phases into one arrow."""
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
        "`interlock.sdk` has `Interlock`, which blocks, and `AsyncInterlock`, whose methods are awaited and whose",
        "streams are read with `async for`. Both have the following resources and methods, with the same arguments",
        "and return types. Every change also accepts `idempotency_key`, and generates one if none is passed; retries",
        "of a request use the same key. [Tutorial](../sdk-tutorial.md).")
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
        "and yields its parts until it has ended, including `Lost` and `Reattached`."),
              *table(("part", "attributes", "what it is"), (
                  (f"`{one.__name__}`", ", ".join(f"`{field.name}`" for field in fields(one)), _first(one))
                  for one in PARTS)), ""]
    watched = [method for name, method in vars(Watched).items() if name in ("command", "session", "events", "drop")]
    lines += ["## Watching many streams", "", *paragraph(
        "`gateway.watch()` follows any number of streams over one WebSocket. Add streams before or inside the loop",
        "over it; the loop ends when every stream has. It yields `StreamEvent` with the `ref` of its stream,",
        "`StreamEnd` for a stream that has ended or, with `error`, could not begin, and `Lost` and `Reattached` for "
        "the connection."),
              *table(("method", "what it does"), (
                  (f"`watch.{one.__name__}({_arguments(one).removeprefix('self, ')})`", _first(one))
                  for one in watched)), ""]
    lines += ["## Exceptions", "", *paragraph(
        "`InterlockError` is the base class. `Unreachable`: no response arrived. `NotAGateway`: the responding server",
        "is not a gateway. `StillRunning`: a wait timed out. `Refused`: the gateway refused the request, with",
        "`problem`, `status`, `detail`, `hint`,",
        "`retryable`, `errors` and `retry_after_s`; each code has a class of its own in `interlock.sdk.problems`:",
        ", ".join(f"`{code}`" for code in problems.BY_CODE) + ". [Each by its code](../how-to/errors.md).")]
    lines += ["## Retries", "", *paragraph(
        "A read, or a change under its key, is sent again if its connection was lost, or if the response was",
        ", ".join(f"`{code}`" for code in sorted(RETRYABLE_CODES)) + f", after `Retry-After` (up to "
        f"{RETRY_AFTER_MAX_S:.0f} s). At most {ATTEMPTS} times, with growing pauses up to {PAUSE_MAX_S:.0f} s. Pairing",
        "a runner is sent once. Streams continue after their last durable event, while a gateway is unreachable for up",
        f"to {STREAM_GIVE_UP_S:.0f} s, and yield `Lost` and `Reattached`.")]
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
    """Return the range that a msgspec.Meta allows."""
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
