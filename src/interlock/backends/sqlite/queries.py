"""The ledger's SQL, each statement under its name."""

from __future__ import annotations

from collections.abc import Callable, Set
from functools import lru_cache

from interlock.backends.usage_sums import usage_sums
from interlock.protocol.resources import UsageDimension


class BufferedTable:
    """A statement that writes rows, and the number of rows per statement.

    A statement of many rows that may abort first copies each page that it changes, to take back its own rows alone.
    `OR FAIL` leaves this to the transaction: the writer rolls back all that a failed statement did, or the batch's
    savepoint.
    """

    def __init__(self, lead: str, columns: int, tail: str = "") -> None:
        row = f"({','.join('?' * columns)})"

        def statement(rows: int) -> str:
            return f"{lead} {','.join([row] * rows)} {tail}"

        self.statement: Callable[[int], str] = lru_cache(statement)


# --- lanes and the store itself ---
TAKE_LANE = """
INSERT INTO lane (name, epoch) VALUES (?, 1)
ON CONFLICT (name) DO UPDATE SET epoch = epoch + 1 RETURNING epoch
"""
BEGIN_LANE = "INSERT INTO lane (name, epoch) VALUES (?, ?)"
LANE_EPOCH = "SELECT epoch FROM lane WHERE name = ?"
ADD_STORE_VALUE = "INSERT INTO store (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
STORE_VALUE = "SELECT value FROM store WHERE name = ?"

# --- streams ---
STREAM_BITS = 32
"""`event.place` is stream.id shifted by this, plus n."""
STREAM_BY_NAME = "SELECT id, head FROM stream WHERE name = ?"
LAST_STREAM_ID = "SELECT coalesce(max(id), 0) FROM stream"
STREAM_HEAD = "SELECT head FROM stream WHERE name = ?"
_AFTER = """
WHERE place > (SELECT id << 32 FROM stream WHERE name = ?1) + ?2
  AND place <= (SELECT (id << 32) + head FROM stream WHERE name = ?1)
ORDER BY place LIMIT ?3
"""
EVENTS_AFTER = f"SELECT event.place & 4294967295, kind, at_ms, body, message_id FROM event {_AFTER}"
TAIL = f"SELECT event.place & 4294967295, kind, body, at_ms FROM event {_AFTER}"
RECENT_MESSAGE_IDS = """
SELECT message_id FROM event
WHERE place > (SELECT id << 32 FROM stream WHERE name = ?1)
  AND place <= (SELECT (id << 32) + head FROM stream WHERE name = ?1)
  AND kind IN ('C', 'refused')
ORDER BY place DESC LIMIT ?2
"""


ADD_STREAMS = BufferedTable("INSERT OR FAIL INTO stream (id, name, head) VALUES", 3)
RAISE_STREAMS = BufferedTable("UPDATE OR FAIL stream SET head = v.column2 FROM (VALUES", 2,
                              ") AS v WHERE stream.id = v.column1")
ADD_EVENTS = BufferedTable("INSERT OR FAIL INTO event (place, kind, at_ms, message_id, body) VALUES", 5)

# --- sessions ---
SESSION_COLUMNS = (
    "session_id, tenant_id, session_key, agent_id, runner_id, workspace, state, created_ms, updated_ms, deadline_ms, "
    "usage, machine"
)
PUT_SESSION = f"""
INSERT INTO session ({SESSION_COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)
ON CONFLICT (session_id) DO UPDATE SET
    tenant_id = excluded.tenant_id, session_key = excluded.session_key, agent_id = excluded.agent_id,
    runner_id = excluded.runner_id, workspace = excluded.workspace, state = excluded.state,
    created_ms = excluded.created_ms, updated_ms = excluded.updated_ms, deadline_ms = excluded.deadline_ms,
    usage = excluded.usage, machine = excluded.machine
"""
TOUCH_SESSION = """
UPDATE session SET updated_ms = ?, usage = ?, machine = ?
WHERE session_id = ? AND tenant_id = ? AND session_key = ? AND agent_id = ? AND runner_id = ? AND workspace = ?
  AND state = ? AND created_ms = ? AND deadline_ms IS ?
"""
"""Updates a session of which nothing else has changed, as after most frames: SQLite rewrites every index of a column
that is named in SET, whether its value changes or not, and each such page would be written to the log again."""
TOUCH_SESSIONS = BufferedTable(
    "UPDATE OR FAIL session SET updated_ms = v.column1, usage = v.column2, machine = v.column3 FROM (VALUES", 4,
    ") AS v WHERE session.session_id = v.column4")
