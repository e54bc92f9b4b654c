"""Requests on runners: pairing, tokens, revocation."""

from __future__ import annotations

from interlock.protocol.api.gateway import LIST_NODES
from interlock.protocol.api.runners import LIST_RUNNERS, OFFER_PAIRING, PAIR_RUNNER, REVOKE_RUNNER, ROTATE_RUNNER
from interlock.protocol.bodies import PairBody, PairingBody, RunnerBody
from interlock.protocol.resources import PairingCode, Runner, RunnerToken
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.methods import ApiResource, LinkT, SingleRequest
from interlock.sdk.requests.base import change, plain


def offer_pairing(*, device_name: str = "", idempotency_key: str | None = None) -> RequestSpec[PairingCode]:
    """Create a code that pairs one runner."""
    return change(OFFER_PAIRING, body=PairingBody(device_name=device_name), key=idempotency_key)


def pair(code: str, *, device_name: str = "") -> RequestSpec[RunnerToken]:
    """Pair a runner by its code. The code is valid once, so the request is never repeated."""
    return change(PAIR_RUNNER, body=PairBody(code=code, device_name=device_name))


def rotate_runner(runner_id: str, *, idempotency_key: str | None = None) -> RequestSpec[RunnerToken]:
    """Replace a runner's token."""
    return change(ROTATE_RUNNER, runner_id, body=RunnerBody(), key=idempotency_key)


def revoke_runner(runner_id: str, *, idempotency_key: str | None = None) -> RequestSpec[Runner]:
    """Revoke a runner permanently."""
    return change(REVOKE_RUNNER, runner_id, body=RunnerBody(), key=idempotency_key)


class RunnerMethods(ApiResource[LinkT]):
    """The hosts that agents run on."""

    list = SingleRequest(plain(LIST_RUNNERS, "Return every runner that was ever paired."))
    nodes = SingleRequest(plain(LIST_NODES, "Return the runners as they are now: online, their agents, their roots."))
    offer_pairing = SingleRequest(offer_pairing)
    pair = SingleRequest(pair)
    rotate = SingleRequest(rotate_runner)
    revoke = SingleRequest(revoke_runner)
