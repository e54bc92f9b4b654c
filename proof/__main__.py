"""`python -m proof NAME… [--cluster] [--seed N] [--rounds N]`: run proofs and print their counts; exit status 1 if one
fails."""

from __future__ import annotations

import argparse
import importlib
import random
import signal
import sys
from pathlib import Path
from types import FrameType

from proof.access import tenant_doors
from proof.agents.installed_agents import AGENTS
from proof.audit import database_tampering
from proof.independent_peers.breaks import BREAKS
from proof.policy import approval_display, rule_attacks
from proof.processes import cluster_servers
from proof.processes.stack import NotReady
from proof.simulation import EARLIER, FAILURES_A_SECOND, FULL_COUNTS, LANE_BREAKS

PROOFS = {
    "kill": "proof.recovery.random_kills",
    "landing": "proof.recovery.landing_kills",
    "boxed": "proof.agents.boxed_agents",
    "door": "proof.agents.permission_matrix",
    "hold": "proof.agents.held_tool_call",
    "hold-claude": "proof.agents.held_claude_call",
    "flood": "proof.sessions.output_flood",
    "fuzz": "proof.protocol.frame_fuzz",
    "S1": "proof.access.tenant_isolation",
    "S2": "proof.access.forged_tokens",
    "S3": "proof.access.forged_votes",
    "S6": "proof.access.hostile_requests",
    "S7": "proof.access.secret_canaries",
    "S5": "proof.protocol.api_schema",
    "S8": "proof.access.internal_urls",
    "S9": "proof.sessions.viewer_flood",
    "S10": "proof.access.tenant_doors",
    "R1": "proof.sessions.idempotency_storm",
    "R2": "proof.recovery.kills_under_load",
    "R3": "proof.recovery.power_cut",
    "R4": "proof.recovery.failpoint_kills",
    "R5": "proof.cluster.leases",
    "R8": "proof.sessions.cancel_race",
    "R9": "proof.sessions.timers",
    "R6": "proof.sessions.reference_model",
    "R7": "proof.sessions.quorum_race",
    "R10": "proof.sessions.stream_resume",
    "R11": "proof.sessions.fan_out",
    "R12": "proof.sessions.link_faults",
    "R13": "proof.recovery.soak",
    "R14": "proof.recovery.disk_full",
    "R15": "proof.recovery.orphaned_agents",
    "T1": "proof.recovery.transcript_damage",
    "A1": "proof.audit.log_tampering",
    "A2": "proof.audit.completeness",
    "A3": "proof.audit.interoperability",
    "cascade": "proof.cluster.cascade",
    "failover": "proof.cluster.database_failover",
    "rolling": "proof.cluster.rolling_restart",
    "moving": "proof.cluster.tenant_migration",
    "seeds": "proof.independent_peers",
    "acp": "proof.recovery.acp_client_kills",
    "box": "proof.box.escapes",
    "policy": "proof.policy.rule_attacks",
    "shown": "proof.policy.approval_display",
    "tamper-database": "proof.audit.database_tampering",
    "simulation": "proof.simulation.full_run",
}
CLUSTERED = {
    "R2": "proof.cluster.process_kills",
    "R5": "proof.cluster.leases",
    "R8": "proof.cluster.cancel_race",
    "R9": "proof.cluster.timers",
    "R10": "proof.cluster.stream_resume",
}
"""What replaces a proof with --cluster; R5 is of a cluster in any case."""

BREAKABLE = {"seeds": sorted(BREAKS), "policy": list(rule_attacks.PARTS), "shown": list(approval_display.PARTS),
             "S10": list(tenant_doors.PARTS), "tamper-database": list(database_tampering.PARTS),
             "simulation": [*EARLIER, *LANE_BREAKS]}
"""What `--break` may name, by proof."""
COUNTS = {"simulation": (*FULL_COUNTS, "failures"), "cascade": ("rtt", "kills", "sessions", "into", "inner")}
"""The further arguments that a proof takes."""