"""The same of sessions of which it is known that nothing else has changed."""
SESSION = f"SELECT {SESSION_COLUMNS} FROM session WHERE session_id = ?1 AND (?2 IS NULL OR tenant_id = ?2)"
SESSION_BY_KEY = f"""
SELECT {SESSION_COLUMNS} FROM session WHERE tenant_id = ? AND session_key = ?
ORDER BY created_ms DESC, place DESC LIMIT 1
"""
KEY_SESSIONS = f"""
SELECT {SESSION_COLUMNS} FROM session WHERE tenant_id = ? AND session_key = ?
ORDER BY created_ms DESC, place DESC LIMIT ?
"""
CURRENT_SESSIONS = f"""
SELECT {SESSION_COLUMNS} FROM session AS s WHERE tenant_id = ? AND session_key > ? AND session_key < ?
  AND NOT EXISTS (SELECT 1 FROM session AS later
                  WHERE later.tenant_id = s.tenant_id AND later.session_key = s.session_key
                    AND (later.created_ms, later.place) > (s.created_ms, s.place))
ORDER BY session_key LIMIT ?
"""
SESSIONS = f"""
SELECT {SESSION_COLUMNS} FROM session WHERE tenant_id = ?1 AND (updated_ms, session_id) < (?2, ?3)
  AND (?5 IS NULL OR state = ?5) AND (?6 IS NULL OR agent_id = ?6) AND (?7 IS NULL OR runner_id = ?7)
  AND (?8 IS NULL OR workspace = ?8) AND (?9 IS NULL OR session_key = ?9)
  AND (?10 IS NULL OR session_id IN (SELECT value FROM json_each(?10)))
ORDER BY updated_ms DESC, session_id DESC LIMIT ?4
"""
RUNNER_SESSIONS = f"""
SELECT {SESSION_COLUMNS} FROM session WHERE runner_id = ? AND +tenant_id = ? AND state <> 'closed' ORDER BY place
"""
SESSION_CLOCKS = """
SELECT session_id, runner_id, state, deadline_ms, tenant_id FROM session
WHERE (session_id, tenant_id) IN (SELECT value ->> 1, value ->> 0 FROM json_each(?)) ORDER BY session_id
"""
DUE_SESSIONS = """
SELECT session_id, deadline_ms, state, tenant_id FROM session WHERE deadline_ms IS NOT NULL ORDER BY deadline_ms, place
"""

# --- commands ---
_COMMAND_COLUMNS = "id, tenant_id, session_id, state, agent_id, actor_id, ended_ms, type, body"
ADD_COMMANDS = BufferedTable(f"INSERT OR FAIL INTO command ({_COMMAND_COLUMNS}) VALUES", 9)
PUT_COMMANDS = BufferedTable(
    f"INSERT INTO command ({_COMMAND_COLUMNS}) VALUES", 9,
    "ON CONFLICT (id) DO UPDATE SET state = excluded.state, ended_ms = excluded.ended_ms, body = excluded.body")
"""Names only the columns that change: the indexes of the others are not rewritten at each transition."""
COMMAND = "SELECT body FROM command WHERE id = ? AND +tenant_id = ?"
LIVE_COMMANDS = "SELECT body FROM command WHERE session_id = ? AND +tenant_id = ? AND ended_ms IS NULL ORDER BY place"
"""A `+` restricts SQLite to the index of live commands."""


