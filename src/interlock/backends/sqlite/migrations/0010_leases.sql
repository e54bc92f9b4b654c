-- Who is there, and who owns which lane, where several gateways work on one ledger (C-4).
CREATE TABLE instance (
    instance_id TEXT PRIMARY KEY,
    address     TEXT NOT NULL,
    expires_ms  INTEGER NOT NULL
) WITHOUT ROWID;

-- '' where nobody has the lane, or one gateway alone has all of them.
ALTER TABLE lane ADD COLUMN instance_id TEXT NOT NULL DEFAULT '';
CREATE INDEX lane_by_instance ON lane (instance_id) WHERE instance_id <> '';

CREATE TABLE runner_link (
    runner_id   TEXT PRIMARY KEY,
    tenant_id   TEXT NOT NULL,
    instance_id TEXT NOT NULL,
    link_id     TEXT NOT NULL,
    present     BLOB NOT NULL
) WITHOUT ROWID;
