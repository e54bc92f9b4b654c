"""`interlock agents`: list the agents that are offered here, configured, or on PATH without being set up."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from interlock import config
from interlock.agents import evidence
from interlock.agents.held import holding_of
from interlock.agents.mcp_servers import summary
from interlock.cli.agents.boxes import boxed, unwalled
from interlock.cli.agents.known_agents import found_on_path, snippet
from interlock.cli.config.loaded_config import load_config
from interlock.cli.config.place import NOWHERE, Here, Where
from interlock.cli.display.columns import Layout
from interlock.cli.display.terminal import one_line, print_json, print_table, result, say
from interlock.cli.exit_status import ExitStatus
from interlock.cli.link.gateway_link import GatewayLink
from interlock.cli.options import Json
from interlock.cli.verb_error import Trouble
from interlock.ports.agent import AgentSpec
from interlock.probe.scratch import digest_of
from interlock.protocol.api.gateway import LIST_NODES
from interlock.protocol.hold import MEANINGS, Holding, phrase
from interlock.sdk.requests.base import read

COLUMNS = Layout(text=("BOX", "IS HELD"), extra=("ADAPTER",), drop=("RUNNER", "BOX"))


def agents(*, json: Json = False, where: Here = NOWHERE) -> int:
    """List agents: those that runners offer, those configured, and those found on PATH with how to set them up."""
    loaded = load_config(where)
    offered, unreached = asyncio.run(_offers(where))
    configured: list[dict[str, Any]] = [
        {"agent_id": name, "adapter": spec.adapter, "command": spec.command, "args": spec.args,
         "found": not spec.command or shutil.which(spec.command) is not None,
         "mcp": {server: summary(one) for server, one in spec.mcp.items()}}
        for name, spec in loaded.agents.items()
    ]
    found = [
        {"agent_id": known.agent_id, "path": path, "adapter": known.adapter, "command": known.program,
         "args": list(known.args), "asks": known.asks, "remark": known.remark, "config": snippet(known),
         "configured": known.agent_id in loaded.agents}
        for known, path in found_on_path()
    ]
    for one in offered:
        one["held"] = _claimed(one)
    for one, spec in zip(configured, loaded.agents.values(), strict=True):
        one["held"] = how_held(str(one["agent_id"]), spec, where.directory())
    if json:
        print_json(msgspec.json.encode({"offered": offered, "gateway": unreached or "ok", "configured": configured,
                                        "found": found}))
        return ExitStatus.DONE
    _print_offers(offered, unreached)
    for agent in configured:
        if not agent["found"]:
            say(f"agents.{agent['agent_id']}: {agent['command']} is not on PATH; install it, or correct the config",
                "bold", "not on PATH")
        if agent["mcp"]:
            servers = " · ".join(f"{name}: {one_line(how, 100)}" for name, how in agent["mcp"].items())
            say(f"{agent['agent_id']} gets MCP servers: {servers}")
    _print_found([one for one in found if not one["configured"]], where)
    return ExitStatus.DONE


def how_held(name: str, spec: AgentSpec, state: Path) -> str:
    """Return how a configured agent is held, and the evidence (H-10): "asks (checked 2026-11-22, v1.52.0)"."""
    found = evidence.read(state).get(name)
    return phrase(holding_of(spec, found, digest_of(spec, os.environ) if found is not None else ""))


def _claimed(one: Mapping[str, Any]) -> str:
    """Return how an agent is held according to its runner."""
    offer = msgspec.convert(one.get("holding"), Holding | None)
    return phrase(offer) if offer is not None else "command" if one.get("permission") == "never" else "asks"


async def _offers(where: Where) -> tuple[list[dict[str, Any]], str | None]:
    """Return the runners' offers, and the reason if the gateway could not be reached."""
    try:
        async with GatewayLink(where) as link:
            nodes = (await link.ask(read(LIST_NODES))).nodes
    except Trouble as trouble:
        return [], trouble.line()
    offered = [{"runner_id": node.node_id, "status": node.status, **agent} for node in nodes for agent in node.agents]
    return offered, None


def _print_offers(offered: list[dict[str, Any]], unreached: str | None) -> None:
    if offered:
        print_table([[str(one.get("agent_id", "")), str(one["runner_id"]),
                      "cannot start" if one.get("unavailable") else str(one["status"]),
                      str(one.get("adapter", "")), str(one["held"]), boxed(one)]
                     for one in offered], ("AGENT", "RUNNER", "STATUS", "ADAPTER", "IS HELD", "BOX"), COLUMNS)
        for sentence in unwalled(offered):
            say(sentence)
        for one in offered:
            if one.get("unavailable"):
                say(f"{one_line(str(one.get('agent_id', '')))} cannot be started on {one['runner_id']}: "
                    f"{one_line(str(one['unavailable']), 300)}", "red", "cannot be started")
    elif unreached is not None:
        say(unreached)
    else:
        say("no runner offers an agent; start one with: interlock up")


def _print_found(found: list[dict[str, Any]], where: Where) -> None:
    if not found:
        say("no other known agent is on PATH", "dim")
        return
    result(f"\n# On PATH, to be set up in {where.directory() / config.FILE_NAME}, each with its API key in `env` if it "
           "needs one;\n# then: interlock config reload")
    for one in found:
        held = MEANINGS["asks" if one["asks"] else "command"]
        result(f"\n# {one_line(str(one['path']))}: {held}" + (f"; {one['remark']}" if one["remark"] else ""))
        result(str(one["config"]), end="")