def commands(filters: tuple[str, ...], *, paged: bool) -> str:
    """Select a page of a tenant's commands by these columns, newest first."""
    # A session has few commands, an agent or a state any number: a `+` keeps SQLite from using their index instead.
    other = "+" if "session_id" in filters else ""
    where = "".join(f" AND {'' if column == 'session_id' else other}{column} = ?{number}"
                    for number, column in enumerate(filters, 2))
    last = len(filters) + 2
    if paged:
        where += f" AND place < (SELECT place FROM command WHERE id = ?{last} AND tenant_id = ?1)"
        last += 1
    return f"SELECT body FROM command WHERE tenant_id = ?1{where} ORDER BY place DESC LIMIT ?{last}"


def executes_since(*, by_actor: bool) -> str:
    """Return the query that counts the executes of a tenant, or of one of its actors, since an instant. Run once a day
    for each."""
    where = " AND actor_id = ?" if by_actor else ""
    return (f"SELECT count(*) FROM command WHERE tenant_id = ?{where} "
            "AND json_extract(CAST(body AS TEXT), '$.created_ms') >= ? "
            "AND json_extract(CAST(body AS TEXT), '$.command.type') = 'execute'")


# --- approvals ---
PUT_APPROVAL = """
INSERT INTO approval (id, tenant_id, session_id, state, body) VALUES (?,?,?,?,?)
ON CONFLICT (id) DO UPDATE SET state = excluded.state, body = excluded.body
"""
"""Names only the columns that change, as PUT_COMMANDS does."""
APPROVAL = "SELECT body FROM approval WHERE id = ? AND +tenant_id = ?"
LIVE_APPROVALS = """
SELECT body FROM approval WHERE session_id = ? AND +tenant_id = ? AND state IN ('pending', 'granted') ORDER BY place
"""


def approvals(*, by_state: bool, paged: bool) -> str:
    """Select a page of a tenant's approvals, newest first."""
    where = " AND state = ?" if by_state else ""
    if paged:
        where += " AND place < (SELECT place FROM approval WHERE id = ? AND tenant_id = ?)"
    return f"SELECT body FROM approval WHERE tenant_id = ?{where} ORDER BY place DESC LIMIT ?"


# --- usage reported by agents ---

_USAGE_ASKED = ("?1", "?2", "?3", "?4", "?5", "?6", "?7", "?8")


def usage(by: Set[UsageDimension]) -> str:
    """Return the query that sums usage, grouped by these."""
    return usage_sums(by, _USAGE_ASKED)


# --- control frames ---
_IS_OF_TENANT = "EXISTS (SELECT 1 FROM session WHERE session_id = ?1 AND tenant_id = ?2)"
PUT_CONTROLS = BufferedTable(
    "INSERT INTO control (session_id, seq, message_id, body) VALUES", 4,
    "ON CONFLICT (session_id, seq) DO UPDATE SET message_id = excluded.message_id, body = excluded.body")
DROP_CONTROLS = "DELETE FROM control WHERE session_id = ? AND seq <= ?"
CONTROLS_AFTER = f"""
SELECT seq, message_id, body FROM control WHERE session_id = ?1 AND {_IS_OF_TENANT} AND seq > ?3 ORDER BY seq
"""

# --- idempotency ---
ADD_IDEMPOTENCY = BufferedTable(
    "INSERT OR FAIL INTO idempotency (scope, fingerprint, status, headers, body, created_ms, command_id) VALUES", 7)
IDEMPOTENCY = "SELECT fingerprint, status, headers, body, created_ms, command_id FROM idempotency WHERE scope = ?"
IDEMPOTENCY_SCOPES = "SELECT scope FROM idempotency WHERE scope > ? ORDER BY scope LIMIT ?"
PRUNE_IDEMPOTENCY = """
DELETE FROM idempotency WHERE scope IN (
    SELECT scope FROM idempotency LEFT JOIN command ON command.id = idempotency.command_id
    WHERE created_ms < ?1 AND (command.id IS NULL OR command.ended_ms < ?1)
    LIMIT ?2)
"""

