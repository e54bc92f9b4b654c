"""S3: forged votes of every kind, each refused: 0 counted, with honest ones counted between them."""

from __future__ import annotations

import asyncio
import base64
import random
import secrets
from collections import Counter
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from interlock.command.policy.policy import Rule, RuleSet
from interlock.command.signature import CLOCK_MS, PREFIX, Statement
from interlock.config import Config, RatesSection
from interlock.engine.bridge.lane_state import Limits
from interlock.engine.presence import Present
from interlock.protocol import payloads as p
from interlock.protocol.clock import iso
from interlock.protocol.envelope import DPS_VERSION
from interlock.protocol.problems import Problem
from interlock.protocol.records import Principal, RunnerRecord
from interlock.protocol.resources import Actor, GrantBody
from proof.processes.in_memory_gateway import InMemoryGateway

VOTES = 10_000
PER_TENANT = 500
"""Votes on one gateway; the next begins with an empty ledger."""
RULES = [Rule(name="three", effect="ask", door="command", required=3, self_approval=False, signed=True)]
Grant = dict[str, Any]


class Signer:
    """A person with a key pair, registered through the API."""

    def __init__(self, token: str, person: str) -> None:
        self.token, self.person = token, person
        self._key = Ed25519PrivateKey.generate()
        self.public = base64.b64encode(self._key.public_key().public_bytes_raw()).decode()
        self.key_id = ""

    def statement(self, approval: dict[str, Any], at_ms: int, **changes: Any) -> Statement:
        """The statement of an honest vote, with `changes`."""
        honest = Statement(approval["tenant_id"], approval["id"], approval["digest"], "grant", f"user:{self.person}",
                           self.key_id, iso(at_ms))
        return honest._replace(**changes)

    def grant(self, statement: Statement, prefix: bytes = PREFIX, **changes: Any) -> Grant:
        """A vote with the signature on `statement`, but for `changes`."""
        signed = prefix + statement.signed_bytes().removeprefix(PREFIX)
        return {"decision": "grant", "method": "signature", "key_id": self.key_id, "at": statement.at,
                "digest": statement.digest, "signature": base64.b64encode(self._key.sign(signed)).decode(), **changes}


class SilentPerson:
    """A link whose runner accepts every frame and sends none."""

    def send(self, raw: bytes) -> None:
        """Take a frame."""

    def ack(self, session_id: str, seq: int) -> None:
        """Take an acknowledgement."""

    def forget(self, session_id: str) -> None:
        pass

    def fail(self, sentence: str) -> None:
        """Take the end."""


