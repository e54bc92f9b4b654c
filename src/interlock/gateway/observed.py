"""Sessions that a runner tells of and another gateway opened: they get a lane of their own here, to be shown (D-5)."""

from __future__ import annotations

import structlog

from interlock.engine.bridge.lane import Lane
from interlock.engine.bridge.lane_state import LaneState
from interlock.engine.engine import Engine
from interlock.engine.lane_shell import LaneShell
from interlock.protocol.records import RunnerRecord
from interlock.session.keys import BadKey, canonical_agent, run_key

MAX_WORKSPACE_CHARS = 4_096
"""What is kept of a workspace's path that a runner tells of."""
MAX_ID_CHARS = 64
"""A session's id, and a gateway's, are UUIDs or as short as one; a longer one is not taken up."""

log = structlog.get_logger()


async def observe(engine: Engine, runner: RunnerRecord, session_id: str, controller: str, agent_id: str,
                  workspace: str) -> LaneShell | None:
    """Begin the lane of a session that `controller` controls; None where what the runner tells of it cannot be."""
    if not controller or controller == engine.lanes.gateway_id or max(len(session_id), len(controller)) > MAX_ID_CHARS:
        return None
    try:
        agent = canonical_agent(agent_id)
    except BadKey as error:
        log.warning("a session cannot be observed", session_id=session_id, reason=str(error))
        return None
    fresh = LaneState(
        session_id=session_id, tenant_id=runner.tenant_id, session_key=run_key(agent, session_id), agent_id=agent,
        runner_id=runner.runner_id, workspace=workspace[:MAX_WORKSPACE_CHARS], created_ms=engine.clock.now_ms(),
        controller=controller,
    )
    shell = await engine.lanes.lane(session_id, fresh)
    if shell is not None and shell.lane.state is fresh:
        await shell.call(_write)
        log.info("session observed", session_id=session_id, controller=controller, runner_id=runner.runner_id)
    return shell


def _write(lane: Lane) -> None:
    lane.out.writes.append(lane.snapshot())