# --- files ---
ADD_FILE = """
INSERT INTO file (session_id, transfer_id, body) VALUES (?,?,?) ON CONFLICT (session_id, transfer_id) DO NOTHING
"""
FILE = f"SELECT body FROM file WHERE session_id = ?1 AND {_IS_OF_TENANT} AND transfer_id = ?3"
FILES = f"""
SELECT place, body FROM file WHERE session_id = ?1 AND {_IS_OF_TENANT} AND place > ?3 ORDER BY place LIMIT ?4
"""

# --- audit ---
ADD_AUDIT = BufferedTable("INSERT INTO audit (tenant_id, seq, hash, body) VALUES", 4)
PUT_AUDIT_HEAD = """
INSERT INTO audit_head (tenant_id, count, last_hash, peaks) VALUES (?,?,?,?)
ON CONFLICT (tenant_id) DO UPDATE SET count = excluded.count, last_hash = excluded.last_hash, peaks = excluded.peaks
"""
AUDIT_HEAD = "SELECT count, last_hash FROM audit_head WHERE tenant_id = ?"
AUDIT_TREE = "SELECT count, last_hash, peaks FROM audit_head WHERE tenant_id = ?"
AUDIT_AFTER = """
SELECT seq, hash, body, CASE WHEN EXISTS (
    SELECT 1 FROM audit_personal WHERE audit_personal.tenant_id = audit.tenant_id AND audit_personal.seq = audit.seq
) THEN (
    SELECT json_group_object(name, json_array(salt, value)) FROM audit_personal
    WHERE audit_personal.tenant_id = audit.tenant_id AND audit_personal.seq = audit.seq
) END
FROM audit WHERE tenant_id = ? AND seq > ? ORDER BY seq LIMIT ?
"""
"""Records, each with its personal values as one JSON object; one statement, so that an erasure is seen completely or
not at all."""
_FRONT = "CAST(substr(body, 1, 176) AS TEXT)"
AUDIT_OF_COMMAND = f"""
SELECT seq, hash, body FROM audit WHERE substr({_FRONT}, instr({_FRONT}, '"command_id":"') + 14, 30) = ?2
  AND instr({_FRONT}, '"command_id":"cmd_') > 0 AND tenant_id = ?1 ORDER BY seq
"""
AUDIT_OF_APPROVAL = f"""
SELECT seq, hash, body FROM audit WHERE substr({_FRONT}, instr({_FRONT}, '"approval_id":"') + 15, 30) = ?2
  AND instr({_FRONT}, '"approval_id":"apr_') > 0 AND instr({_FRONT}, '"command_id":"cmd_') = 0
  AND tenant_id = ?1 ORDER BY seq
"""
"""Uses the indexes `audit_by_command` and `audit_by_approval`, whose expressions these are."""
AUDIT_OF_ROWS = """
SELECT seq, hash, body FROM audit INDEXED BY audit_of_rows
WHERE tenant_id = ? AND seq > ? AND instr(body, CAST('"row_sha256":"' AS BLOB)) > 0 ORDER BY seq
"""
"""Uses the index `audit_of_rows`, whose condition this is: with the primary key, SQLite's choice, the whole log is read
at each start and each change of a row."""
_SEALS = "instr(body, CAST('\"frames_of\":\"' AS BLOB))"
AUDIT_OF_SEALS = f"""
SELECT seq, hash, body FROM audit INDEXED BY audit_of_seals
WHERE tenant_id = ? AND substr(body, {_SEALS} + 13, 32) = ? AND {_SEALS} > 0 ORDER BY seq DESC LIMIT ?
"""
"""Uses the index `audit_of_seals`, whose expressions these are; with the primary key a session's first read would read
the whole log."""
AUDIT_TENANTS = "SELECT tenant_id FROM audit_head ORDER BY tenant_id"
AUDIT_LEAVES = "SELECT hash FROM audit WHERE tenant_id = ? AND seq > ? AND seq <= ? ORDER BY seq"
AUDIT_NODES = """
SELECT hash FROM audit_node WHERE tenant_id = ? AND level = ? AND place >= ? AND place < ? ORDER BY place
"""
ADD_AUDIT_NODES = BufferedTable("INSERT OR REPLACE INTO audit_node (tenant_id, level, place, hash) VALUES", 4)
AUDIT_WITHOUT_TREE = "SELECT tenant_id FROM audit_head WHERE peaks IS NULL"
ADD_AUDIT_PERSONAL = "INSERT INTO audit_personal (tenant_id, seq, name, who, salt, value) VALUES (?,?,?,?,?,?)"
ERASE_AUDIT_PERSONAL = "DELETE FROM audit_personal WHERE tenant_id = ? AND seq = ?"
AUDIT_PERSONAL_OF = """
SELECT DISTINCT seq FROM audit_personal WHERE tenant_id = ?1 AND (?2 IS NULL OR who = ?2) ORDER BY seq LIMIT ?3
"""
ADVANCE_STORE_VALUE = """
INSERT INTO store (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value
WHERE CAST(store.value AS INTEGER) <= CAST(excluded.value AS INTEGER) RETURNING 1
"""
PUT_STORE_VALUE = """
INSERT INTO store (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""

# --- upkeep (G-5) ---
COUNTS = """
SELECT 'command', state, count(*) FROM command WHERE ended_ms IS NULL GROUP BY state
UNION ALL SELECT 'approval', state, count(*) FROM approval WHERE state IN ('pending', 'granted') GROUP BY state
UNION ALL SELECT 'delivery', 'pending', count(*) FROM delivery WHERE due_ms IS NOT NULL HAVING count(*) > 0
UNION ALL SELECT 'delivery', state, count(*) FROM delivery WHERE state = 'dead' GROUP BY state
UNION ALL SELECT 'session', '', count(*) FROM session
"""
"""Each part by an index that holds only what is not terminal, or by one that covers the count."""

_STILL = """
  AND NOT EXISTS (SELECT 1 FROM command AS c WHERE c.tenant_id = s.tenant_id AND c.session_id = s.session_id
                  AND (c.ended_ms IS NULL OR c.ended_ms >= ?2))
  AND (s.updated_ms < ?2 OR EXISTS (SELECT 1 FROM command AS c
                                    WHERE c.tenant_id = s.tenant_id AND c.session_id = s.session_id))
