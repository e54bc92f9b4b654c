"""The condition for a tenant's rows in each table. A row without a tenant is found by its session, its command or its
name."""

from __future__ import annotations

from interlock.app.data_migration.tables import TABLES, MigratedTable

_SESSIONS = "SELECT session_id FROM session WHERE tenant_id = {t}"
_COMMANDS = "SELECT id FROM command WHERE tenant_id = {t}"
_STREAMS = ("(name = 't/' || {t} OR name IN (SELECT 's/' || session_id FROM session WHERE tenant_id = {t}) "
            "OR name IN (SELECT 'c/' || id FROM command WHERE tenant_id = {t}))")
_OF_EVENT = {"sqlite": "place >> 32", "postgres": "stream_id"}
_BY_TENANT = "tenant_id = {t}"
_WHERE = {
    "store": "name LIKE 'cron/' || {t} || '/%'",
    "lane": f"(name = 'house:' || {{t}} OR name IN ({_SESSIONS}))",
    "stream": _STREAMS,
    "control": f"session_id IN ({_SESSIONS})",
    "file": f"session_id IN ({_SESSIONS})",
    "idempotency": f"command_id IN ({_COMMANDS})",
}
NOT_MOVED_WITH_TENANT = frozenset({"tenant", "pairing", "browser_login"})
"""The tenant's own row is created at the destination; codes and browser sessions are those of the source's gateway."""
TENANT_TABLES = tuple(table for table in TABLES if table.name not in NOT_MOVED_WITH_TENANT)
TRANSCRIPTS = {"transcript": ("session_id", "kept", "agent_id", "lines"),
               "transcript_line": ("session_id", "kept", "n", "entry_id", "line")}
TRANSCRIPTS_WHERE = f"session_id IN ({_SESSIONS})"


def where(table: MigratedTable, engine: str) -> str:
    """Return the condition on a tenant's rows of a table; `engine` is sqlite or postgres."""
    parameter = "?1" if engine == "sqlite" else "$1::text"
    if table.name == "event":
        condition = f"{_OF_EVENT[engine]} IN (SELECT id FROM stream WHERE {_STREAMS})"
    else:
        condition = _WHERE.get(table.name, _BY_TENANT)
    return condition.format(t=parameter)
