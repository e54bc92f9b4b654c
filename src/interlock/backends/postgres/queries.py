"""The statements that read the ledger or delete old data of it, each under its name."""

from __future__ import annotations

from collections.abc import Set

from interlock.backends.usage_sums import usage_sums
from interlock.protocol.resources import UsageDimension

STORE_VALUE = "SELECT value FROM store WHERE name = $1"

# --- streams ---
STREAM_HEAD = "SELECT head FROM stream WHERE tenant_id = $1 AND name = $2"
EVENTS_AFTER = """
SELECT n, kind, at_ms, body, message_id FROM event
WHERE tenant_id = $1 AND stream_id = (SELECT id FROM stream WHERE tenant_id = $1 AND name = $2) AND n > $3
ORDER BY n LIMIT $4
"""
RECENT_MESSAGE_IDS = """
SELECT message_id FROM event
WHERE tenant_id = $1 AND stream_id = (SELECT id FROM stream WHERE tenant_id = $1 AND name = $2)
  AND kind IN ('C', 'refused') ORDER BY n DESC LIMIT $3
"""

# --- sessions ---
_SESSION = (
    "SELECT session_id, tenant_id, session_key, agent_id, runner_id, workspace, state, created_ms, updated_ms, "
    "deadline_ms, usage, machine FROM session"
)
SESSION = f"{_SESSION} WHERE session_id = $1 AND tenant_id = $2"
SESSION_OF_ANY_TENANT = f"{_SESSION} WHERE session_id = $1"
SESSION_BY_KEY = f"""
{_SESSION} WHERE tenant_id = $1 AND session_key = $2 ORDER BY created_ms DESC, place DESC LIMIT 1
"""
KEY_SESSIONS = f"""
{_SESSION} WHERE tenant_id = $1 AND session_key = $2 ORDER BY created_ms DESC, place DESC LIMIT $3
"""
CURRENT_SESSIONS = f"""
{_SESSION} AS s WHERE tenant_id = $1 AND session_key > $2 AND session_key < $3
  AND NOT EXISTS (SELECT 1 FROM session AS later
                  WHERE later.tenant_id = s.tenant_id AND later.session_key = s.session_key
                    AND (later.created_ms, later.place) > (s.created_ms, s.place))
ORDER BY session_key LIMIT $4
"""
SESSIONS = f"""
{_SESSION} WHERE tenant_id = $1 AND (updated_ms, session_id) < ($2, $3)
  AND ($5::text IS NULL OR state = $5) AND ($6::text IS NULL OR agent_id = $6)
  AND ($7::text IS NULL OR runner_id = $7) AND ($8::text IS NULL OR workspace = $8)
  AND ($9::text IS NULL OR session_key = $9) AND ($10::text[] IS NULL OR session_id = ANY ($10))
ORDER BY updated_ms DESC, session_id DESC LIMIT $4
"""
RUNNER_SESSIONS = f"{_SESSION} WHERE runner_id = $1 AND tenant_id = $2 AND state <> 'closed' ORDER BY place"
_WANTED = "unnest($1::text[], $2::text[]) AS wanted (tenant_id, session_id)"
SESSION_CLOCKS = f"""
SELECT session_id, runner_id, state, deadline_ms, tenant_id FROM session JOIN {_WANTED} USING (tenant_id, session_id)
ORDER BY session_id COLLATE "C"
"""
SESSIONS_NAMED = f"{_SESSION} JOIN {_WANTED} USING (tenant_id, session_id)"
LANE_PARTS = f"""
SELECT session_id, 'command', place, '', body FROM {_WANTED} JOIN command USING (tenant_id, session_id)
    WHERE ended_ms IS NULL
UNION ALL SELECT session_id, 'approval', place, '', body FROM {_WANTED} JOIN approval USING (tenant_id, session_id)
    WHERE state IN ('pending', 'granted')
UNION ALL SELECT session_id, 'control', seq, message_id, body FROM {_WANTED} JOIN control USING (tenant_id, session_id)
UNION ALL SELECT wanted.session_id, 'received', latest.n, latest.message_id, ''::bytea
    FROM {_WANTED} JOIN stream ON stream.tenant_id = wanted.tenant_id AND stream.name = 's/' || wanted.session_id
    CROSS JOIN LATERAL (SELECT n, message_id FROM event
                        WHERE event.tenant_id = wanted.tenant_id AND stream_id = stream.id AND kind IN ('C', 'refused')
                        ORDER BY n DESC LIMIT $3) AS latest
UNION ALL SELECT session_id, 'pending', place, entry_id, ''::bytea
    FROM {_WANTED} JOIN transcript_pending USING (tenant_id, session_id) WHERE $4::boolean
"""
"""What lanes consist of besides their sessions, by parts, in no particular order."""
DUE_SESSIONS = """
SELECT session_id, deadline_ms, state, tenant_id FROM session WHERE deadline_ms IS NOT NULL ORDER BY deadline_ms, place
"""

