"""The methods of the Agent Client Protocol, over the gateway's API (O-1 to O-6)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import traceback
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, ClassVar, Literal, cast

import msgspec

from interlock import __version__
from interlock.doors.acp.open_session import OpenSession, PromptFailed
from interlock.doors.acp.permission import Permissions
from interlock.doors.acp.prompt import payload_of, slash_command
from interlock.doors.acp.settings import MODE, NAME_CHARS
from interlock.doors.acp.slash import COMMANDS, HINTS, SlashCommands
from interlock.doors.acp.surface import PROCESS, Surface
from interlock.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Pipes, Rpc, RpcRequest
from interlock.protocol.identifiers import AGENT_ID
from interlock.protocol.resources import Node, Session
from interlock.sdk import AsyncInterlock, InterlockError, problems
from interlock.sdk.runner_names import runners_named

PROTOCOL_VERSION = 1
AUTH_REQUIRED = -32000
SESSIONS_LISTED = 200
REQUESTS_MAX = 128
"""Simultaneous requests of a client: a prompt in each open session, and as many others."""
OPEN_MAX = 64
"""Sessions that an editor may have open at the same time through one door."""
RUNNERS_SHOWN = 5
"""Runners that an error lists."""
LEAVE_S = 2.0
"""Time for requests other than prompts to finish after the editor closed its end."""
KEY_CHARS_MAX = 256
"""Limit of a client's session id; a longer one matches no session."""
CREATED = re.compile(rf"agent:(?P<agent>{AGENT_ID.pattern}):acp:[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}")
"""The id of a session that a door created."""
OPENING = frozenset({"session/new", "session/load", "session/resume"})
OnExit = Literal["detach", "cancel"]
Connect = Callable[[], AsyncInterlock]
"""Returns the gateway's client. Raises DoorError if there is no gateway or no key."""


class DoorError(Exception):
    """An ACP request that fails: `code` is JSON-RPC's, `data` names the gateway's code."""

    def __init__(self, code: int, sentence: str, data: Any = None) -> None:
        super().__init__(sentence)
        self.code = code
        self.data = data


