"""Pairing and credentials of runners."""

from __future__ import annotations

from interlock.protocol.answers import RunnerList
from interlock.protocol.api.operation import ADMINS, NO_ROLES, READERS, Operation
from interlock.protocol.bodies import PairBody, PairingBody, RunnerBody
from interlock.protocol.resources import PairingCode, Runner, RunnerToken

LIST_RUNNERS = Operation(
    "listRunners", "GET", "/runners",
    "List every runner that was ever paired.",
    roles=READERS, answers=RunnerList,
    verb="runners list")
OFFER_PAIRING = Operation(
    "offerPairing", "POST", "/runners/pairings",
    "Create a one-time code that pairs a runner; the code is shown once.",
    roles=ADMINS, body=PairingBody, body_optional=True, answers=PairingCode, status=201, secret=True,
    codes=("QuotaExceeded",),
    verb="runners code")
PAIR_RUNNER = Operation(
    "pairRunner", "POST", "/runners/pair",
    "Exchange a pairing code for a runner's id and token. The code is the credential, and is valid once.",
    roles=NO_ROLES, body=PairBody, answers=RunnerToken, status=201, public=True, codes=("Conflict",),
    verb="runner pair")
ROTATE_RUNNER = Operation(
    "rotateRunner", "POST", "/runners/{runner_id}/rotate",
    "Replace a runner's token; the new one is shown once.",
    roles=ADMINS, body=RunnerBody, body_optional=True, answers=RunnerToken, secret=True, codes=("Conflict",),
    verb="runners rotate")
REVOKE_RUNNER = Operation(
    "revokeRunner", "POST", "/runners/{runner_id}/revoke",
    "Revoke a runner's token permanently; return the runner.",
    roles=ADMINS, body=RunnerBody, body_optional=True, answers=Runner, codes=("Conflict",),
    verb="runners revoke")
