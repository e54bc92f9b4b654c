"""Interlock's own gateway and runner, checked by the conversations for other implementations."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import jsonschema
import pytest

from interlock.conformance.hands import RestHand
from interlock.conformance.links import Dialling, Listening
from interlock.conformance.player import Player
from interlock.conformance.sides import AsGateway, AsRunner
from interlock.conformance.steps import ConformanceConversation, ConformanceFinding
from interlock.conformance.with_master import WITH_MASTER
from interlock.conformance.with_runner import WITH_RUNNER
from interlock.protocol.frames import Direction, InvalidFrame, decode
from interlock.protocol.schema import json_schema
from proof.processes.fork_server import ForkServer
from proof.processes.stack import Stack

pytestmark = pytest.mark.anyio
PROMPT = "echo conformance"
SCHEMA = jsonschema.Draft202012Validator(json_schema())


def called(conversation: ConformanceConversation) -> str:
    return conversation.name


def check(finding: ConformanceFinding, player: Player, stack: Stack) -> None:
    """It held, and the schema is of one mind with the codec about every frame that crossed."""
    assert finding.outcome == "held", f"{finding.found}\n{stack.log('gateway')}\n{stack.log('runner')}"
    for sender, raw in player.record:
        try:
            decode(raw, Direction(sender))
            valid = True
        except InvalidFrame as error:
            valid = error.path == "$.type"  # Of the direction a schema knows nothing.
        assert SCHEMA.is_valid(json.loads(raw)) == valid, raw


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def master(tmp_path_factory: pytest.TempPathFactory,
                 fork_server: ForkServer) -> AsyncIterator[tuple[Stack, Player]]:
    """A gateway without its runner, and a player in the runner's place."""
    stack = Stack(tmp_path_factory.mktemp("master"), fork_server=fork_server)
    stack.start("gateway")
    stack.until_up()
    key = (stack.state / "owner.key").read_text().strip()
    door = Dialling(stack.url.replace("http", "ws") + "/rawp", stack.token.read_text().strip())
    yield stack, Player(door, AsRunner("local"), RestHand(stack.url, key))
    stack.down()
    assert "Traceback" not in stack.log("gateway")


@pytest.fixture(scope="module")
async def runner(tmp_path_factory: pytest.TempPathFactory,
                 fork_server: ForkServer) -> AsyncIterator[tuple[Stack, Player]]:
    """A runner, and a player at the gateway that it dials."""
    stack = Stack(tmp_path_factory.mktemp("runner"), fork_server=fork_server)
    listening = Listening(stack.token.read_text().strip())
    async with listening.open("127.0.0.1", 0):
        stack.runner_url = f"ws://127.0.0.1:{listening.port}/rawp"
        stack.start("runner")
        yield stack, Player(listening, AsGateway("shell", PROMPT))
        await asyncio.to_thread(stack.down)
    assert "Traceback" not in stack.log("runner")


@pytest.mark.req("L-2", "L-3", "L-4", "E-1", "E-2", "E-3", "E-4", "D-1", "D-2", "D-7", "W-1", "W-2", "T-2", "T-4",
                 "A-5")
@pytest.mark.parametrize("conversation", WITH_MASTER, ids=called)
async def test_our_gateway_conforms(conversation: ConformanceConversation, master: tuple[Stack, Player]) -> None:
    stack, player = master
    player.record.clear()
    check(await player.play(conversation), player, stack)


@pytest.mark.req("L-4", "L-5", "E-1", "E-3", "D-1", "D-2", "D-7", "W-1", "W-2", "T-1", "T-2", "T-3", "T-4", "A-4",
                 "A-5", "A-6")
@pytest.mark.parametrize("conversation", WITH_RUNNER, ids=called)
async def test_our_runner_conforms(conversation: ConformanceConversation, runner: tuple[Stack, Player]) -> None:
    stack, player = runner
    player.record.clear()
    check(await player.play(conversation), player, stack)