# --- commands ---
COMMAND = "SELECT body FROM command WHERE id = $1 AND tenant_id = $2"
LIVE_COMMANDS = "SELECT body FROM command WHERE session_id = $1 AND tenant_id = $2 AND ended_ms IS NULL ORDER BY place"
EXECUTES_SINCE = """
SELECT count(*) FROM command
WHERE tenant_id = $1 AND ($2::text IS NULL OR actor_id = $2) AND created_ms >= $3 AND type = 'execute'
"""


def commands(filters: tuple[str, ...], *, paged: bool) -> str:
    """Select a page of a tenant's commands by these columns, newest first."""
    where = "".join(f" AND {column} = ${number}" for number, column in enumerate(filters, 2))
    last = len(filters) + 2
    if paged:
        where += f" AND place < (SELECT place FROM command WHERE id = ${last} AND tenant_id = $1)"
        last += 1
    return f"SELECT body FROM command WHERE tenant_id = $1{where} ORDER BY place DESC LIMIT ${last}"


# --- approvals ---
APPROVAL = "SELECT body FROM approval WHERE id = $1 AND tenant_id = $2"
BALLOT = """
SELECT approval.body, command.body, session.runner_id FROM approval
LEFT JOIN session ON session.tenant_id = $2 AND session.session_id = approval.session_id
LEFT JOIN command ON command.tenant_id = $2 AND command.session_id = approval.session_id AND command.ended_ms IS NULL
    AND command.state = 'pending_approval'
WHERE approval.id = $1 AND approval.tenant_id = $2
"""
"""One row for each command of the session that waits for a yes: few, by the index of those that have not ended."""
LIVE_APPROVALS = """
SELECT body FROM approval WHERE session_id = $1 AND tenant_id = $2 AND state IN ('pending', 'granted') ORDER BY place
"""
APPROVALS = """
SELECT body FROM approval WHERE tenant_id = $1 AND ($2::text IS NULL OR state = $2)
  AND ($3::text IS NULL OR place < (SELECT place FROM approval WHERE id = $3 AND tenant_id = $1))
ORDER BY place DESC LIMIT $4
"""

# --- usage reported by agents ---
_USAGE_WANTED = ("$1::text", "$2::bigint", "$3::bigint", "$4::text", "$5::text", "$6::text", "$7::text", "$8::bigint")


def usage(by: Set[UsageDimension]) -> str:
    """Return the query that sums usage, grouped by these."""
    return usage_sums(by, _USAGE_WANTED)


# --- control frames, files, answers ---
CONTROLS_AFTER = """
SELECT seq, message_id, body FROM control WHERE session_id = $1 AND tenant_id = $2 AND seq > $3 ORDER BY seq
"""
FILE = "SELECT body FROM file WHERE session_id = $1 AND tenant_id = $2 AND transfer_id = $3"
FILES = """
SELECT place, body FROM file WHERE session_id = $1 AND tenant_id = $2 AND place > $3 ORDER BY place LIMIT $4
"""
IDEMPOTENCY = """
SELECT fingerprint, status, headers, body, created_ms, command_id FROM idempotency
WHERE scope = $1 AND tenant_id IN ($2, '')
"""
"""An answer without a tenant is of a gateway that did not store it yet."""

