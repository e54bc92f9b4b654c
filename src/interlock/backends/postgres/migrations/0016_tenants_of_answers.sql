-- oldest: 1
-- Kept answers carry the tenant that asked. A gateway of before does not name it: then it is found by the command that the
-- answer is about, at once or, if one statement writes both, at its end. An answer of such a gateway that is about no
-- command has none, and is found under every tenant until it is old: its scope is a digest of the tenant among others.
ALTER TABLE idempotency ADD COLUMN IF NOT EXISTS tenant_id text COLLATE "C" NOT NULL DEFAULT '';
CREATE OR REPLACE FUNCTION interlock_find_tenant_of_answer() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.tenant_id := coalesce((SELECT tenant_id FROM command WHERE id = NEW.command_id), '');
    RETURN NEW;
END
$$;
CREATE OR REPLACE FUNCTION interlock_set_tenant_of_answer() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE idempotency SET tenant_id = command.tenant_id FROM command
    WHERE command.id = NEW.command_id AND idempotency.scope = NEW.scope;
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER idempotency_finds_tenant BEFORE INSERT ON idempotency
    FOR EACH ROW WHEN (NEW.tenant_id = '') EXECUTE FUNCTION interlock_find_tenant_of_answer();
CREATE OR REPLACE TRIGGER idempotency_gets_tenant AFTER INSERT ON idempotency
    FOR EACH ROW WHEN (NEW.tenant_id = '' AND NEW.command_id IS NOT NULL)
    EXECUTE FUNCTION interlock_set_tenant_of_answer();
-- in batches of idempotency by scope
UPDATE idempotency SET tenant_id = command.tenant_id FROM command
WHERE command.id = idempotency.command_id AND idempotency.tenant_id = '';
-- apart
CREATE UNIQUE INDEX IF NOT EXISTS idempotency_of_tenant ON idempotency (tenant_id, scope);