class AcpDoor:
    """Serves one editor. `connect` is called once, at the first request that needs the gateway."""

    def __init__(self, pipes: Pipes, connect: Connect, agent_id: str | None, runner_id: str | None,
                 on_exit: OnExit = "detach", surface: Surface = PROCESS) -> None:
        self._rpc = Rpc(pipes, self._notified, self._asked, serves=True)
        self._connect = connect
        self._gateway: AsyncInterlock | None = None
        self._permissions: Permissions | None = None
        self._shows_forms = False
        self._agent_id = agent_id
        self._runner_id = runner_id
        self._on_exit = on_exit
        self._surface = surface
        self._open: dict[str, OpenSession] = {}
        self._tasks = set[asyncio.Task[None]]()

    async def run(self) -> None:
        """Serve until the editor's end of the pipe closes, then leave, or cancel running work if configured."""
        try:
            await self._rpc.run()
        finally:
            await self._leave()

    async def _leave(self) -> None:
        if self._on_exit == "cancel":
            await asyncio.gather(*(one.cancel() for one in self._open.values()), return_exceptions=True)
        if short := [task for task in self._tasks if task.get_name() != "session/prompt"]:
            await asyncio.wait(short, timeout=LEAVE_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for session in self._open.values():
            await session.close()
        if self._gateway is not None:
            await self._gateway.close()

    async def _asked(self, request: RpcRequest) -> None:
        if len(self._tasks) >= REQUESTS_MAX:
            await self._rpc.refuse(request, INTERNAL_ERROR, f"{REQUESTS_MAX} requests are under way. Wait for the end "
                                   "of one.", {"code": "QuotaExceeded"})
            return
        task = asyncio.create_task(self._answer(request), name=request.method)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: RpcRequest) -> None:
        method = self.METHODS.get(request.method)
        if method is None:
            await self._rpc.refuse(request, METHOD_NOT_FOUND,
                                   f"Interlock has no method {request.method[:NAME_CHARS]!r}.")
            return
        try:
            result = await method(self, _params(request.params))
        except DoorError as error:
            await self._rpc.refuse(request, error.code, str(error), error.data)
        except problems.Unauthorized as error:
            await self._rpc.refuse(request, AUTH_REQUIRED, str(error), {"code": error.code})
        except InterlockError as error:
            code = error.problem if isinstance(error, problems.Refused) else type(error).__name__
            await self._rpc.refuse(request, INTERNAL_ERROR, str(error), {"code": code})
        except PromptFailed as error:
            await self._rpc.refuse(request, INTERNAL_ERROR, str(error), {"code": error.code})
        except Exception:  # noqa: BLE001 - the boundary of one request: the others continue
            self._surface.report(f"{request.method} failed:\n{traceback.format_exc()}")
            await self._rpc.refuse(request, INTERNAL_ERROR, "Something failed inside Interlock; its log has the "
                                   "details.", {"code": "InternalError"})
        else:
            await self._rpc.answer(request, result)
            if request.method in OPENING:  # After the answer: an editor does not know the session before.
                await self._send_commands(result.get("sessionId") or str(_params(request.params)["sessionId"]))

    async def _notified(self, method: str, params: bytes) -> None:
        if method != "session/cancel":
            return
        session = self._open.get(str(_params(params).get("sessionId")))
        if session is not None:
            try:
                await session.cancel()
            except InterlockError as error:
                await session.note(f"The prompt could not be canceled: {error}")

    # --- methods ---
    async def _initialize(self, params: dict[str, Any]) -> dict[str, Any]:
        self._shows_forms = _offers(params, "clientCapabilities", "elicitation", "form")
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentInfo": {"name": "interlock", "title": "Interlock", "version": __version__},
            "agentCapabilities": {
                "loadSession": True,
                "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
                "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}}},
            "authMethods": list(self._surface.auth_methods)}

    async def _authenticate(self, _params: dict[str, Any]) -> dict[str, Any]:
        await self._client().whoami()
        return {}

    async def _new(self, params: dict[str, Any]) -> dict[str, Any]:
        cwd = _cwd(params)
        agent_id = await self._agent(cwd, self._agent_id)
        session = self._add(f"agent:{agent_id}:acp:{uuid.uuid4()}", agent_id, cwd)
        return {"sessionId": session.editor_id, **_opened(session, params, self._surface.report)}

    async def _load(self, params: dict[str, Any]) -> dict[str, Any]:
        session = await self._existing(params)
        await session.replay(show=True)
        session.follow()
        session.attend()
        return _opened(session, params, self._surface.report)

    async def _resume(self, params: dict[str, Any]) -> dict[str, Any]:
        session = await self._existing(params)
        await session.replay(show=False)
        session.follow()
        session.attend()
        return _opened(session, params, self._surface.report)

    async def _list(self, params: dict[str, Any]) -> dict[str, Any]:
        cwd = params.get("cwd")
        page = await self._client().sessions.list(
            cursor=_cursor_in(params), limit=SESSIONS_LISTED)
        found = [_listed(one) for one in page.items if cwd is None or one.workspace == cwd]
        return {"sessions": found, **({"nextCursor": page.next_cursor} if page.has_more else {})}

    async def _prompt(self, params: dict[str, Any]) -> dict[str, Any]:
        session, blocks = self._session(params), _listed_in(params, "prompt")
        command = slash_command(blocks)
        if command is not None and command[0] in COMMANDS:
            await session.reply(await SlashCommands(self._client()).run(session, *command))
            return {"stopReason": "end_turn"}
        if session.busy:
            raise DoorError(INVALID_PARAMS, "A prompt of this session is under way. Cancel it, or wait for its end.")
        try:
            payload = payload_of(blocks, session.settings.chosen)
        except ValueError as error:
            raise DoorError(INVALID_PARAMS, str(error)) from None
        return {"stopReason": await session.prompt(payload)}

    async def _close(self, params: dict[str, Any]) -> dict[str, Any]:
        session = self._open.pop(self._session(params).editor_id)
        if session.session_id is not None:
            await self._client().sessions.close(session.session_id, reason="closed in the editor")
        await session.close()
        return {}

    async def _delete(self, params: dict[str, Any]) -> dict[str, Any]:
        editor_id = str(params.get("sessionId"))
        found = await self._find(editor_id)
        if found is None and _agent_of(editor_id) is None:
            raise _unknown(editor_id)
        if found is not None:
            await self._client().sessions.archive(found.session_id, reason="deleted in the editor")
        await self._drop(found.session_key if found else editor_id)
        return {}

    async def _set_mode(self, params: dict[str, Any]) -> dict[str, Any]:
        _choose(self._session(params), MODE, params.get("modeId"))
        return {}

    async def _set_config_option(self, params: dict[str, Any]) -> dict[str, Any]:
        session, option = self._session(params), params.get("configId")
        if option not in session.settings.known():
            known = ", ".join(session.settings.known())
            raise DoorError(INVALID_PARAMS, f"The session has no config option {str(option)[:NAME_CHARS]!r}; "
                            f"{f'there is: {known}' if known else 'the agent has named none so far'}.")
        _choose(session, str(option), params.get("value"))
        return {"configOptions": session.config_options()}

    # --- inside ---
    def _client(self) -> AsyncInterlock:
        if self._gateway is None:
            self._gateway = self._connect()
            self._permissions = Permissions(self._gateway, self._rpc, self._shows_forms)
        return self._gateway

    async def _agent(self, cwd: str, wanted: str | None) -> str:
        """Choose the agent, and check that a runner offers it for this directory. Raises DoorError."""
        nodes = (await self._client().runners.nodes()).nodes
        if self._runner_id is not None:
            self._runner_id = runner_of(self._runner_id, nodes)
        offers = [(node, offer) for node in nodes if node.status != "offline" for offer in node.agents
                  if self._runner_id in (None, node.node_id)]
        names = sorted({str(offer["agent_id"]) for _, offer in offers})
        agent_id = wanted or (names[0] if len(names) == 1 else None)
        if agent_id is None:
            raise DoorError(INVALID_PARAMS, f"Which agent? Name one {self._surface.choice}: {', '.join(names)}."
                            if names else "No runner is online. Start one with: interlock up")
        roots = [str(root) for node, offer in offers if offer["agent_id"] == agent_id
                 for root in offer.get("roots") or node.roots]
        if not roots:
            raise DoorError(INVALID_PARAMS, f"No runner that is online offers the agent {agent_id}; there are: "
                            f"{', '.join(names) or 'none'}.")
        if not _lies_within(cwd, roots, self._surface.is_local):
            raise DoorError(INVALID_PARAMS, f"The directory {cwd} lies outside the runner's roots ({', '.join(roots)})."
                            f" Start the runner with: --root {cwd}")
        return agent_id

    def _add(self, editor_id: str, agent_id: str, cwd: str, session_id: str | None = None) -> OpenSession:
        if len(self._open) >= OPEN_MAX:
            raise DoorError(INVALID_PARAMS, f"{OPEN_MAX} sessions are open. Close one first (session/close).")
        gateway = self._client()
        assert self._permissions is not None, "_client makes both"
        session = self._open[editor_id] = OpenSession(
            gateway, self._rpc, self._permissions, editor_id, agent_id, cwd, runner_id=self._runner_id,
            session_id=session_id)
        return session

    async def _existing(self, params: dict[str, Any]) -> OpenSession:
        editor_id = str(params.get("sessionId"))
        found = await self._find(editor_id)
        if found is None:
            return await self._unprompted(editor_id, _cwd(params))
        await self._drop(found.session_key)
        return self._add(found.session_key, found.agent_id, found.workspace or _cwd(params), found.session_id)

    async def _unprompted(self, editor_id: str, cwd: str) -> OpenSession:
        """Open a session that a door created and that was never prompted: the gateway stores it with its first prompt,
        and its id names its agent. Raises DoorError."""
        wanted = _agent_of(editor_id)
        if wanted is None:
            raise _unknown(editor_id)
        agent_id = await self._agent(cwd, wanted)
        await self._drop(editor_id)
        return self._add(editor_id, agent_id, cwd)

    async def _drop(self, editor_id: str) -> None:
        if (before := self._open.pop(editor_id, None)) is not None:
            await before.close()

    async def _find(self, editor_id: str) -> Session | None:
        """Find the newest session with this key, or the one with this id."""
        if 0 < len(editor_id) <= KEY_CHARS_MAX:
            page = await self._client().sessions.list(key=editor_id, limit=1)
            if page.items:
                return page.items[0]
            with contextlib.suppress(problems.NotFound):
                return await self._client().sessions.get(editor_id)
        return None

    def _session(self, params: dict[str, Any]) -> OpenSession:
        session = self._open.get(str(params.get("sessionId")))
        if session is None:
            raise DoorError(INVALID_PARAMS, f"No session {params.get('sessionId')!r} is open here. Open it with "
                            "session/new or session/load.")
        return session

    async def _send_commands(self, editor_id: str) -> None:
        commands = [{"name": name, "description": description,
                     **({"input": {"hint": HINTS[name]}} if name in HINTS else {})}
                    for name, description in COMMANDS.items()]
        await self._rpc.notify("session/update", {"sessionId": editor_id, "update": {
            "sessionUpdate": "available_commands_update", "availableCommands": commands}})

    METHODS: ClassVar[Mapping[str, Callable[..., Awaitable[Any]]]] = {
        "initialize": _initialize, "authenticate": _authenticate, "session/new": _new, "session/load": _load,
        "session/resume": _resume, "session/list": _list, "session/prompt": _prompt, "session/close": _close,
        "session/delete": _delete, "session/set_mode": _set_mode, "session/set_config_option": _set_config_option}
    """The requests that a client may send, by ACP's names."""


