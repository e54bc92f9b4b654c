-- oldest: 1
-- A lane has the tenant of its session, and none if it is of the whole cluster. The key without it stays: a gateway of
-- before finds a lane by its name, and adds it without its tenant. Then triggers put it in: when the lane or its session is
-- added, or when a gateway that knows the tenant adds the same lane before there is a session.
ALTER TABLE lane ADD COLUMN IF NOT EXISTS tenant_id text COLLATE "C" NOT NULL DEFAULT '';
CREATE OR REPLACE FUNCTION interlock_tenant_of_lane(name text) RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN starts_with(name, 'house:') THEN substr(name, 7)
        ELSE coalesce((SELECT tenant_id FROM session WHERE session_id = name), '') END
$$;

CREATE OR REPLACE FUNCTION interlock_lane_has_tenant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.tenant_id := interlock_tenant_of_lane(NEW.name);
    RETURN NEW;
END
$$;
CREATE OR REPLACE TRIGGER lane_has_tenant BEFORE INSERT ON lane
    FOR EACH ROW WHEN (NEW.tenant_id = '') EXECUTE FUNCTION interlock_lane_has_tenant();
CREATE OR REPLACE FUNCTION interlock_lane_gets_tenant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE lane SET tenant_id = NEW.tenant_id WHERE name = NEW.name AND tenant_id = '';
    RETURN NEW;
END
$$;
CREATE OR REPLACE TRIGGER lane_gets_tenant BEFORE INSERT ON lane
    FOR EACH ROW WHEN (NEW.tenant_id <> '') EXECUTE FUNCTION interlock_lane_gets_tenant();
CREATE OR REPLACE FUNCTION interlock_session_gives_lane_tenant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE lane SET tenant_id = NEW.tenant_id WHERE name = NEW.session_id AND tenant_id = '';
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER session_gives_lane_tenant AFTER INSERT ON session
    FOR EACH ROW EXECUTE FUNCTION interlock_session_gives_lane_tenant();
-- in batches of lane by name
UPDATE lane SET tenant_id = interlock_tenant_of_lane(name) WHERE lane.tenant_id = '';
-- apart
CREATE UNIQUE INDEX IF NOT EXISTS lane_of_tenant ON lane (tenant_id, name);