# --- audit ---
AUDIT_HEAD = "SELECT count, last_hash FROM audit_head WHERE tenant_id = $1 AND count > 0"
AUDIT_TREE = "SELECT count, last_hash, peaks FROM audit_head WHERE tenant_id = $1"
AUDIT_AFTER = """
SELECT seq, hash, body,
       ARRAY (SELECT name FROM audit_personal AS p WHERE p.tenant_id = a.tenant_id AND p.seq = a.seq ORDER BY name),
       ARRAY (SELECT salt FROM audit_personal AS p WHERE p.tenant_id = a.tenant_id AND p.seq = a.seq ORDER BY name),
       ARRAY (SELECT value FROM audit_personal AS p WHERE p.tenant_id = a.tenant_id AND p.seq = a.seq ORDER BY name)
FROM audit AS a WHERE tenant_id = $1 AND seq > $2 ORDER BY seq LIMIT $3
"""
"""Records, each with its personal values; one statement, so that an erasure is seen completely or not at all."""
_FRONT = "encode(substring(body FROM 1 FOR 176), 'escape')"
_COMMAND = f"""substring({_FRONT} FROM '"command_id":"(cmd_[^"]+)"')"""
_APPROVAL = f"""substring({_FRONT} FROM '"approval_id":"(apr_[^"]+)"')"""
AUDIT_OF_COMMAND = f"SELECT seq, hash, body FROM audit WHERE {_COMMAND} = $2 AND tenant_id = $1 ORDER BY seq"
AUDIT_OF_APPROVAL = f"""
SELECT seq, hash, body FROM audit WHERE {_APPROVAL} = $2 AND {_COMMAND} IS NULL AND tenant_id = $1 ORDER BY seq
"""
"""Uses the indexes `audit_by_command` and `audit_by_approval`, whose expressions these are."""
AUDIT_OF_ROWS = """
SELECT seq, hash, body FROM audit WHERE tenant_id = $1 AND seq > $2 AND position('"row_sha256":"'::bytea IN body) > 0
ORDER BY seq
"""
"""Uses the index `audit_of_rows`, whose condition this is."""
_SEALS = """position('"frames_of":"'::bytea IN body)"""
AUDIT_OF_SEALS = f"""
SELECT seq, hash, body FROM audit
WHERE tenant_id = $1 AND substring(body FROM {_SEALS} + 13 FOR 32) = $2::bytea AND {_SEALS} > 0
ORDER BY seq DESC LIMIT $3
"""
"""Uses the index `audit_of_seals`, whose expressions these are."""
LANE_HISTORIES = f"""
SELECT wanted.place, 'event', tail.n, '', tail.message_id, tail.kind, tail.at_ms, tail.body
    FROM unnest($1::int[], $15::text[], $2::text[], $3::bigint[]) AS wanted (place, tenant_id, name, after)
    JOIN stream USING (tenant_id, name)
    CROSS JOIN LATERAL (SELECT n, message_id, kind, at_ms, body FROM event
                        WHERE event.tenant_id = wanted.tenant_id AND stream_id = stream.id AND n > wanted.after
                        ORDER BY n LIMIT $4) AS tail
UNION ALL SELECT wanted.place, 'about', found.seq, wanted.subject, found.hash, '', 0, found.body
    FROM unnest($5::int[], $6::text[], $7::text[]) AS wanted (place, tenant_id, subject)
    CROSS JOIN LATERAL (SELECT seq, hash, body FROM audit
                        WHERE {_COMMAND} = wanted.subject AND tenant_id = wanted.tenant_id OFFSET 0) AS found
UNION ALL SELECT wanted.place, 'about', found.seq, wanted.subject, found.hash, '', 0, found.body
    FROM unnest($8::int[], $9::text[], $10::text[]) AS wanted (place, tenant_id, subject)
    CROSS JOIN LATERAL (SELECT seq, hash, body FROM audit
                        WHERE {_APPROVAL} = wanted.subject AND {_COMMAND} IS NULL
                          AND tenant_id = wanted.tenant_id OFFSET 0) AS found
UNION ALL SELECT wanted.place, 'seal', found.seq, '', found.hash, '', 0, found.body
    FROM unnest($11::int[], $12::text[], $13::bytea[]) AS wanted (place, tenant_id, name)
    CROSS JOIN LATERAL (SELECT seq, hash, body FROM audit
                        WHERE tenant_id = wanted.tenant_id AND substring(body FROM {_SEALS} + 13 FOR 32) = wanted.name
                          AND {_SEALS} > 0 ORDER BY seq DESC LIMIT $14) AS found
"""
"""The data that the states of many lanes require, by the position of each in the query, in no particular order. `OFFSET
0` makes the server look up the records of each subject by the index: PostgreSQL guesses far too many, and would read
the whole log instead."""
AUDIT_TENANTS = "SELECT tenant_id FROM audit_head WHERE count > 0 ORDER BY tenant_id"
AUDIT_LEAVES = "SELECT hash FROM audit WHERE tenant_id = $1 AND seq > $2 AND seq <= $3 ORDER BY seq"
AUDIT_NODES = """
SELECT hash FROM audit_node WHERE tenant_id = $1 AND level = $2 AND place >= $3 AND place < $4 ORDER BY place
"""
AUDIT_PERSONAL_OF = """
SELECT DISTINCT seq FROM audit_personal WHERE tenant_id = $1 AND ($2::text IS NULL OR who = $2) ORDER BY seq LIMIT $3
"""

