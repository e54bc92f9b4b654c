-- oldest: 1
-- Control frames and files carry the tenant of their session, as a table that is distributed by tenant needs it. A gateway
-- of before does not name it: then it is found by the session, at once or, if one statement writes both, at its end. The
-- keys without the tenant stay, for such a gateway finds its rows by them.
CREATE FUNCTION interlock_find_tenant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.tenant_id := coalesce((SELECT tenant_id FROM session WHERE session_id = NEW.session_id), '');
    RETURN NEW;
END
$$;
CREATE FUNCTION interlock_set_tenant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('UPDATE %I AS r SET tenant_id = s.tenant_id FROM session AS s '
                   'WHERE s.session_id = $1 AND r.session_id = $1 AND r.tenant_id = %L', TG_TABLE_NAME, '')
        USING NEW.session_id;
    RETURN NULL;
END
$$;

ALTER TABLE control ADD COLUMN tenant_id text COLLATE "C" NOT NULL DEFAULT '';
UPDATE control SET tenant_id = session.tenant_id FROM session WHERE session.session_id = control.session_id;
CREATE UNIQUE INDEX control_of_tenant ON control (tenant_id, session_id, seq);
CREATE TRIGGER control_finds_tenant BEFORE INSERT ON control
    FOR EACH ROW WHEN (NEW.tenant_id = '') EXECUTE FUNCTION interlock_find_tenant();
CREATE TRIGGER control_gets_tenant AFTER INSERT ON control
    FOR EACH ROW WHEN (NEW.tenant_id = '') EXECUTE FUNCTION interlock_set_tenant();

ALTER TABLE file ADD COLUMN tenant_id text COLLATE "C" NOT NULL DEFAULT '';
UPDATE file SET tenant_id = session.tenant_id FROM session WHERE session.session_id = file.session_id;
CREATE UNIQUE INDEX file_of_tenant ON file (tenant_id, session_id, transfer_id);
CREATE INDEX file_by_tenant ON file (tenant_id, session_id, place);
CREATE TRIGGER file_finds_tenant BEFORE INSERT ON file
    FOR EACH ROW WHEN (NEW.tenant_id = '') EXECUTE FUNCTION interlock_find_tenant();
CREATE TRIGGER file_gets_tenant AFTER INSERT ON file
    FOR EACH ROW WHEN (NEW.tenant_id = '') EXECUTE FUNCTION interlock_set_tenant();
