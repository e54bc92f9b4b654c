-- oldest: 1
-- Control frames and files carry the tenant of their session, as a table that is distributed by tenant needs it. A gateway
-- of before does not name it: then it is found by the session, at once or, if one statement writes both, at its end. The
-- keys without the tenant stay, for such a gateway finds its rows by them.
CREATE OR REPLACE FUNCTION interlock_find_tenant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.tenant_id := coalesce((SELECT tenant_id FROM session WHERE session_id = NEW.session_id), '');
    RETURN NEW;
END
$$;
CREATE OR REPLACE FUNCTION interlock_set_tenant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('UPDATE %I AS r SET tenant_id = s.tenant_id FROM session AS s '
                   'WHERE s.session_id = $1 AND r.session_id = $1 AND r.tenant_id = %L', TG_TABLE_NAME, '')
        USING NEW.session_id;
    RETURN NULL;
END
$$;

ALTER TABLE control ADD COLUMN IF NOT EXISTS tenant_id text COLLATE "C" NOT NULL DEFAULT '';
CREATE OR REPLACE TRIGGER control_finds_tenant BEFORE INSERT ON control
    FOR EACH ROW WHEN (NEW.tenant_id = '') EXECUTE FUNCTION interlock_find_tenant();
CREATE OR REPLACE TRIGGER control_gets_tenant AFTER INSERT ON control
    FOR EACH ROW WHEN (NEW.tenant_id = '') EXECUTE FUNCTION interlock_set_tenant();

ALTER TABLE file ADD COLUMN IF NOT EXISTS tenant_id text COLLATE "C" NOT NULL DEFAULT '';
CREATE OR REPLACE TRIGGER file_finds_tenant BEFORE INSERT ON file
    FOR EACH ROW WHEN (NEW.tenant_id = '') EXECUTE FUNCTION interlock_find_tenant();
CREATE OR REPLACE TRIGGER file_gets_tenant AFTER INSERT ON file
    FOR EACH ROW WHEN (NEW.tenant_id = '') EXECUTE FUNCTION interlock_set_tenant();
-- in batches of control by session_id, seq
UPDATE control SET tenant_id = session.tenant_id FROM session
WHERE session.session_id = control.session_id AND control.tenant_id = '';
-- in batches of file by session_id, transfer_id
UPDATE file SET tenant_id = session.tenant_id FROM session
WHERE session.session_id = file.session_id AND file.tenant_id = '';
-- apart
CREATE UNIQUE INDEX IF NOT EXISTS control_of_tenant ON control (tenant_id, session_id, seq);
-- apart
CREATE UNIQUE INDEX IF NOT EXISTS file_of_tenant ON file (tenant_id, session_id, transfer_id);
-- apart
CREATE INDEX IF NOT EXISTS file_by_tenant ON file (tenant_id, session_id, place);
