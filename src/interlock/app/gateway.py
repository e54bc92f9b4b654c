"""The gateway's composition: SQLite, transcripts as files, policy from the config, REST and RAWP behind one request
guard."""

from __future__ import annotations

import asyncio
import gc
import os
import secrets
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import structlog

from interlock import __version__
from interlock.app.chats import chat_settings
from interlock.app.checkpoints import open_sink
from interlock.app.compaction import compaction_hook, compaction_rules
from interlock.app.descriptors import raise_limit
from interlock.app.hooks import cron_jobs, open_hooks
from interlock.app.objects import open_objects
from interlock.app.place import LOCAL_RUNNER, SystemClock
from interlock.app.push import push_settings
from interlock.app.session_views import SessionViews
from interlock.app.stores import Others, Stores, open_stores
from interlock.app.tokenizer import prepare_tokenizer
from interlock.app.webhooks import Ways, open_ways
from interlock.backends.outgoing.http import HttpOutgoing
from interlock.backends.sqlite.lock import lock_state
from interlock.channels.task_push import TaskPushSender
from interlock.command.audit.audit import checkpoint_line
from interlock.command.policy.policy import RuleSet
from interlock.command.redaction import Redaction
from interlock.config import Config, ConfigError, GatewaySection
from interlock.config.hangup import on_hangup
from interlock.durable_files import replace_file
from interlock.engine.bridge.lane_state import Limits
from interlock.engine.notifier import Notifier
from interlock.gateway.a2a.task_pushes import TaskPushes
from interlock.gateway.access.credentials import OWNER_TENANT, ensure_owner_key
from interlock.gateway.access.pairings import Pairings
from interlock.gateway.access.push import PushSettings
from interlock.gateway.assembly import ClusterPlace, GatewaySettings, GatewayStores, assemble
from interlock.gateway.audit.checkpoints import CheckpointRefused, CheckpointSigner
from interlock.gateway.audit.ledger_restore import RestoredLogs
from interlock.gateway.audit.settings_audit import note_key, note_policy
from interlock.gateway.audit.signing_key import KEY_NAME, KeyUnusable, load_or_make_key
from interlock.gateway.hooks import ConfiguredHook
from interlock.gateway.rest.service import GatewayFacts
from interlock.gateway.server.server import build_app, serve
from interlock.gateway.server.transport import BindRefused, load_certificate, may_be_public, tls_context
from interlock.gateway.telemetry.metrics import Metrics
from interlock.gateway.telemetry.spans import Tracing, sender_of
from interlock.log import redact_by
from interlock.ports.ledger import LedgerError
from interlock.protocol.limits import DAY_MS

if TYPE_CHECKING:
    from interlock.gateway.oidc.tokens import OidcIssuers

ANNOUNCEMENT = "gateway.json"
"""`{url, pid}` of the gateway that runs on a state directory, for the verbs."""
"""Directory below the state directory: bytes of files that travelled in sessions (E-5)."""
LAST_WORDS_S = 3.0
"""Timeout of a ledger that does not answer at the end. With the preceding steps, it is less than the timeout of a
service manager."""
YOUNG_OBJECTS = 10_000
"""New objects that trigger the cyclic collector: at most a few megabytes wait for it."""

log = structlog.get_logger()


