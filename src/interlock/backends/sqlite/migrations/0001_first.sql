-- The ledger's first schema. `place` columns keep the order of insertion, which is the order lists are given in.

CREATE TABLE store (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- One owner per lane (C-4): every commit that names a lane must carry the epoch that stands here.
CREATE TABLE lane (
    name  TEXT PRIMARY KEY,
    epoch INTEGER NOT NULL
) WITHOUT ROWID;

-- Numbered streams (S-1). The head outlives events that retention takes away, so a number is never given twice.
CREATE TABLE stream (
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    head INTEGER NOT NULL
);

-- `place` is stream.id * 2^32 + n: one tree only, a stream's events side by side in it and in the order of n.
CREATE TABLE event (
    place      INTEGER PRIMARY KEY,
    kind       TEXT NOT NULL,
    at_ms      INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    body       BLOB NOT NULL
);

CREATE TABLE session (
    place       INTEGER PRIMARY KEY,
    session_id  TEXT NOT NULL UNIQUE,
    tenant_id   TEXT NOT NULL,
    session_key TEXT NOT NULL,
    agent_id    TEXT NOT NULL,
    runner_id   TEXT NOT NULL,
    workspace   TEXT NOT NULL,
    state       TEXT NOT NULL,
    created_ms  INTEGER NOT NULL,
    updated_ms  INTEGER NOT NULL,
    deadline_ms INTEGER,
    usage       BLOB NOT NULL,
    machine     BLOB NOT NULL
);
CREATE INDEX session_by_key ON session (tenant_id, session_key, created_ms);
CREATE INDEX session_by_activity ON session (tenant_id, updated_ms);
CREATE INDEX session_open ON session (runner_id) WHERE state <> 'closed';
CREATE INDEX session_due ON session (deadline_ms) WHERE deadline_ms IS NOT NULL;

CREATE TABLE command (
    place      INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    tenant_id  TEXT NOT NULL,
    session_id TEXT NOT NULL,
    state      TEXT NOT NULL,
    agent_id   TEXT,
    actor_id   TEXT NOT NULL,
    ended_ms   INTEGER,
    body       BLOB NOT NULL
);
CREATE INDEX command_by_tenant ON command (tenant_id);
CREATE INDEX command_by_state ON command (tenant_id, state);
CREATE INDEX command_by_session ON command (tenant_id, session_id);
CREATE INDEX command_by_agent ON command (tenant_id, agent_id);
CREATE INDEX command_by_actor ON command (tenant_id, actor_id);
CREATE INDEX command_live ON command (session_id) WHERE ended_ms IS NULL;

CREATE TABLE approval (
    place      INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    tenant_id  TEXT NOT NULL,
    session_id TEXT NOT NULL,
    state      TEXT NOT NULL,
    body       BLOB NOT NULL
);
CREATE INDEX approval_by_tenant ON approval (tenant_id);
CREATE INDEX approval_by_state ON approval (tenant_id, state);
CREATE INDEX approval_live ON approval (session_id) WHERE state IN ('pending', 'granted');

CREATE TABLE control (
    session_id TEXT NOT NULL,
    seq        INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    body       BLOB NOT NULL,
    PRIMARY KEY (session_id, seq)
);

CREATE TABLE idempotency (
    scope       TEXT PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    status      INTEGER NOT NULL,
    headers     BLOB NOT NULL,
    created_ms  INTEGER NOT NULL,
    command_id  TEXT,
    body        BLOB NOT NULL
);
CREATE INDEX idempotency_by_age ON idempotency (created_ms);

CREATE TABLE runner (
    place        INTEGER PRIMARY KEY,
    runner_id    TEXT NOT NULL UNIQUE,
    tenant_id    TEXT NOT NULL,
    token_sha256 TEXT NOT NULL UNIQUE,
    body         BLOB NOT NULL
);
CREATE INDEX runner_by_tenant ON runner (tenant_id);

CREATE TABLE api_key (
    key_id     TEXT PRIMARY KEY,
    key_sha256 TEXT NOT NULL UNIQUE,
    body       BLOB NOT NULL
);

CREATE TABLE transcript_pending (
    place      INTEGER PRIMARY KEY,
    session_id TEXT NOT NULL,
    entry_id   TEXT NOT NULL,
    line       BLOB NOT NULL,
    UNIQUE (session_id, entry_id)
);

-- U-2: the chain of each tenant, and where it ends.
CREATE TABLE audit_head (
    tenant_id TEXT PRIMARY KEY,
    count     INTEGER NOT NULL,
    last_hash TEXT NOT NULL
) WITHOUT ROWID;

-- Without a rowid there is no second name by which INSERT OR REPLACE could push a record out.
CREATE TABLE audit (
    tenant_id TEXT NOT NULL,
    seq       INTEGER NOT NULL,
    hash      TEXT NOT NULL,
    body      BLOB NOT NULL,
    PRIMARY KEY (tenant_id, seq)
) WITHOUT ROWID;
CREATE TRIGGER audit_never_updated BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'an audit record is never changed');
END;
CREATE TRIGGER audit_never_deleted BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'an audit record is never deleted');
END;
-- INSERT OR REPLACE deletes without asking the trigger above, so a place that is taken is refused first.
CREATE TRIGGER audit_never_replaced BEFORE INSERT ON audit
WHEN EXISTS (SELECT 1 FROM audit WHERE tenant_id = NEW.tenant_id AND seq = NEW.seq)
BEGIN
    SELECT RAISE(ABORT, 'an audit record is never replaced');
END;