"""
"""A session without work under way whose last command ended before an instant; without any, nothing changed since."""
_STREAMS = """
SELECT stream.id, stream.name, stream.head FROM command AS c JOIN stream ON stream.name = 'c/' || c.id
WHERE c.tenant_id = s.tenant_id AND c.session_id = s.session_id
UNION ALL SELECT stream.id, stream.name, stream.head FROM stream WHERE stream.name = 's/' || s.session_id
"""
OLD_SESSIONS = f"""
SELECT s.session_id FROM session AS s WHERE s.tenant_id = ?1 AND s.session_id > ?3 AND s.created_ms < ?2 {_STILL}
  AND (EXISTS (SELECT 1 FROM ({_STREAMS}) AS t JOIN event ON event.place > t.id << 32
                                                         AND event.place <= (t.id << 32) + t.head)
       OR EXISTS (SELECT 1 FROM file WHERE file.session_id = s.session_id))
ORDER BY s.session_id LIMIT ?4
"""
IS_OLD = f"""
SELECT count(*) FROM session AS s WHERE s.session_id = ?1 AND s.tenant_id = ?3 AND s.created_ms < ?2 {_STILL}
"""
STREAMS_OF_SESSION = """
SELECT 'c/' || c.id FROM session AS s JOIN command AS c ON c.tenant_id = s.tenant_id AND c.session_id = s.session_id
WHERE s.session_id = ?1
UNION ALL SELECT 's/' || ?1
"""
WOULD_FORGET = f"""
SELECT
    (SELECT count(*) FROM ({_STREAMS}) AS t JOIN event ON event.place > t.id << 32
                                                      AND event.place <= (t.id << 32) + t.head),
    (SELECT count(*) FROM file WHERE file.session_id = s.session_id),
    (SELECT count(*) FROM control WHERE control.session_id = s.session_id
     AND control.seq <= coalesce(json_extract(CAST(s.machine AS TEXT), '$.control_acked'), 0))
