"""Every method of the library, once for both shells: `blocking_client` and `async_client` add only how it is called."""

from __future__ import annotations

from interlock.protocol.api.access import (
    LIST_BROWSER_SESSIONS,
    LIST_LOGIN_ISSUERS,
    LIST_PUSH_SUBSCRIPTIONS,
    LIST_SIGNING_KEYS,
    LIST_TENANTS,
    WHOAMI,
)
from interlock.protocol.api.audit import AUDIT_CHECKPOINT, AUDIT_KEY, EXPORT_AUDIT, SHOW_SIGNING
from interlock.protocol.api.gateway import GET_STATUS_OF_GATEWAY, LIST_NODES
from interlock.protocol.api.messages import LIST_CRON_JOBS
from interlock.protocol.api.policy import GET_POLICY, LIST_REMEMBERED_RULES
from interlock.protocol.api.runners import LIST_RUNNERS
from interlock.protocol.api.upkeep import GET_RETENTION
from interlock.protocol.api.webhooks import LIST_BUDGETS, LIST_WEBHOOKS
from interlock.sdk.methods import Driven, EventMethod, Every, Pieces, SingleRequest, ToEnd
from interlock.sdk.pages import wait
from interlock.sdk.requests import access, approvals, chats, commands, cron, gateway, sessions, transcripts
from interlock.sdk.requests.base import plain


class CommandMethods:
    """Commands: given, followed, ended."""

    submit = SingleRequest(commands.submit)
    run = ToEnd(commands.submit)
    cancel = SingleRequest(commands.cancel)
    pause = SingleRequest(commands.pause)
    resume = SingleRequest(commands.resume)
    get = SingleRequest(commands.show)
    list = SingleRequest(commands.listing)
    every = Every(commands.listing)
    approval = SingleRequest(commands.approval)
    status = SingleRequest(commands.status)
    follow = EventMethod(commands.follow)
    wait = Driven(wait)


class ApprovalMethods:
    """What waits for a yes, and votes."""

    list = SingleRequest(approvals.listing)
    every = Every(approvals.listing)
    get = SingleRequest(approvals.show)
    input = SingleRequest(approvals.voted_bytes)
    vote = SingleRequest(approvals.vote)
    grant = SingleRequest(approvals.grant)
    deny = SingleRequest(approvals.deny)
    withdraw = SingleRequest(approvals.withdraw)
    answer = SingleRequest(approvals.answer)
    explain = SingleRequest(approvals.explain)
    rule = SingleRequest(approvals.rule)
    signing_keys = SingleRequest(plain(LIST_SIGNING_KEYS, "Every key for signed votes that was ever registered."))
    add_signing_key = SingleRequest(approvals.add_signing_key)
    register_passkey = SingleRequest(approvals.register_passkey)
    revoke_signing_key = SingleRequest(approvals.revoke_signing_key)


class SessionMethods:
    """Conversations, their frames and files."""

    list = SingleRequest(sessions.listing)
    every = Every(sessions.listing)
    get = SingleRequest(sessions.show)
    patch = SingleRequest(sessions.patch)
    reset = SingleRequest(sessions.reset)
    archive = SingleRequest(sessions.archive)
    delete = SingleRequest(sessions.delete)
    restore = SingleRequest(sessions.restore)
    history = SingleRequest(sessions.history)
    close = SingleRequest(sessions.close)
    compact = SingleRequest(sessions.compact)
    release = SingleRequest(sessions.release)
    changes = SingleRequest(sessions.changes)
    diff = SingleRequest(sessions.diff)
    land = SingleRequest(sessions.land)
    discard = SingleRequest(sessions.discard)
    frames = SingleRequest(sessions.frames)
    follow = EventMethod(sessions.follow)
    files = SingleRequest(sessions.files)
    every_file = Every(sessions.files)
    download = Pieces(sessions.download)


class TranscriptMethods:
    """What was said, as it is kept."""

    entries = SingleRequest(transcripts.entries)
    every = Every(transcripts.every_entry)
    tree = SingleRequest(transcripts.tree)
    context = SingleRequest(transcripts.context)
    export = Pieces(transcripts.export)
    take_in = SingleRequest(transcripts.take_in)
    upload = SingleRequest(transcripts.upload)
    fork = SingleRequest(transcripts.fork)
    branch = SingleRequest(transcripts.branch)
    label = SingleRequest(transcripts.label)
    examine = SingleRequest(transcripts.examine)
    repair = SingleRequest(transcripts.repair)


class ChatMethods:
    """Messages that come in from chats."""

    receive = SingleRequest(chats.receive)


class CronMethods:
    """Jobs of the config, told again and again."""

    list = SingleRequest(plain(LIST_CRON_JOBS, "The tenant's cron jobs: when each ran, and when it is due next."))
    run = SingleRequest(cron.run)


class EventMethods:
    """The tenant's feed."""

    list = SingleRequest(sessions.events)
    follow = EventMethod(sessions.follow_events)
    ticket = SingleRequest(sessions.ticket)


class RunnerMethods:
    """The hosts that agents run on."""

    list = SingleRequest(plain(LIST_RUNNERS, "Every runner that was ever paired."))
    nodes = SingleRequest(plain(LIST_NODES, "The runners as they are now: online, their agents, their roots."))
    offer_pairing = SingleRequest(gateway.offer_pairing)
    pair = SingleRequest(gateway.pair)
    rotate = SingleRequest(gateway.rotate_runner)
    revoke = SingleRequest(gateway.revoke_runner)


