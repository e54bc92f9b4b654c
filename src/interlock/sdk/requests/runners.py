"""Runners: pairing, tokens, their end."""

from __future__ import annotations

from interlock.protocol.api.gateway import LIST_NODES
from interlock.protocol.api.runners import LIST_RUNNERS, OFFER_PAIRING, PAIR_RUNNER, REVOKE_RUNNER, ROTATE_RUNNER
from interlock.protocol.bodies import PairBody, PairingBody, RunnerBody
from interlock.protocol.resources import PairingCode, Runner, RunnerToken
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.methods import SingleRequest
from interlock.sdk.requests.base import change, plain


def offer_pairing(*, device_name: str = "", idempotency_key: str | None = None) -> RequestSpec[PairingCode]:
    """Create a code that pairs one runner."""
    return change(OFFER_PAIRING, body=PairingBody(device_name=device_name), key=idempotency_key)


def pair(code: str, *, device_name: str = "") -> RequestSpec[RunnerToken]:
    """Use a pairing code. It is valid once, so this is never sent a second time."""
    return change(PAIR_RUNNER, body=PairBody(code=code, device_name=device_name))


def rotate_runner(runner_id: str, *, idempotency_key: str | None = None) -> RequestSpec[RunnerToken]:
    """Replace the token of a runner."""
    return change(ROTATE_RUNNER, runner_id, body=RunnerBody(), key=idempotency_key)


def revoke_runner(runner_id: str, *, idempotency_key: str | None = None) -> RequestSpec[Runner]:
    """Revoke a runner permanently."""
    return change(REVOKE_RUNNER, runner_id, body=RunnerBody(), key=idempotency_key)


class RunnerMethods:
    """The hosts that agents run on."""

    list = SingleRequest(plain(LIST_RUNNERS, "List every runner that was ever paired."))
    nodes = SingleRequest(plain(LIST_NODES, "List the runners' current state: online, their agents, their roots."))
    offer_pairing = SingleRequest(offer_pairing)
    pair = SingleRequest(pair)
    rotate = SingleRequest(rotate_runner)
    revoke = SingleRequest(revoke_runner)
