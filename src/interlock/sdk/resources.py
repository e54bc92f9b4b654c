"""Every method of the library, once for both shells: `blocking_client` and `async_client` add only how it is called."""

from __future__ import annotations

from interlock.sdk.methods import Driven, Every, Once, Pieces, Stream, ToEnd
from interlock.sdk.pages import wait
from interlock.sdk.requests import access, approvals, chats, commands, cron, gateway, sessions, transcripts


class Commands:
    """Commands: given, followed, ended."""

    submit = Once(commands.submit)
    run = ToEnd(commands.submit)
    cancel = Once(commands.cancel)
    pause = Once(commands.pause)
    resume = Once(commands.resume)
    get = Once(commands.show)
    list = Once(commands.listing)
    every = Every(commands.listing)
    approval = Once(commands.approval)
    status = Once(commands.status)
    follow = Stream(commands.follow)
    wait = Driven(wait)


class Approvals:
    """What waits for a yes, and votes."""

    list = Once(approvals.listing)
    every = Every(approvals.listing)
    get = Once(approvals.show)
    input = Once(approvals.voted_bytes)
    vote = Once(approvals.vote)
    grant = Once(approvals.grant)
    deny = Once(approvals.deny)
    withdraw = Once(approvals.withdraw)
    answer = Once(approvals.answer)
    explain = Once(approvals.explain)
    rule = Once(approvals.rule)
    signing_keys = Once(approvals.signing_keys)
    add_signing_key = Once(approvals.add_signing_key)
    revoke_signing_key = Once(approvals.revoke_signing_key)


class Sessions:
    """Conversations, their frames and files."""

    list = Once(sessions.listing)
    every = Every(sessions.listing)
    get = Once(sessions.show)
    patch = Once(sessions.patch)
    reset = Once(sessions.reset)
    archive = Once(sessions.archive)
    delete = Once(sessions.delete)
    restore = Once(sessions.restore)
    history = Once(sessions.history)
    close = Once(sessions.close)
    compact = Once(sessions.compact)
    release = Once(sessions.release)
    changes = Once(sessions.changes)
    land = Once(sessions.land)
    discard = Once(sessions.discard)
    frames = Once(sessions.frames)
    follow = Stream(sessions.follow)
    files = Once(sessions.files)
    every_file = Every(sessions.files)
    download = Pieces(sessions.download)


class Transcripts:
    """What was said, as it is kept."""

    entries = Once(transcripts.entries)
    every = Every(transcripts.every_entry)
    tree = Once(transcripts.tree)
    context = Once(transcripts.context)
    export = Pieces(transcripts.export)
    take_in = Once(transcripts.take_in)
    upload = Once(transcripts.upload)
    fork = Once(transcripts.fork)
    branch = Once(transcripts.branch)
    label = Once(transcripts.label)
    examine = Once(transcripts.examine)
    repair = Once(transcripts.repair)


class Chats:
    """Messages that come in from chats."""

    receive = Once(chats.receive)


class Cron:
    """Jobs of the config, told again and again."""

    list = Once(cron.listing)
    run = Once(cron.run)


class Events:
    """The tenant's feed."""

    list = Once(sessions.events)
    follow = Stream(sessions.follow_events)
    ticket = Once(sessions.ticket)


class Runners:
    """The hosts that agents run on."""

    list = Once(gateway.runners)
    nodes = Once(gateway.nodes)
    offer_pairing = Once(gateway.offer_pairing)
    pair = Once(gateway.pair)
    rotate = Once(gateway.rotate_runner)
    revoke = Once(gateway.revoke_runner)


class Policy:
    """The rules, and what they say."""

    get = Once(gateway.policy)
    decide = Once(gateway.decide)
    remembered = Once(gateway.remembered_rules)
    revoke = Once(gateway.revoke_rule)


class Audit:
    """The log, its checkpoints and its proofs."""

    read = Once(gateway.audit)
    record = Once(gateway.audit_record)
    key = Once(gateway.audit_key)
    export = Pieces(gateway.export_audit)
    checkpoint = Once(gateway.checkpoint)
    prove_inclusion = Once(gateway.prove_inclusion)
    prove_consistency = Once(gateway.prove_consistency)
    erase = Once(gateway.erase)
    signing = Once(gateway.signing)
    resume_signing = Once(gateway.resume_signing)


class Webhooks:
    """How approvers are asked elsewhere."""

    list = Once(gateway.webhooks)
    deliveries = Once(gateway.deliveries)
    retry = Once(gateway.retry_delivery)
    test = Once(gateway.try_webhook)


class Keys:
    """Keys of people and programs."""

    list = Once(access.keys)
    make = Once(access.make_key)
    rotate = Once(access.rotate_key)
    revoke = Once(access.revoke_key)


class Browsers:
    """Browser sessions of the console."""

    make_code = Once(access.make_browser_code)
    list = Once(access.browser_sessions)
    end = Once(access.end_browser_session)


class Tenants:
    """Houses of their own on one gateway."""

    list = Once(access.tenants)
    make = Once(access.make_tenant)
    suspend = Once(access.suspend_tenant)
    restore = Once(access.restore_tenant)


class Gateway:
    """A gateway. `url` and `key` are those of the environment (INTERLOCK_URL, INTERLOCK_KEY) where they are left out.

    Requests that fail for want of a connection are sent again where that is safe: reads, and changes under their
    idempotency key, which stays the same. `tls` is an SSL context for a certificate of one's own; `in_clear` lets the
    key go to another machine without TLS. Raises ValueError for a URL or key that cannot be one.
    """

    status = Once(gateway.status)
    alive = Once(gateway.alive)
    ready = Once(gateway.ready)
    prune = Once(gateway.prune)
    description = Once(gateway.description)
    whoami = Once(access.whoami)
    drain = Once(gateway.drain)
    undrain = Once(gateway.undrain)
    budgets = Once(gateway.budgets)


ROOMS: dict[str, type] = {kind.__name__.lower(): kind for kind in (
    Commands, Approvals, Sessions, Transcripts, Chats, Cron, Events, Runners, Policy, Audit, Webhooks, Keys,
    Browsers, Tenants)}
"""The rooms of a gateway, by the names that they have there."""
