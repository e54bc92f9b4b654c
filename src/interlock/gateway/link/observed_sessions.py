"""Sessions that a runner reports and another gateway opened: they get a lane here, to be visible (D-5)."""

from __future__ import annotations

import re

import structlog

from interlock.engine.bridge.inputs.runner import ObservationBegun
from interlock.engine.bridge.lane_state import LaneState
from interlock.engine.engine import Engine
from interlock.engine.lanes.lane_shell import LaneShell
from interlock.gateway.access.rates import Buckets, Limit
from interlock.protocol.records import RunnerRecord
from interlock.session.keys import BadKey, canonical_agent, run_key

MAX_WORKSPACE_CHARS = 4_096
"""Maximum stored length of a workspace's path that a runner reports."""
NEW_SESSIONS = Limit("observed", a_minute=1, burst=1_000)
"""Sessions of one runner that are observed here: a runner can name any number of sessions that no one opened, and each
takes a row in the ledger until retention deletes it."""
ID = re.compile(r"[A-Za-z0-9._~-]{1,64}")
"""Session ids and gateway ids are UUIDs or similarly plain: they are used in paths, headers, files and messages."""

log = structlog.get_logger()


class Observed:
    """The creation of lanes for observed sessions, at a limited rate for each runner."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._taken_up = Buckets(NEW_SESSIONS)

    async def begin(self, runner: RunnerRecord, session_id: str, controller: str, agent_id: str, workspace: str
                    ) -> LaneShell | None:
        """Create the lane of a session that `controller` controls; None if the runner's report of it is invalid, if the
        session is another runner's, or if it has reported too many."""
        engine = self._engine
        if not controller or controller == engine.lanes.known_as(runner.tenant_id):
            return None
        if not (ID.fullmatch(session_id) and ID.fullmatch(controller)):
            log.warning("a session cannot be observed", runner_id=runner.runner_id, session_id=session_id[:64],
                        reason="its id, or its gateway's, is not made of letters, digits and . _ ~ -")
            return None
        try:
            agent = canonical_agent(agent_id)
        except BadKey as error:
            log.warning("a session cannot be observed", session_id=session_id, reason=str(error))
            return None
        if self._taken_up.take(runner.runner_id, engine.clock.monotonic_ms()).left < 0:
            log.warning("a session cannot be observed", runner_id=runner.runner_id, session_id=session_id,
                        reason="its runner named too many others before; revoke it if it should not")
            return None
        fresh = LaneState(
            session_id=session_id, tenant_id=runner.tenant_id, session_key=run_key(agent, session_id), agent_id=agent,
            runner_id=runner.runner_id, workspace=workspace[:MAX_WORKSPACE_CHARS], created_ms=engine.clock.now_ms(),
            controller=controller,
        )
        shell = await engine.lanes.of_runner(session_id, runner.runner_id, fresh)
        if shell is not None and shell.lane.state is fresh:
            await shell.call(ObservationBegun())
            log.info("session observed", session_id=session_id, controller=controller, runner_id=runner.runner_id)
        return shell
