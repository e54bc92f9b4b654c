-- oldest: 1
-- A stream and its events have their tenant, as tables that are distributed by tenant need it. The key without it stays:
-- a gateway of before finds a stream by its name, and adds it and its events without their tenant. Triggers put it in;
-- they see what the statement that runs has written already.
ALTER TABLE stream ADD COLUMN IF NOT EXISTS tenant_id text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE event ADD COLUMN IF NOT EXISTS tenant_id text COLLATE "C" NOT NULL DEFAULT '';

CREATE OR REPLACE FUNCTION interlock_tenant_of_stream(name text) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(CASE left(name, 2)
        WHEN 't/' THEN substr(name, 3)
        WHEN 's/' THEN (SELECT tenant_id FROM session WHERE session_id = substr(name, 3))
        WHEN 'c/' THEN (SELECT tenant_id FROM command WHERE id = substr(name, 3))
    END, '')
$$;

CREATE OR REPLACE FUNCTION interlock_stream_has_tenant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.tenant_id := interlock_tenant_of_stream(NEW.name);
    RETURN NEW;
END
$$;
CREATE OR REPLACE TRIGGER stream_has_tenant BEFORE INSERT ON stream
    FOR EACH ROW WHEN (NEW.tenant_id = '') EXECUTE FUNCTION interlock_stream_has_tenant();
CREATE OR REPLACE FUNCTION interlock_event_has_tenant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.tenant_id := coalesce((SELECT tenant_id FROM stream WHERE id = NEW.stream_id), '');
    RETURN NEW;
END
$$;
CREATE OR REPLACE TRIGGER event_has_tenant BEFORE INSERT ON event
    FOR EACH ROW WHEN (NEW.tenant_id = '') EXECUTE FUNCTION interlock_event_has_tenant();
-- in batches of stream by id
UPDATE stream SET tenant_id = interlock_tenant_of_stream(name) WHERE stream.tenant_id = '';
-- in batches of event by stream_id, n
UPDATE event SET tenant_id = stream.tenant_id FROM stream WHERE stream.id = event.stream_id AND event.tenant_id = '';
-- apart
CREATE UNIQUE INDEX IF NOT EXISTS stream_of_tenant ON stream (tenant_id, name);
