-- Tenants, and keys that are listed by tenant (K-1).
CREATE TABLE tenant (
    tenant_id TEXT PRIMARY KEY,
    body      BLOB NOT NULL
) WITHOUT ROWID;

-- When a key was last used stands beside its body: it is written alone, so that it never brings back what was revoked.
ALTER TABLE api_key ADD COLUMN tenant_id TEXT NOT NULL DEFAULT '';
ALTER TABLE api_key ADD COLUMN last_used_ms INTEGER NOT NULL DEFAULT 0;
UPDATE api_key SET tenant_id = json_extract(CAST(body AS TEXT), '$.tenant_id');
CREATE INDEX api_key_by_tenant ON api_key (tenant_id, key_id);
