"""Pairing and credentials of runners."""

from __future__ import annotations

from interlock.protocol.answers import RunnerList
from interlock.protocol.api.operation import ADMINS, NO_ROLES, READERS, Operation
from interlock.protocol.bodies import PairBody, PairingBody, RunnerBody
from interlock.protocol.resources import PairingCode, Runner, RunnerToken

LIST_RUNNERS = Operation(
    "listRunners", "GET", "/runners", "",
    roles=READERS, answers=RunnerList,
    verb="runners list")
OFFER_PAIRING = Operation(
    "offerPairing", "POST", "/runners/pairings",
    "A code, shown once.",
    roles=ADMINS, body=PairingBody, body_optional=True, answers=PairingCode, status=201, secret=True,
    codes=("QuotaExceeded",),
    verb="runners code")
PAIR_RUNNER = Operation(
    "pairRunner", "POST", "/runners/pair",
    "Runner id and token. The code is the credential; it answers once.",
    roles=NO_ROLES, body=PairBody, answers=RunnerToken, status=201, public=True, codes=("Conflict",),
    verb="runner pair")
ROTATE_RUNNER = Operation(
    "rotateRunner", "POST", "/runners/{runner_id}/rotate",
    "The new token, shown once.",
    roles=ADMINS, body=RunnerBody, body_optional=True, answers=RunnerToken, secret=True, codes=("Conflict",),
    verb="runners rotate")
REVOKE_RUNNER = Operation(
    "revokeRunner", "POST", "/runners/{runner_id}/revoke",
    "The runner.",
    roles=ADMINS, body=RunnerBody, body_optional=True, answers=Runner, codes=("Conflict",),
    verb="runners revoke")