async def run_gateway(
    state: Path,
    config: Config,
    *,
    ready: Callable[[str], None] = lambda _url: None,
    local_runner_token: Path | None = None,
    reload: Callable[[], Config] | None = None,
    new_signing_key: bool = False,
) -> None:
    """Run a gateway on a state directory until SIGTERM or SIGINT.

    On SIGHUP policy, clocks, issuers, rates and redaction come from `reload`; if that raises ConfigError the old
    settings stay in force, and it is logged.

    `ready` is called with the URL once it listens; the verbs read it from `<state>/gateway.json`. A token file pairs
    the local runner (G-3). With `new_signing_key` the state's key may differ from the one that the gateways of a shared
    ledger have signed with; none of them may be running then. Raises AlreadyRunning, BindRefused, LedgerError,
    KeyUnusable, each with one sentence.
    """
    stopping = _stop_on_signals()
    raise_limit()
    prepare_tokenizer(at_once=config.cluster.store is not None)
    lock = lock_state(state)
    try:
        key = load_or_make_key(state)
        clock = SystemClock()
        stores = await open_stores(state, config.cluster, clock)
        ledger, clock = stores.ledger, stores.wall
        try:
            gateway_id = await ledger.gateway_id()
            signer = CheckpointSigner(ledger, key, gateway_id, open_sink(state, config.audit, clock))
            if new_signing_key and stores.others is not None and (at_work := await stores.others.leases.instances()):
                raise KeyUnusable(f"{len(at_work)} gateways are at work on {stores.shown}: stop them before one begins "
                                  "with --new-signing-key.")
            await note_policy(ledger, clock, OWNER_TENANT, config.policy.in_force)
            await note_key(ledger, clock, OWNER_TENANT, key.public_key(), state / KEY_NAME,
                           may_change=new_signing_key or stores.others is None)
            gateway = _Gateway(state, config, stores, signer, gateway_id)
            await gateway.run(ready, local_runner_token, reload, stopping)
        finally:
            await stores.close()
    finally:
        lock.release()


def tune_collector() -> None:
    """Run the cyclic collector rarely: reference counts free what passes through a gateway, and a run at every 700 new
    objects took a sixth of the time of a frame. Objects that exist at the start are never examined again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])


def _stop_on_signals() -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set, also before the server handles them itself.

    uvicorn raises the signal that stopped it again when it has stopped; this has no further effect then.
    """
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    return stopping


