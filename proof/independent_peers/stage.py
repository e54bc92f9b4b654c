"""The environment of plays: our gateway and our runner as processes, and peers that connect to them."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import itertools
import os
import sys
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from proof.independent_peers.breaks import HONEST, Break
from proof.independent_peers.peer_client import Person
from proof.independent_peers.peer_gateway import Master, Session
from proof.independent_peers.peer_runner import LocalClient
from proof.independent_peers.profile import Broken
from proof.independent_peers.table import NotPlayed
from proof.processes.stack import Stack

AGENTS = Path(__file__).with_name("agents.py")
BURST = 300
"""Requests of one principal at once; each play has principals of its own."""
COMMANDS_A_DAY = 12
WAITING_REQUESTS = 64
SDK_AGENT = "own"
MODEL_KEY = "INTERLOCK_PROOF_MODEL_KEY"
WEBHOOK_SECRET = "INTERLOCK_PROOF_WEBHOOK_SECRET"

CONFIG = f"""
[rates]
principal_a_minute = 60
principal_burst = {BURST}
principal_commands_a_day = {COMMANDS_A_DAY}
refused_a_minute = 0

[webhooks.dead]
url = "http://127.0.0.1:9/"
secret_env = "{WEBHOOK_SECRET}"

[outgoing]
allow = ["127.0.0.1/32"]

[[policy.rules]]
name = "two people"
effect = "ask"
door = "command"
agent = "two-*"
required = 2

[[policy.rules]]
name = "one person"
effect = "ask"
door = "command"
agent = "one-*"

[[policy.rules]]
name = "soon"
effect = "ask"
door = "tool"
tool = "soon"
ttl = "1s"

[[policy.rules]]
name = "a reset is asked for"
effect = "ask"
type = "reset"
"""


def _agent(name: str, adapter: str, *words: str) -> str:
    args = ", ".join(f'"{word}"' for word in ("-S", str(AGENTS), *words))
    return f'\n[agents.{name}]\nadapter = "{adapter}"\ncommand = "{sys.executable}"\nargs = [{args}]\n'


OUR_AGENTS = (_agent("single", "exec", "exec", "{prompt}") + _agent("staying", "dps", "dps")
              + _agent("compacts", "dps", "dps", "compacts") + _agent("stubborn", "dps", "dps", "stubborn")
              + _agent("killed", "dps", "dps", "killed")
              + _agent("unset", "exec", "exec", "{prompt}").replace(
                  f'command = "{sys.executable}"\nargs = [',
                  f'command = "/usr/bin/env"\nargs = ["-u", "RAWP_WORKSPACE_PATH", "{sys.executable}", '))


class Stage:
    """The two processes, and everything that plays join to them."""

    def __init__(self, stack: Stack, master: Master, owner: Person, broken: Break) -> None:
        self._stack = stack
        self.master = master
        self.broken = broken
        self._numbers = itertools.count(1)
        self._owner = owner
        self._pairing = asyncio.Lock()

    def under(self, broken: Break) -> Stage:
        """The same stage with a break in it."""
        stage = Stage(self._stack, self.master, self._owner, broken)
        stage._numbers = self._numbers
        stage._pairing = self._pairing
        return stage

    # --- against our gateway ---
    @property
    def port(self) -> int:
        """The gateway's."""
        return self._stack.port

    async def person(self, *roles: str, tenant: str | None = None) -> Person:
        """A new principal with a key; by default an operator who may also approve."""
        name = f"person-{next(self._numbers)}"
        body: dict[str, Any] = {"principal": {"type": "user", "id": name}, "roles": list(roles) or ["admin"]}
        if tenant is not None:
            body["tenant_id"] = tenant
        answer = await self._owner.post("/keys", body)
        if answer.status not in (200, 201):
            raise Broken(f"POST /keys: {answer.status} {answer.body}")
        return Person(self.port, answer.body["key"], self.broken.answer)

    @property
    def owner(self) -> Person:
        """The client with all rights."""
        return self._owner

    @contextlib.asynccontextmanager
    async def client(self, agent_id: str | None = None, adapter_type: str = "process",
                     **features: Any) -> AsyncGenerator[tuple[LocalClient, dict[str, Any]]]:
        """A Local Client of its own, paired and linked, and the target that reaches it."""
        name = agent_id or f"peer-{next(self._numbers)}"
        code = (await self._owner.post("/runners/pairings", {"device_name": name})).body["code"]
        paired = (await self._owner.post("/runners/pair", {"code": code})).body
        client = LocalClient(f"http://127.0.0.1:{self.port}", paired["token"], paired["runner_id"], name,
                             self.broken, adapter_type, features)
        await client.dial()
        try:
            yield client, {"agent_id": name, "runner_id": paired["runner_id"]}
        finally:
            await client.close()

    # --- against our runner ---
    async def session(self, agent_id: str, policy: str | None = None, *, opened: bool = True) -> tuple[Session, Path]:
        """A session that our runner has opened, or with `opened` False is to open, and its workspace."""
        agent_id = self.broken.agent(agent_id)
        if agent_id == SDK_AGENT and not has_sdk():
            raise NotPlayed("needs the extra `agent`")
        place = self._stack.workspace / f"w{next(self._numbers)}"
        place.mkdir()
        await self.master.attached()
        session = self.master.session(agent_id, str(place), self.broken, policy)
        if opened:
            await session.open()
        return session, place


def has_sdk() -> bool:
    """Whether an agent of the type sdk can be driven here."""
    return importlib.util.find_spec("pydantic_ai") is not None


@contextlib.asynccontextmanager
async def stage(place: Path, broken: Break = HONEST) -> AsyncGenerator[Stage]:
    """Start gateway and runner, the one for our runner's peer, the other for our gateway's. Raises NotReady."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(WAITING_REQUESTS))
    master = Master()
    with contextlib.ExitStack() as exits:
        for name in (MODEL_KEY, WEBHOOK_SECRET):
            os.environ[name] = "whsec_" + "c2VjcmV0" * 8
            exits.callback(os.environ.pop, name)
        stack = Stack(place, CONFIG + OUR_AGENTS + _sdk_agent(exits), on_file=True)
        async with master.listen() as port:
            stack.runner_url = f"http://127.0.0.1:{port}"
            exits.callback(stack.down)
            stack.start("gateway")
            stack.start("runner")
            await asyncio.to_thread(stack.until_up)
            await master.attached()
            key = (stack.state / "owner.key").read_text().strip()
            yield Stage(stack, master, Person(stack.port, key, broken.answer), broken)
            await asyncio.to_thread(stack.down)


def _sdk_agent(exits: contextlib.ExitStack) -> str:
    """An agent of the type sdk against a model server on loopback, if available."""
    if not has_sdk():
        return ""
    from interlock.model_stand_in import running_model_server

    model = exits.enter_context(running_model_server())
    return (f'\n[agents.{SDK_AGENT}]\nadapter = "builtin"\nmodel = "anthropic/claude-sonnet-5-5"\n'
            f'base_url = "{model.url}"\napi_key_env = "{MODEL_KEY}"\ncontext_window = 200000\n')