FROM session AS s WHERE s.session_id = ? AND s.tenant_id = ?
"""
FORGET_EVENTS = """
DELETE FROM event WHERE place IN (
    SELECT event.place FROM stream JOIN event ON event.place > stream.id << 32
                                             AND event.place <= (stream.id << 32) + stream.head
    WHERE stream.name = ? ORDER BY event.place LIMIT ?)
"""
FORGET_FILES = "DELETE FROM file WHERE place IN (SELECT place FROM file WHERE session_id = ? LIMIT ?)"
FORGET_CONTROLS = """
DELETE FROM control WHERE session_id = ?1 AND seq <= coalesce(
    (SELECT json_extract(CAST(machine AS TEXT), '$.control_acked') FROM session WHERE session_id = ?1), 0)
"""
_OLD_FEED = """
SELECT event.place FROM stream JOIN event ON event.place > stream.id << 32
                                         AND event.place <= (stream.id << 32) + stream.head
WHERE stream.name = 't/' || ?1 AND event.place < coalesce(
    (SELECT e.place FROM event AS e WHERE e.place > stream.id << 32 AND e.place <= (stream.id << 32) + stream.head
     AND e.at_ms >= ?2 ORDER BY e.place LIMIT 1), (stream.id + 1) << 32)
"""
"""Only a beginning is deleted, so that the rest has no gap."""
OLD_FEED = f"SELECT count(*) FROM ({_OLD_FEED})"
FORGET_FEED = f"DELETE FROM event WHERE place IN ({_OLD_FEED} ORDER BY event.place LIMIT ?3)"
_OLD_DELIVERIES = """
SELECT place FROM delivery WHERE tenant_id = ?1 AND due_ms IS NULL
  AND json_extract(CAST(body AS TEXT), '$.delivery.created_at') < ?2
"""
OLD_DELIVERIES = f"SELECT count(*) FROM ({_OLD_DELIVERIES})"
FORGET_DELIVERIES = f"DELETE FROM delivery WHERE place IN ({_OLD_DELIVERIES} LIMIT ?3)"
NAMED_OBJECTS = """
SELECT name.value FROM file, json_each(CAST(file.body AS TEXT), '$.objects') AS name
UNION
SELECT name.value FROM session, json_each(CAST(session.machine AS TEXT), '$.incoming') AS under_way,
    json_each(under_way.value, '$.objects') AS name
WHERE instr(CAST(session.machine AS TEXT), '"incoming":{"') > 0
"""

# --- transcript lines on their way to the file ---
PUT_TRANSCRIPTS = BufferedTable(
    "INSERT INTO transcript_pending (session_id, entry_id, line) VALUES", 3,
    "ON CONFLICT (session_id, entry_id) DO UPDATE SET line = excluded.line")
DROP_TRANSCRIPT = "DELETE FROM transcript_pending WHERE session_id = ? AND entry_id = ?"
TRANSCRIPT_PENDING = """
SELECT coalesce((SELECT tenant_id FROM session AS s WHERE s.session_id = p.session_id), ''), session_id, entry_id, line
FROM transcript_pending AS p ORDER BY place LIMIT ?
"""
TRANSCRIPT_PENDING_OF = "SELECT place, session_id, entry_id, line FROM transcript_pending WHERE session_id = ?"
"""One session's few lines, found by the index that separates them; its order is not theirs, so the reader sorts."""
