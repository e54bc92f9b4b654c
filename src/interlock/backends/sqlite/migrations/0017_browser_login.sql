-- Browser sessions, and the one-time codes that open them (J-10, J-15).
CREATE TABLE browser_login (
    id           TEXT PRIMARY KEY,
    tenant_id    TEXT NOT NULL,
    expires_ms   INTEGER NOT NULL,
    last_used_ms INTEGER NOT NULL,
    body         BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX browser_login_by_expiry ON browser_login (expires_ms);
CREATE INDEX browser_login_by_tenant ON browser_login (tenant_id, id);
