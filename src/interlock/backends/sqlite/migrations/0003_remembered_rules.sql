-- A person's "always" as a rule of policy (A-9); a revoked one stays, to be seen.
CREATE TABLE remembered_rule (
    place     INTEGER PRIMARY KEY,
    id        TEXT NOT NULL UNIQUE,
    tenant_id TEXT NOT NULL,
    revoked   INTEGER NOT NULL,
    body      BLOB NOT NULL
);
CREATE INDEX remembered_rule_in_force ON remembered_rule (tenant_id, revoked);

-- Keys for votes by signature (P-4): public halves only.
CREATE TABLE signing_key (
    place     INTEGER PRIMARY KEY,
    key_id    TEXT NOT NULL UNIQUE,
    tenant_id TEXT NOT NULL,
    body      BLOB NOT NULL
);
CREATE INDEX signing_key_by_tenant ON signing_key (tenant_id);
