-- One-time codes by which a runner is paired (L-3): only their hash, until they are spent or their time is over.
CREATE TABLE pairing (
    code_sha256 TEXT PRIMARY KEY,
    tenant_id   TEXT NOT NULL,
    expires_ms  INTEGER NOT NULL,
    body        BLOB NOT NULL
);
CREATE INDEX pairing_by_expiry ON pairing (expires_ms);

-- When a runner was last seen stands beside its body: it is written alone, so that it never brings back an older token.
ALTER TABLE runner ADD COLUMN last_seen_ms INTEGER NOT NULL DEFAULT 0;