def main() -> int:
    """Run the proofs that are named, in order."""
    parser = argparse.ArgumentParser(prog="python -m proof", description=__doc__)
    parser.add_argument("names", nargs="+", choices=sorted(PROOFS), metavar="NAME",
                        help=f"one or more of: {', '.join(sorted(PROOFS))}")
    parser.add_argument("--seed", type=int, default=None, help="repeat a run; printed by each run")
    parser.add_argument("--rounds", "--minutes", type=int, default=None, dest="rounds",
                        help="how often, or for R13 how many minutes; each proof has its own full count")
    parser.add_argument("--cluster", action="store_true",
                        help=f"against three gateways on PostgreSQL and NATS: {', '.join(CLUSTERED)}")
    for count, full in FULL_COUNTS.items():
        parser.add_argument(f"--{count}", type=int, default=None,
                            help=f"of the simulation; its full count is {full:,}")
    parser.add_argument("--failures", type=float, default=None,
                        help="of the simulation: how many a simulated second on average, of gateways that die, stand "
                             "still, lose the bus, its notes or the store, of links cut and runners killed; "
                             f"{FAILURES_A_SECOND} where none is given")
    parser.add_argument("--rtt", type=float, nargs="+", default=None, metavar="MS",
                        help="milliseconds of a round trip. Of cascade: one part at each of them. With --cluster: "
                             "between the gateways and PostgreSQL and NATS. Of the simulation: "
                             "one, by which operations hold each other up; else each takes some random milliseconds")
    parser.add_argument("--kills", type=int, default=None,
                        help="of cascade: how many in all; the full count is 100, under 1,000 --sessions")
    parser.add_argument("--inner", action="store_true",
                        help="of cascade: agents inside their runners, all at work all the time, so that 10,000 "
                             "--sessions have room; measures how long each takeover takes")
    parser.add_argument("--into", type=Path, default=None, metavar="FILE",
                        help="of cascade: keeps each part that has passed, so that a run that was broken off goes on")
    parser.add_argument("--replay", type=Path, default=None, metavar="FILE",
                        help="of the simulation: decide the inputs of a saved log again, with --break on an engine "
                             "that is broken on purpose")
    parser.add_argument("--break", choices=[name for names in BREAKABLE.values() for name in names], dest="broken",
                        metavar="NAME", help="what is broken, and the proof must notice: "
                        + "; ".join(f"of {proof}: {', '.join(names)}" for proof, names in BREAKABLE.items()))
    parser.add_argument("--store", choices=database_tampering.STORES, default=None,
                        help="of tamper-database: what the ledger is kept in; sqlite without it")
    parser.add_argument("--agents", default=None, metavar="A,B",
                        help=f"of door and boxed: which agents; all of theirs without it: {', '.join(AGENTS)}")
    given = parser.parse_args()
    if unknown := [name for name in (given.agents.split(",") if given.agents else ()) if name not in AGENTS]:
        parser.error(f"--agents: there is no agent {', '.join(unknown)}; choose of {', '.join(AGENTS)}")
    proofs = CLUSTERED if given.cluster else PROOFS
    if given.broken and (len(given.names) > 1 or given.broken not in BREAKABLE.get(given.names[0], ())):
        parser.error(f"--break {given.broken} is for one proof alone, the one that has it")
    if alone := [name for name in given.names if name not in proofs]:
        parser.error(f"--cluster is for {', '.join(CLUSTERED)}, and not for {', '.join(alone)}")
    if given.rtt and not given.cluster and not {*given.names} <= {"cascade", "simulation"}:
        parser.error("--rtt is for cascade, simulation and what runs with --cluster")
    if given.rtt and len(given.rtt) > 1 and given.names != ["cascade"]:
        parser.error("--rtt has several values for cascade alone")
    if given.store and given.names != ["tamper-database"]:
        parser.error("--store is for tamper-database alone")
    if (given.into or given.inner) and given.names != ["cascade"]:
        parser.error("--into and --inner are for cascade alone")
    if given.replay and given.names != ["simulation"]:
        parser.error("--replay is for simulation alone")
    if given.replay and given.broken in EARLIER:
        parser.error(f"--replay is of one lane, and --break {given.broken} of a whole cluster")
    signal.signal(signal.SIGTERM, _end)
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(2**32)
    passed = True
    if given.cluster and given.rtt:
        cluster_servers.delay(given.rtt[0])
    for name in given.names:
        print(f"== {name} (seed {seed})", flush=True)
        try:
            passed &= _run(name, proofs[name], seed, given)
        except NotReady as not_ready:
            print(f"FAILED: it stands still; repeat with --seed {seed}\n{not_ready}")
            passed = False
    return 0 if passed else 1


def _run(name: str, module: str, seed: int, given: argparse.Namespace) -> bool:
    """Run one proof; whether it passed."""
    if given.replay:
        return bool(importlib.import_module("proof.simulation.input_log").replay_file(given.replay, given.broken or ""))
    if given.broken in (*LANE_BREAKS, *EARLIER):
        engines = importlib.import_module("proof.simulation.broken_engines")
        return bool(engines.run_broken_lane(seed, given.broken) if given.broken in LANE_BREAKS
                    else engines.run(seed, given.rtt, given.sessions))
    counts = {count: getattr(given, count) for count in COUNTS.get(name, ())}
    counts |= {"broken": given.broken} if name in BREAKABLE else {}
    counts |= {"agents": tuple(given.agents.split(",")) if given.agents else ()} if name in ("door", "boxed") else {}
    counts |= {"rtt": given.rtt[0]} if name == "simulation" and given.rtt else {}
    counts |= {"store": given.store} if given.store else {}
    return bool(importlib.import_module(module).run(seed, given.rounds, **counts))


def _end(number: int, _frame: FrameType | None) -> None:
    """End in order, with all that was started."""
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
