-- What starts nothing new until it is told to (C-5). `name` is empty where the scope is the whole gateway.
CREATE TABLE drain (
    place     INTEGER PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    scope     TEXT NOT NULL,
    name      TEXT NOT NULL,
    body      BLOB NOT NULL,
    UNIQUE (tenant_id, scope, name)
);

-- Lists show executes apart from the orders about them (C-2).
ALTER TABLE command ADD COLUMN type TEXT NOT NULL DEFAULT 'execute';
UPDATE command SET type = json_extract(CAST(body AS TEXT), '$.command.type');

-- Sessions are paged by when they last changed, then by id: two that changed in one millisecond are both shown.
DROP INDEX session_by_activity;
CREATE INDEX session_by_activity ON session (tenant_id, updated_ms, session_id);