class VotingGateway:
    """A gateway inside this process with two tenants, people of every role, and commands that wait for three yeses."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.inside = InMemoryGateway(Config(rates=RatesSection(
            principal_a_minute=0, tenant_a_minute=0, refused_a_minute=0)))
        self.inside.engine.configure(RuleSet(RULES), Limits())
        self.honest = 0

    async def begin(self) -> None:
        """Let people, keys and a runner come."""
        inside = self.inside
        self.keys = await inside.tenant("acme", ("viewer", "operator", "auditor", "approver", "admin", "owner"))
        self.far = await inside.tenant("other", ("approver", "owner"))
        offer = p.AgentOffer(agent_id="shell", adapter="acp", adapter_type="process", permission="asks",
                             context_owner="agent")
        hello = p.Hello(versions=[DPS_VERSION], runner_id="r1", boot_id="b", agents=[offer], sessions=[], roots=["/w"])
        inside.engine.presence.arrive(Present(RunnerRecord(
            runner_id="r1", tenant_id="acme", token_sha256="", device_name="h", created_ms=0, last_seen_ms=0), hello, 0
        )).connect(SilentPerson())
        self.ann = await self._signer("approver", "acme-approver")
        self.boss = await self._signer("admin", "acme-admin")
        self.gone = await self._signer("owner", "acme-owner", revoked=True)
        self.stranger = Signer(self.keys["approver"], "acme-approver")
        self.stranger.key_id = self.ann.key_id
        self.one, self.two = await self.waiting(), await self.waiting()

    async def _signer(self, role: str, person: str, *, revoked: bool = False) -> Signer:
        signer = Signer(self.keys[role], person)
        made = await self.inside.ask(signer.token, "POST", "/v1/signing-keys", json={"public_key": signer.public})
        signer.key_id = made.json()["key_id"]
        if revoked:
            await self.inside.ask(signer.token, "POST", f"/v1/signing-keys/{signer.key_id}/revoke")
        return signer

    async def waiting(self) -> dict[str, Any]:
        """Submit a command of the admin that waits for an approval, and return the approval."""
        content = [{"contentType": "text", "value": "the same words"}]
        made = await self.inside.ask(self.keys["admin"], "POST", "/v1/commands", json={
            "type": "execute", "target": {"agent_id": "shell", "runner_id": "r1"},
            "payload": {"messages": [{"role": "user", "content": content}]}})
        assert made.status_code == 202, made.text
        shown = await self.inside.ask(self.keys["admin"], "GET", f"/v1/approvals/{made.json()['approval_id']}")
        answer: dict[str, Any] = shown.json()
        return answer

    def forgery(self) -> tuple[str, str | None, Grant]:
        """Give a forged vote on `self.one`: (kind, whose credentials, body)."""
        dice, ann, now = self.dice, self.ann, self.inside.clock.at_ms
        good = ann.statement(self.one, now)
        cut = base64.b64decode(ann.grant(good)["signature"])
        flipped = bytearray(cut)
        flipped[dice.randrange(64)] ^= 1 << dice.randrange(8)
        skew = dice.choice((-1, 1)) * (CLOCK_MS + 1 + dice.randrange(10**9))
        other = secrets.token_hex(32)
        kinds: dict[str, tuple[str | None, Grant]] = {
            "no signature": (ann.token, {"decision": "grant"}),
            "method acl with a signature": (ann.token, ann.grant(good, method="acl")),
            "wrong digest named": (ann.token, ann.grant(good, digest=other)),
            "wrong digest signed": (ann.token, ann.grant(ann.statement(self.one, now, digest=other),
                                                         digest=self.one["digest"])),
            "another approval's signature": (ann.token, ann.grant(ann.statement(self.two, now))),
            "another tenant signed": (ann.token, ann.grant(ann.statement(self.one, now, tenant_id="other"))),
            "another decision signed": (ann.token, ann.grant(ann.statement(self.one, now, decision="deny"))),
            "another person signed": (ann.token, ann.grant(ann.statement(self.one, now, approver="user:bob"))),
            "another key named in it": (ann.token, ann.grant(ann.statement(self.one, now, key_id=self.boss.key_id))),
            "another moment than signed": (ann.token, ann.grant(good, at=iso(now + 1 + dice.randrange(CLOCK_MS)))),
            "a clock that is off": (ann.token, ann.grant(ann.statement(self.one, now + skew))),
            "a moment that is none": (ann.token, ann.grant(good, at=dice.choice(("now", "", "2026-13-01", "0")))),
            "a bit flipped": (ann.token, ann.grant(good, signature=base64.b64encode(flipped).decode())),
            "a signature cut": (ann.token, ann.grant(good, signature=base64.b64encode(cut[:dice.randrange(64)]
                                                                                      ).decode())),
            "not base64": (ann.token, ann.grant(good, signature="!" * dice.randrange(1, 90))),
            "another purpose signed": (ann.token, ann.grant(good, prefix=b"racp-approval-v0\n")),
            "no purpose signed": (ann.token, ann.grant(good, prefix=b"")),
            "a stranger's key under ann's name": (ann.token, self.stranger.grant(good)),
            "a key that is not there": (ann.token, ann.grant(good, key_id="sgk_" + secrets.token_hex(8))),
            "a revoked key": (self.gone.token, self.gone.grant(self.gone.statement(self.one, now))),
            "ann's signature sent by another": (self.keys["owner"], ann.grant(good)),
            "the requester itself": (self.boss.token, self.boss.grant(self.boss.statement(self.one, now))),
            "a viewer": (self.keys["viewer"], ann.grant(good)),
            "an operator": (self.keys["operator"], ann.grant(good)),
            "an auditor": (self.keys["auditor"], ann.grant(good)),
            "an approver of another tenant": (self.far["approver"], ann.grant(good)),
            "the owner of another tenant": (self.far["owner"], ann.grant(good)),
            "nobody": (None, ann.grant(good)),
            "a made up credential": ("ilk_" + secrets.token_urlsafe(32), ann.grant(good)),
            "a changed input, signed": (ann.token, ann.grant(good, updated_input={"messages": []})),
            "an actor in the body": (ann.token, {"decision": "grant", "by": "user:bob", "role": "admin"}),
        }
        kind = dice.choice(sorted(kinds))
        return kind, *kinds[kind]

    async def state_and_votes(self, approval: dict[str, Any]) -> tuple[str, int]:
        """The approval's state and its votes, as the ledger has them."""
        record = await self.inside.ledger.approval(approval["id"], approval["tenant_id"])
        assert record is not None
        return record.approval.state, len(record.approval.votes)

    async def driven(self) -> bool:
        """An agent of the requester votes with ann's role. True if it was refused."""
        agent = Principal(tenant_id="acme", actor=Actor(type="agent", id="bot"), role="approver", key_id="k",
                          driver=Actor(type="user", id="acme-admin"))
        try:
            await self.inside.engine.vote(agent, self.one["id"], GrantBody(decision="grant"), _no_memory)
        except Problem as problem:
            return problem.code in ("Forbidden", "Conflict")
        return False

    async def honest_vote(self) -> str | None:
        """An honest vote of ann's on `self.one`: counted once, and not again when it is sent once more by itself, or
        replayed on the next approval, which takes this one's place. Gives what went wrong."""
        grant = self.ann.grant(self.ann.statement(self.one, self.inside.clock.at_ms))
        path = f"/v1/approvals/{self.one['id']}/grants"
        for _ in range(2):
            answer = await self.inside.ask(self.ann.token, "POST", path, json=grant)
            if answer.status_code != 200 or await self.state_and_votes(self.one) != ("pending", 1):
                return f"an honest vote: {answer.status_code} {answer.text} {await self.state_and_votes(self.one)}"
        self.honest += 1
        self.one, self.two = await self.waiting(), self.one
        replayed = await self.inside.ask(self.ann.token, "POST", f"/v1/approvals/{self.one['id']}/grants", json=grant)
        if replayed.is_success or await self.state_and_votes(self.one) != ("pending", 0):
            return f"a replayed signature: {replayed.status_code}"
        return None


