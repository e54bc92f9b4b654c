"""The statements that write to the ledger, each under its name. Rows are passed as one array for each column."""

from __future__ import annotations

BEGIN = (
    "BEGIN; SET LOCAL statement_timeout = {statement_timeout_ms}; "
    "SET LOCAL idle_in_transaction_session_timeout = {idle_timeout_ms}; "
    "INSERT INTO writer (id, number) VALUES ('{writer_id}', {{number}}) "
    "ON CONFLICT (id) DO UPDATE SET number = excluded.number, at = excluded.at"
)
"""One message to the server, which notes the transaction. Local to it: behind a pool the next one may have another
connection."""
NOTE_WRITER = """
INSERT INTO writer (id, number) VALUES ($1, $2)
ON CONFLICT (id) DO UPDATE SET number = excluded.number, at = excluded.at
"""
HOLD_LANES = """
SELECT lane.tenant_id, lane.name, lane.epoch
FROM lane JOIN unnest($1::text[], $2::text[]) AS args (tenant_id, name) USING (tenant_id, name)
ORDER BY lane.name FOR SHARE OF lane
"""
"""No other gateway can take these lanes until the transaction has ended."""
LAST_OF_WRITER = "SELECT number FROM writer WHERE id = $1 FOR UPDATE"
"""Waits for a transaction of the writer that is still under way at the server, which has locked this row."""
DECIDE_WRITER = """
INSERT INTO writer (id, number, heads) VALUES ($1, $2, NULL)
ON CONFLICT (id) DO UPDATE SET number = excluded.number, heads = NULL, at = excluded.at
WHERE writer.number < excluded.number
"""
"""Decide that this transaction of one statement is not committed, unless it is: should it reach the server later, it
finds its number taken and is refused."""
HEADS_OF_WRITER = "SELECT heads FROM writer WHERE id = $1 AND number = $2"
"""Null if the transaction was not committed."""
FORGET_WRITERS = "DELETE FROM writer WHERE at < now() - interval '7 days'"
TAKE_LANE = "UPDATE lane SET epoch = epoch + 1 WHERE tenant_id = $1 AND name = $2 RETURNING epoch"
NAME_LANE = "INSERT INTO lane (tenant_id, name, epoch) VALUES ($1, $2, 0) ON CONFLICT DO NOTHING"
"""Also adds the tenant to the row of a gateway that does not know of tenants of lanes (migration 0019)."""
BEGIN_LANES = """
INSERT INTO lane (tenant_id, name, epoch)
SELECT tenant_id, name, 1 FROM unnest($1::text[], $2::text[]) AS args (tenant_id, name)
ON CONFLICT DO NOTHING RETURNING name
"""

# --- streams ---
_GROW_STREAMS = """
INSERT INTO stream (tenant_id, name, head) SELECT tenant_id, name, added
FROM unnest($1::text[], $2::text[], $3::bigint[]) AS args (tenant_id, name, added)
ON CONFLICT (tenant_id, name) DO UPDATE SET head = stream.head + excluded.head
RETURNING id, tenant_id, name, head
"""
_WRITE_EVENTS = """
INSERT INTO event (tenant_id, stream_id, n, kind, at_ms, message_id, body)
SELECT grown.tenant_id, grown.id, grown.head - event.before, event.kind, event.at_ms, event.message_id, event.body
FROM unnest($4::text[], $5::text[], $6::bigint[], $7::text[], $8::bigint[], $9::text[], $10::bytea[])
    AS event (tenant_id, name, before, kind, at_ms, message_id, body)
JOIN grown USING (tenant_id, name)
"""
EVENTS_APPENDED = (("grown", _GROW_STREAMS), ("written", _WRITE_EVENTS))
"""The parts of APPEND, for a statement that does more (`single`)."""
APPEND = f"WITH grown AS ({_GROW_STREAMS}), written AS ({_WRITE_EVENTS}) SELECT name, head FROM grown"
"""Lock the heads, in the order of their names, assign the numbers and write the events. `before` is how many of the
same stream follow an event."""