class _Gateway:
    """The parts of one gateway, assembled, from its start to its end."""

    def __init__(
        self, state: Path, config: Config, stores: Stores, signer: CheckpointSigner, gateway_id: str
    ) -> None:
        clock, entropy, ledger = stores.wall, secrets.token_bytes, stores.ledger
        self._state = state
        self._config = config
        self._ledger = ledger
        self._signer = signer
        self._clock = clock
        outgoing = HttpOutgoing(config.outgoing.allow)
        ways = open_ways(config, state, outgoing)
        metrics = Metrics(__version__, config.metrics.open_to)
        ledger.measure(metrics.committed, metrics.stepwise)
        parts = assemble(
            GatewayStores(ledger, stores.transcripts, open_objects(state, config.objects, entropy),
                          _cluster_place(config.gateway, stores.others)),
            stores.clock,
            GatewayFacts(gateway_id=gateway_id, version=__version__, state_dir=str(state), store_path=stores.shown),
            GatewaySettings(policy=_policy(config), limits=_limits(config), rates=config.rates,
                            issuers=self._issuers(config, outgoing), hooks=open_hooks(config, state),
                            webhooks=ways.hooks, own_runner=LOCAL_RUNNER),
            wall=clock, entropy=entropy, metrics=metrics, signer=signer, checkpoint=self._checkpoint)
        self._viewers, self._engine, self._rawp, self._front, self._rest, self._cluster = parts
        self._pairings, self._crons, self._hooks = self._front.pairings, self._front.crons, self._front.hooks
        self._retention, self._webhooks = self._front.retention, self._front.webhooks
        self._engine.chats.configure(chat_settings(config))
        self._crons.configure(cron_jobs(config))
        self._views = SessionViews(state, self._engine, clock) if stores.others is None else None
        sender = sender_of(os.environ, __version__)
        self._tracing = Tracing(sender) if sender is not None else None
        if self._tracing is not None:
            self._engine.lanes.watchers.append(self._tracing.watch)
        self._restored = RestoredLogs(self._engine, signer)
        self._tls = tls_context(config.gateway)
        if self._engine.compactor is not None:
            self._engine.compactor.configure(compaction_hook(config, state, outgoing, clock, entropy))
        if self._engine.transcripts is not None:
            self._engine.transcripts.configure(Redaction(config.redaction.rules).text)
        push = self._front.access.push
        push.configure(push_settings(config, state, outgoing))
        leads = partial(self._cluster.leads, "notifier") if self._cluster is not None else None
        self._notifier = Notifier(ledger, stores.clock, ways.channels, Redaction(config.redaction.rules).text,
                                  push.channel, *(() if leads is None else (leads,)), wall=clock)
        self._engine.lanes.on_delivery.connect(self._notifier.nudge)
        self._pushes = TaskPushes(ledger, self._viewers, clock, TaskPushSender(load_or_make_key(state), outgoing),
                                  self._front.access.credentials.state_of, leads)
        self._webhooks.nudge.connect(self._notifier.nudge)
        if self._cluster is not None:
            self._signer.share(partial(self._cluster.leads, "checkpoints"))

    async def run(
        self,
        ready: Callable[[str], None],
        local_runner_token: Path | None,
        reload: Callable[[], Config] | None,
        stopping: asyncio.Event,
    ) -> None:
        """Serve until `stopping`, then end in order: links and streams, lanes, transcripts, the audit head."""
        await self._engine.adopt()
        await ensure_owner_key(self._state, self._ledger, self._clock, secrets.token_bytes,
                               shared=self._cluster is not None)
        if local_runner_token is not None:
            await _pair_own(self._pairings, local_runner_token)
        await self._engine.rows.check()
        self._reload_on_hangup(reload, stopping)
        if self._cluster is not None:
            await self._cluster.start()
            self._cluster.run()
        await self._restored.look()
        stopped = asyncio.Event()
        signing = asyncio.create_task(self._signer.run(stopped))
        pruning = asyncio.create_task(self._retention.daily(self._config.retention.days * DAY_MS))
        try:
            await self._engine.start()
            self._restored.close()
            tune_collector()
            self._notifier.start()
            self._pushes.start()
            if self._views is not None:
                self._views.start()
            self._crons.start()
            await self._listen(ready, stopping)
        finally:
            await self._crons.stop()
            await self._notifier.stop()
            await self._pushes.stop()
            if self._views is not None:
                await self._views.stop()
            await self._restored.stop()
            await self._engine.stop()
            if self._tracing is not None:
                await asyncio.to_thread(self._tracing.end)
            pruning.cancel()
            stopped.set()
            await self._last_words(signing, pruning)
            (self._state / ANNOUNCEMENT).unlink(missing_ok=True)

    async def _last_words(self, *ending: asyncio.Task[None]) -> None:
        """Sign the audit head and release what was owned, while the ledger answers: the next start does what is not
        done here, and leases expire by themselves."""
        try:
            async with asyncio.timeout(LAST_WORDS_S):
                await asyncio.gather(*ending, return_exceptions=True)
                if self._cluster is not None:
                    await self._cluster.stop()
        except TimeoutError:
            if self._cluster is not None:
                self._cluster.abandon()
            log.warning("ended_without_the_ledger", waited_s=LAST_WORDS_S)

    async def _listen(self, ready: Callable[[str], None], stopping: asyncio.Event) -> None:
        section = self._config.gateway

        def announce(port: int) -> None:
            url = f"{'http' if self._tls is None else 'https'}://{_near(section.host)}:{port}"
            _announce(self._state, url, section.tls_cert)
            ready(url)

        await serve(build_app(self._front, section, self._rawp, self._rest, self._pushes), section.host, section.port,
                    on_stop=self._end_streams, ready=announce, stopping=stopping, tls=self._tls,
                    public=may_be_public(section))

    def _end_streams(self) -> None:
        self._rawp.end()
        self._viewers.close()

    def _reload_on_hangup(self, reload: Callable[[], Config] | None, stopping: asyncio.Event) -> None:
        """Reload the config and the certificate on SIGHUP (G-1); a bad file keeps the old one, and is logged."""
        if reload is None:
            return
        turn = asyncio.Lock()
        under_way = set[asyncio.Task[None]]()

        async def take(config: Config, ways: Ways, issuers: OidcIssuers | None,
                       hooks: dict[str, ConfiguredHook], push: PushSettings | None) -> None:
            async with turn:
                try:  # A policy that is not in the audit log decides nothing (U-1).
                    await note_policy(self._ledger, self._clock, OWNER_TENANT, config.policy.in_force)
                except LedgerError as error:
                    log.warning("config_not_reloaded", sentences=[str(error)])
                    return
                self._engine.configure(_policy(config), _limits(config))
                self._engine.chats.configure(chat_settings(config))
                self._hooks.configure(hooks)
                self._crons.configure(cron_jobs(config))
                self._webhooks.configure(ways.hooks)
                self._pushes.sender.configure(HttpOutgoing(config.outgoing.allow))
                self._front.access.configure(issuers, config.rates)
                self._front.access.push.configure(push)
                self._redact_by(config, ways)
                log.info("config_reloaded", rules=len(config.policy.in_force))

        def hangup() -> None:
            try:
                config = reload()
                outgoing = HttpOutgoing(config.outgoing.allow)
                ways, issuers = open_ways(config, self._state, outgoing), self._issuers(config, outgoing)
                hooks = open_hooks(config, self._state)
                push = push_settings(config, self._state, outgoing)
                hook = compaction_hook(config, self._state, outgoing, self._clock, secrets.token_bytes)
                if self._engine.compactor is not None:
                    self._engine.compactor.configure(hook)
                if self._tls is not None and config.gateway.tls_cert is not None:
                    load_certificate(self._tls, config.gateway)
            except (ConfigError, BindRefused, KeyUnusable, OSError) as error:
                log.warning("config_not_reloaded", sentences=getattr(error, "sentences", [str(error)]))
                return
            task = asyncio.ensure_future(take(config, ways, issuers, hooks, push))
            under_way.add(task)
            task.add_done_callback(under_way.discard)

        on_hangup(hangup, stopping.set)

    def _issuers(self, config: Config, outgoing: HttpOutgoing) -> OidcIssuers | None:
        if not config.oidc:
            return None
        from interlock.gateway.oidc.tokens import OidcIssuers  # Memory that most gateways do not need (Y-18).

        return OidcIssuers(config.oidc, outgoing, self._ledger, self._clock)

    def _redact_by(self, config: Config, ways: Ways) -> None:
        """Apply these redaction rules from now on (K-4), including to the channels."""
        redact_by(config.redaction.rules)
        redact = Redaction(config.redaction.rules).text
        self._notifier.configure(ways.channels, redact)
        if self._engine.transcripts is not None:
            self._engine.transcripts.configure(redact)

    async def _checkpoint(self, tenant_id: str) -> bytes | None:
        try:
            return checkpoint_line(await self._signer.sign_tenant(tenant_id))
        except (CheckpointRefused, OSError):
            # If the log was rolled back or rewritten, what was signed before is the evidence, so it is logged.
            return await self._signer.last_line(tenant_id)