def _no_memory(_resource: Any) -> Any:
    raise AssertionError("the vote was counted")


async def trial(seed: int, votes: int) -> dict[str, Any]:
    """Send `votes` forged votes: {forged, kinds, honest, counted, wrong}."""
    dice, kinds, wrong = random.Random(seed), Counter[str](), list[str]()
    honest = counted = 0
    for first in range(0, votes, PER_TENANT):
        voting = VotingGateway(dice)
        await voting.begin()
        for number in range(min(PER_TENANT, votes - first)):
            if number % 50 == 25 and (sentence := await voting.honest_vote()) is not None:
                wrong.append(sentence)
            kind, token, grant = voting.forgery()
            if number % 40 == 20:
                kind = "an agent that the requester drives"
                refused, shown = await voting.driven(), ""
            else:
                answer = await voting.inside.ask(token, "POST", f"/v1/approvals/{voting.one['id']}/grants",
                                                content=msgspec.json.encode(grant),
                                                headers={"Content-Type": "application/json"})
                refused, shown = 400 <= answer.status_code < 500, f"{answer.status_code} {answer.text}"
            kinds[kind] += 1
            state = await voting.state_and_votes(voting.one)
            if state != ("pending", 0):
                counted += 1
                voting.one = await voting.waiting()
            if not refused or state != ("pending", 0):
                wrong.append(f"{kind}: {shown} {state}")
        honest += voting.honest
        await voting.inside.close()
    return {"forged": votes, "kinds": len(kinds), "honest": honest, "counted": counted, "wrong": wrong}


def run(seed: int, rounds: int | None) -> bool:
    """Run the trial and print what it counted."""
    figures = asyncio.run(trial(seed, rounds or VOTES))
    wrong = figures.pop("wrong")
    print(f"  {figures}; {len(wrong)} answered wrongly", flush=True)
    for sentence in wrong[:5]:
        print("  !", sentence)
    return not wrong and figures["counted"] == 0