# --- rows ---
PUT_SESSION = """
INSERT INTO session (session_id, tenant_id, session_key, agent_id, runner_id, workspace, state, created_ms, updated_ms,
                     deadline_ms, usage, machine)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[],
                     $9::bigint[], $10::bigint[], $11::bytea[], $12::bytea[])
ON CONFLICT (tenant_id, session_id) DO UPDATE SET
    session_key = excluded.session_key, agent_id = excluded.agent_id,
    runner_id = excluded.runner_id, workspace = excluded.workspace, state = excluded.state,
    created_ms = excluded.created_ms, updated_ms = excluded.updated_ms, deadline_ms = excluded.deadline_ms,
    usage = excluded.usage, machine = excluded.machine
"""
PUT_COMMAND = """
INSERT INTO command (id, tenant_id, session_id, state, agent_id, actor_id, ended_ms, type, body, created_ms)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[],
                     $9::bytea[], $10::bigint[])
ON CONFLICT (tenant_id, id) DO UPDATE SET
    session_id = excluded.session_id, state = excluded.state,
    agent_id = excluded.agent_id, actor_id = excluded.actor_id, ended_ms = excluded.ended_ms, body = excluded.body
"""
PUT_APPROVAL = """
INSERT INTO approval (id, tenant_id, session_id, state, body)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[])
ON CONFLICT (tenant_id, id) DO UPDATE SET
    session_id = excluded.session_id, state = excluded.state, body = excluded.body
"""
PUT_CONTROL = """
INSERT INTO control (tenant_id, session_id, seq, message_id, body)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bytea[])
ON CONFLICT (tenant_id, session_id, seq) DO UPDATE SET message_id = excluded.message_id, body = excluded.body
"""
DROP_CONTROLS = """
DELETE FROM control USING unnest($1::text[], $2::text[], $3::bigint[]) AS old (tenant_id, session_id, seq)
WHERE control.tenant_id = old.tenant_id AND control.session_id = old.session_id AND control.seq <= old.seq
"""
ADD_FILE = """
INSERT INTO file (tenant_id, session_id, transfer_id, body, objects)
SELECT tenant_id, session_id, transfer_id, body, string_to_array(objects, chr(10))
FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[], $5::text[])
    AS args (tenant_id, session_id, transfer_id, body, objects)
ON CONFLICT (tenant_id, session_id, transfer_id) DO NOTHING
"""
"""Names of objects contain no line feed; arrays of arrays of different lengths do not exist."""
ADD_IDEMPOTENCY = """
INSERT INTO idempotency (tenant_id, scope, fingerprint, status, headers, body, created_ms, command_id)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::bytea[], $6::bytea[], $7::bigint[], $8::text[])
"""
PUT_FACT = """
INSERT INTO store (name, value) SELECT * FROM unnest($1::text[], $2::text[])
ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
ADVANCE_FACT = """
INSERT INTO store (name, value) SELECT * FROM unnest($1::text[], $2::text[])
ON CONFLICT (name) DO UPDATE SET value = excluded.value
WHERE coalesce(substring(store.value FROM '^[0-9]{1,18}')::bigint, 0)
    <= coalesce(substring(excluded.value FROM '^[0-9]{1,18}')::bigint, 0)
"""
ADD_FACT = "INSERT INTO store (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING"

# --- transcripts ---
PUT_PENDING = """
INSERT INTO transcript_pending (tenant_id, session_id, entry_id, line)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[])
ON CONFLICT (tenant_id, session_id, entry_id) DO UPDATE SET line = excluded.line
"""
DROP_PENDING = """
DELETE FROM transcript_pending USING unnest($1::text[], $2::text[], $3::text[]) AS old (tenant_id, session_id, entry_id)
WHERE transcript_pending.tenant_id = old.tenant_id AND transcript_pending.session_id = old.session_id
  AND transcript_pending.entry_id = old.entry_id
"""

# --- audit ---
ADD_HEADS = """
INSERT INTO audit_head (tenant_id, count, last_hash, peaks)
SELECT tenant_id, 0, $2, '' FROM unnest($1::text[]) AS tenant_id ON CONFLICT (tenant_id) DO NOTHING
"""
READ_HEADS = """
SELECT tenant_id, count, last_hash, peaks, (SELECT value FROM store WHERE name = $2 || tenant_id), frozen
FROM audit_head WHERE tenant_id = ANY ($1::text[]) ORDER BY tenant_id
"""
HOLD_HEADS = f"{READ_HEADS} FOR UPDATE OF audit_head"
PUT_HEADS = """
UPDATE audit_head SET count = args.count, last_hash = args.last_hash, peaks = args.peaks
FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bytea[]) AS args (tenant_id, count, last_hash, peaks)
WHERE audit_head.tenant_id = args.tenant_id
"""
ADD_RECORDS = """
INSERT INTO audit (tenant_id, seq, hash, body) SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bytea[])
"""
ADD_NODES = """
INSERT INTO audit_node (tenant_id, level, place, hash)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bytea[])
ON CONFLICT (tenant_id, level, place) DO UPDATE SET hash = excluded.hash
"""
ADD_PERSONAL = """
INSERT INTO audit_personal (tenant_id, seq, name, who, salt, value)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bytea[])
"""
ERASE_PERSONAL = """
DELETE FROM audit_personal USING unnest($1::text[], $2::bigint[]) AS old (tenant_id, seq)
WHERE audit_personal.tenant_id = old.tenant_id AND audit_personal.seq = old.seq
"""
VACUUM_PERSONAL = "VACUUM audit_personal"
"""So that the space of erased data is freed at once, not at the server's next vacuum."""