class PolicyMethods:
    """The rules, and what they say."""

    get = SingleRequest(plain(GET_POLICY, "Every rule in force, in the order in which they are asked."))
    decide = SingleRequest(gateway.decide)
    replay = SingleRequest(gateway.replay_policy)
    remembered = SingleRequest(plain(LIST_REMEMBERED_RULES, "What people said always or never to."))
    revoke = SingleRequest(gateway.revoke_rule)


class AuditMethods:
    """The log, its checkpoints and its proofs."""

    read = SingleRequest(gateway.audit)
    record = SingleRequest(gateway.audit_record)
    key = SingleRequest(plain(
        AUDIT_KEY,
        "The public key that signs the audit log. Compare it with one that came another way."))
    export = Pieces(plain(
        EXPORT_AUDIT,
        "The whole log and its signed checkpoint as NDJSON, piece by piece; `interlock audit verify` checks "
        "it."))
    checkpoint = SingleRequest(plain(AUDIT_CHECKPOINT, "How far the log goes, signed now, as a C2SP note."))
    prove_inclusion = SingleRequest(gateway.prove_inclusion)
    prove_consistency = SingleRequest(gateway.prove_consistency)
    erase = SingleRequest(gateway.erase)
    signing = SingleRequest(plain(SHOW_SIGNING, "How far the log goes, and why it cannot be signed, if so."))
    resume_signing = SingleRequest(gateway.resume_signing)


class WebhookMethods:
    """How approvers are asked elsewhere."""

    list = SingleRequest(plain(LIST_WEBHOOKS, "The webhooks of the config."))
    deliveries = SingleRequest(gateway.deliveries)
    retry = SingleRequest(gateway.retry_delivery)
    test = SingleRequest(gateway.try_webhook)


class KeyMethods:
    """Keys of people and programs."""

    list = SingleRequest(access.keys)
    make = SingleRequest(access.make_key)
    rotate = SingleRequest(access.rotate_key)
    revoke = SingleRequest(access.revoke_key)


class BrowserMethods:
    """Browser sessions of the console."""

    make_code = SingleRequest(access.make_browser_code)
    list = SingleRequest(plain(
        LIST_BROWSER_SESSIONS,
        "The browser sessions that are open: one's own; those of the tenant for an admin."))
    end = SingleRequest(access.end_browser_session)


class PushMethods:
    """Browsers that are notified of approvals."""

    list = SingleRequest(plain(
        LIST_PUSH_SUBSCRIPTIONS,
        "The browsers that are notified of approvals: one's own; those of the tenant for an admin. With the "
        "key that browsers subscribe with."))
    subscribe = SingleRequest(access.subscribe_to_push)
    test = SingleRequest(access.try_push_subscription)
    end = SingleRequest(access.end_push_subscription)


class TenantMethods:
    """Houses of their own on one gateway."""

    list = SingleRequest(plain(LIST_TENANTS, "The tenants of the gateway."))
    make = SingleRequest(access.make_tenant)
    suspend = SingleRequest(access.suspend_tenant)
    restore = SingleRequest(access.restore_tenant)


class GatewayMethods:
    """A gateway. `url` and `key` are those of the environment (INTERLOCK_URL, INTERLOCK_KEY) where they are left out;
    `key` may also be a function that returns the credential of the next request, such as a token that is renewed.

    Requests that fail for want of a connection are sent again where that is safe: reads, and changes under their
    idempotency key, which stays the same. `tls` is an SSL context for a certificate of one's own; `in_clear` lets the
    key go to another machine without TLS. Raises ValueError for a URL or key that cannot be one.
    """

    status = SingleRequest(plain(GET_STATUS_OF_GATEWAY, "How the gateway and the tenant are."))
    alive = SingleRequest(gateway.alive)
    ready = SingleRequest(gateway.ready)
    prune = SingleRequest(gateway.prune)
    retention = SingleRequest(plain(
        GET_RETENTION,
        "How long frames, events, files and usage are kept, and when what was old was last forgotten."))
    description = SingleRequest(gateway.description)
    whoami = SingleRequest(plain(WHOAMI, "Who the key of this gateway stands for."))
    login_issuers = SingleRequest(plain(
        LIST_LOGIN_ISSUERS,
        "The issuers at which a person can log in for this gateway (RFC 8628)."))
    drain = SingleRequest(gateway.drain)
    undrain = SingleRequest(gateway.undrain)
    budgets = SingleRequest(plain(LIST_BUDGETS, "The budgets, and what today has used of them (P-7)."))
    usage = SingleRequest(gateway.usage)


RESOURCES: dict[str, type] = {
    "commands": CommandMethods, "approvals": ApprovalMethods, "sessions": SessionMethods,
    "transcripts": TranscriptMethods, "chats": ChatMethods, "cron": CronMethods, "events": EventMethods,
    "runners": RunnerMethods, "policy": PolicyMethods, "audit": AuditMethods, "webhooks": WebhookMethods,
    "keys": KeyMethods, "browsers": BrowserMethods, "push": PushMethods, "tenants": TenantMethods,
}
"""The methods of each resource, by the attribute of the client that has them."""