def runner_of(text: str, nodes: Sequence[Node]) -> str:
    """Return the id of the one runner that `text` names, by an id, a name or a unique beginning. Raises DoorError."""
    found = runners_named(text, nodes)
    if len(found) != 1:
        shown = (found or nodes)[:RUNNERS_SHOWN]
        listed = ", ".join(f"{one.node_id} ({one.device_name})" for one in shown)
        raise DoorError(INVALID_PARAMS, f"The runner {text!r} could be any of {len(found)}: {listed}." if found else
                        f"There is no runner {text!r}; there are: {listed or 'none'}.")
    return found[0].node_id


def _agent_of(editor_id: str) -> str | None:
    """Return the agent of a session that a door created, by the form of its id."""
    match = CREATED.fullmatch(editor_id)
    return match["agent"] if match else None


def _unknown(editor_id: str) -> DoorError:
    return DoorError(INVALID_PARAMS, f"The gateway has no session {editor_id[:KEY_CHARS_MAX]!r}. List them with "
                     "session/list.")


def _offers(params: Any, *path: str) -> bool:
    """Return whether a member is present, at any depth, and not null."""
    for name in path:
        params = cast("dict[str, Any]", params).get(name) if isinstance(params, dict) else None
    return params is not None


def _params(raw: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(raw or b"{}", type=dict[str, Any])
    except msgspec.MsgspecError:
        raise DoorError(INVALID_PARAMS, "`params` must be an object.") from None


def _lies_within(cwd: str, roots: list[str], is_local: bool) -> bool:
    # The runner resolves links on its host; if that may be this machine, so does the door.
    paths = (cwd, os.path.realpath(cwd)) if is_local else (os.path.normpath(cwd),)
    return any(PurePath(path).is_relative_to(root) for root in roots for path in paths)


def _cwd(params: dict[str, Any]) -> str:
    cwd = params.get("cwd")
    if not isinstance(cwd, str) or not PurePath(cwd).is_absolute():
        raise DoorError(INVALID_PARAMS, f"`cwd` must be an absolute path, and is {cwd!r}.")
    return cwd


def _opened(session: OpenSession, params: dict[str, Any], report: Callable[[str], None]) -> dict[str, Any]:
    servers = [str(cast("dict[str, Any]", one).get("name")) for one in _listed_in(params, "mcpServers")
               if isinstance(one, dict)]
    if servers:
        report(f"MCP servers of the client are not started: {', '.join(servers)}. Configure them on the agent's host.")
    meta = {"_meta": {"interlock": {"mcpServersNotStarted": servers}}} if servers else {}
    options = session.config_options()
    modes = {"modes": session.settings.modes()} if session.settings.values(MODE) else {}
    return {**modes, **({"configOptions": options} if options else {}), **meta}


def _choose(session: OpenSession, option: str, value: Any) -> None:
    try:
        session.settings.choose(option, value)
    except ValueError as error:
        raise DoorError(INVALID_PARAMS, str(error)) from None


def _cursor_in(params: dict[str, Any]) -> str | None:
    value = params.get("cursor")
    if value is not None and not isinstance(value, str):
        raise DoorError(INVALID_PARAMS, "`cursor` must be a text.")
    return value


def _listed_in(params: dict[str, Any], name: str) -> list[Any]:
    value: Any = params.get(name) or []
    if not isinstance(value, list):
        raise DoorError(INVALID_PARAMS, f"`{name}` must be a list.")
    return cast("list[Any]", value)


def _listed(session: Session) -> dict[str, Any]:
    return {"sessionId": session.session_key, "cwd": session.workspace or "/", "updatedAt": session.updated_at,
            "title": session.title or f"{session.agent_id} · {session.session_key}"}


def checked_agent(agent_id: str | None) -> str | None:
    """Return the agent's id if it can be one. Raises ValueError with a sentence."""
    if agent_id is not None and not AGENT_ID.fullmatch(agent_id):
        raise ValueError(f"{agent_id!r} is not an agent's id.")
    return agent_id
