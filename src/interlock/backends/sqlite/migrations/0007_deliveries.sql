-- Questions to approvers on their way out (P-8): one row a channel and approval; `due_ms` is NULL once it has ended.
CREATE TABLE delivery (
    place       INTEGER PRIMARY KEY,
    id          TEXT NOT NULL UNIQUE,
    tenant_id   TEXT NOT NULL,
    state       TEXT NOT NULL,
    due_ms      INTEGER,
    body        BLOB NOT NULL
);
CREATE INDEX delivery_due ON delivery (due_ms) WHERE due_ms IS NOT NULL;
CREATE INDEX delivery_by_state ON delivery (tenant_id, state);