# --- transcript lines on their way to a file ---
TRANSCRIPT_PENDING = """
SELECT tenant_id, session_id, entry_id, line FROM transcript_pending ORDER BY place LIMIT $1
"""
TRANSCRIPT_PENDING_OF = """
SELECT tenant_id, session_id, entry_id, line FROM transcript_pending WHERE session_id = $1 AND tenant_id = $2
ORDER BY place LIMIT $3
"""

# --- upkeep (G-5) ---
PRUNE_IDEMPOTENCY = """
DELETE FROM idempotency WHERE scope IN (
    SELECT scope FROM idempotency
    LEFT JOIN command ON command.tenant_id = idempotency.tenant_id AND command.id = idempotency.command_id
    WHERE idempotency.created_ms < $1 AND (command.id IS NULL OR command.ended_ms < $1)
    LIMIT $2)
"""
COUNTS = """
SELECT 'command', state, count(*) FROM command WHERE ended_ms IS NULL GROUP BY state
UNION ALL SELECT 'approval', state, count(*) FROM approval WHERE state IN ('pending', 'granted') GROUP BY state
UNION ALL SELECT 'delivery', 'pending', count(*) FROM delivery WHERE due_ms IS NOT NULL HAVING count(*) > 0
UNION ALL SELECT 'delivery', state, count(*) FROM delivery WHERE state = 'dead' GROUP BY state
UNION ALL SELECT 'session', '', count(*) FROM session
"""
_STILL = """
  AND NOT EXISTS (SELECT 1 FROM command AS c WHERE c.tenant_id = s.tenant_id AND c.session_id = s.session_id
                  AND (c.ended_ms IS NULL OR c.ended_ms >= $2))
  AND (s.updated_ms < $2 OR EXISTS (SELECT 1 FROM command AS c
                                    WHERE c.tenant_id = s.tenant_id AND c.session_id = s.session_id))
"""
"""A session without work under way whose last command ended before an instant; without any, nothing changed since."""
_STREAMS = """
SELECT stream.id FROM command AS c JOIN stream ON stream.tenant_id = s.tenant_id AND stream.name = 'c/' || c.id
WHERE c.tenant_id = s.tenant_id AND c.session_id = s.session_id
UNION ALL SELECT stream.id FROM stream WHERE stream.tenant_id = s.tenant_id AND stream.name = 's/' || s.session_id
"""
OLD_SESSIONS = f"""
SELECT s.session_id FROM session AS s WHERE s.tenant_id = $1 AND s.session_id > $3 AND s.created_ms < $2 {_STILL}
  AND (EXISTS (SELECT 1 FROM ({_STREAMS}) AS t JOIN event ON event.tenant_id = s.tenant_id AND event.stream_id = t.id)
       OR EXISTS (SELECT 1 FROM file WHERE file.tenant_id = s.tenant_id AND file.session_id = s.session_id))
ORDER BY s.session_id LIMIT $4
"""
IF_OLD = f"""
SELECT s.machine FROM session AS s WHERE s.tenant_id = $1 AND s.session_id = $3 AND s.created_ms < $2 {_STILL}
FOR UPDATE OF s
"""
"""The row is locked: nothing starts in the session until the step is done."""
STREAMS_OF_SESSION = """
SELECT 'c/' || id FROM command WHERE tenant_id = $1 AND session_id = $2 UNION ALL SELECT 's/' || $2
"""
WOULD_FORGET = f"""
SELECT s.machine,
    (SELECT count(*) FROM ({_STREAMS}) AS t JOIN event ON event.tenant_id = s.tenant_id AND event.stream_id = t.id),
    (SELECT count(*) FROM file WHERE file.tenant_id = s.tenant_id AND file.session_id = s.session_id),
    ARRAY (SELECT seq FROM control WHERE control.tenant_id = s.tenant_id AND control.session_id = s.session_id)
FROM session AS s WHERE s.tenant_id = $1 AND s.session_id = $2
"""
FORGET_EVENTS = """
DELETE FROM event USING (
    SELECT stream_id, n FROM event
    WHERE tenant_id = $1 AND stream_id = (SELECT id FROM stream WHERE tenant_id = $1 AND name = $2) ORDER BY n LIMIT $3
) AS old WHERE event.tenant_id = $1 AND event.stream_id = old.stream_id AND event.n = old.n
"""
FORGET_FILES = """
DELETE FROM file USING (
    SELECT place FROM file WHERE tenant_id = $1 AND session_id = $2 ORDER BY place LIMIT $3
) AS old WHERE file.tenant_id = $1 AND file.session_id = $2 AND file.place = old.place
"""
FORGET_CONTROLS = "DELETE FROM control WHERE tenant_id = $1 AND session_id = $2 AND seq <= $3"
_OLD_FEED = """
SELECT event.stream_id, event.n FROM stream JOIN event ON event.stream_id = stream.id AND event.tenant_id = $1
WHERE stream.tenant_id = $1 AND stream.name = 't/' || $1 AND event.n < coalesce(
    (SELECT e.n FROM event AS e WHERE e.tenant_id = $1 AND e.stream_id = stream.id AND e.at_ms >= $2
     ORDER BY e.n LIMIT 1), stream.head + 1)
"""
"""Only a beginning is deleted, so that the rest has no gap."""
OLD_FEED = f"SELECT count(*) FROM ({_OLD_FEED}) AS old"
FORGET_FEED = f"""
DELETE FROM event USING ({_OLD_FEED} ORDER BY event.n LIMIT $3) AS old
WHERE event.tenant_id = $1 AND event.stream_id = old.stream_id AND event.n = old.n
"""
_OLD_DELIVERIES = "SELECT id FROM delivery WHERE tenant_id = $1 AND due_ms IS NULL AND created_at < $2"
OLD_DELIVERIES = f"SELECT count(*) FROM ({_OLD_DELIVERIES}) AS old"
FORGET_DELIVERIES = f"DELETE FROM delivery WHERE tenant_id = $1 AND id IN ({_OLD_DELIVERIES} LIMIT $3)"
FILE_OBJECTS = "SELECT DISTINCT name FROM file, unnest(objects) AS name"
UNDER_WAY = "SELECT machine FROM session WHERE position('\"incoming\":{\"'::bytea IN machine) > 0"
"""Sessions with files under way, found without parsing every session's state as JSON."""
