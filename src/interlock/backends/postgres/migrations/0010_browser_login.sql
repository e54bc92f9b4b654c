-- oldest: 1
-- Browser sessions, and the one-time codes that open them (J-10, J-15).
CREATE TABLE browser_login (
    id           text COLLATE "C" PRIMARY KEY,
    tenant_id    text COLLATE "C" NOT NULL,
    expires_ms   bigint NOT NULL,
    last_used_ms bigint NOT NULL,
    body         bytea NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX browser_login_by_expiry ON browser_login (expires_ms);
CREATE INDEX browser_login_by_tenant ON browser_login (tenant_id, id);