def _policy(config: Config) -> RuleSet:
    return RuleSet(config.policy.in_force, remember_described=config.policy.remember_described)


def _limits(config: Config) -> Limits:
    return Limits(
        timeout_ms=config.limits.timeout_ms, approval_ttl_ms=config.limits.approval_ttl_ms,
        queue_ttl_ms=config.limits.queue_ttl_ms, detach_ttl_ms=config.limits.detach_ttl_ms,
        pause_ttl_ms=config.limits.pause_ttl_ms,
        buffer_policy=config.gateway.buffer_policy, budgets=tuple(config.budgets),
        on_unasked=config.policy.on_unasked,
        webhooks=tuple(config.ways()), push=config.push is not None,
        compaction=compaction_rules(config),
    )


async def _pair_own(pairings: Pairings, token_file: Path) -> None:
    token = (await asyncio.to_thread(token_file.read_text, "ascii")).strip()
    if not await pairings.take_own(LOCAL_RUNNER, OWNER_TENANT, token, os.uname().nodename):
        log.warning("local_runner_is_revoked", remedy=f"remove {token_file} and start again to pair it")


def _cluster_place(section: GatewaySection, others: Others | None) -> ClusterPlace | None:
    return None if others is None else ClusterPlace(others.leases, others.bus, "all", _address(section))


def _address(section: GatewaySection) -> str:
    """Return this gateway's name in `status`: its machine, and its port unless the system chooses it."""
    return os.uname().nodename + (f":{section.port}" if section.port else "")


def _near(host: str) -> str:
    """Return the host by which this machine reaches a listener: one on every address is reached on loopback."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)
    return f"[{host}]" if ":" in host else host


def _announce(state: Path, url: str, cert: str | None) -> None:
    """Write the gateway's URL, and the certificate by which clients on this machine recognise it."""
    known_by = {"cert": str(Path(cert).expanduser().absolute())} if cert is not None else {}
    replace_file(state / ANNOUNCEMENT, msgspec.json.encode({"url": url, "pid": os.getpid(), **known_by}))
