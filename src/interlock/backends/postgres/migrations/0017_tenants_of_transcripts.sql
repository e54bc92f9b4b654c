-- oldest: 1
-- As 0015, for transcripts, whose lines a gateway of before may write before their session is there: then they get their
-- tenant with it.
ALTER TABLE transcript_pending ADD COLUMN IF NOT EXISTS tenant_id text COLLATE "C" NOT NULL DEFAULT '';
CREATE OR REPLACE TRIGGER transcript_pending_finds_tenant BEFORE INSERT ON transcript_pending
    FOR EACH ROW WHEN (NEW.tenant_id = '') EXECUTE FUNCTION interlock_find_tenant();
CREATE OR REPLACE TRIGGER transcript_pending_gets_tenant AFTER INSERT ON transcript_pending
    FOR EACH ROW WHEN (NEW.tenant_id = '') EXECUTE FUNCTION interlock_set_tenant();

ALTER TABLE transcript ADD COLUMN IF NOT EXISTS tenant_id text COLLATE "C" NOT NULL DEFAULT '';
CREATE OR REPLACE TRIGGER transcript_finds_tenant BEFORE INSERT ON transcript
    FOR EACH ROW WHEN (NEW.tenant_id = '') EXECUTE FUNCTION interlock_find_tenant();

ALTER TABLE transcript_line ADD COLUMN IF NOT EXISTS tenant_id text COLLATE "C" NOT NULL DEFAULT '';
CREATE OR REPLACE TRIGGER transcript_line_finds_tenant BEFORE INSERT ON transcript_line
    FOR EACH ROW WHEN (NEW.tenant_id = '') EXECUTE FUNCTION interlock_find_tenant();

CREATE OR REPLACE FUNCTION interlock_give_tenant() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE transcript SET tenant_id = NEW.tenant_id WHERE session_id = NEW.session_id AND tenant_id = '';
    UPDATE transcript_line SET tenant_id = NEW.tenant_id WHERE session_id = NEW.session_id AND tenant_id = '';
    RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER session_gives_tenant AFTER INSERT ON session FOR EACH ROW EXECUTE FUNCTION interlock_give_tenant();
-- in batches of transcript_pending by session_id, entry_id
UPDATE transcript_pending SET tenant_id = session.tenant_id FROM session
WHERE session.session_id = transcript_pending.session_id AND transcript_pending.tenant_id = '';
-- in batches of transcript by session_id, kept
UPDATE transcript SET tenant_id = session.tenant_id FROM session
WHERE session.session_id = transcript.session_id AND transcript.tenant_id = '';
-- in batches of transcript_line by session_id, kept, n
UPDATE transcript_line SET tenant_id = session.tenant_id FROM session
WHERE session.session_id = transcript_line.session_id AND transcript_line.tenant_id = '';
-- apart
CREATE UNIQUE INDEX IF NOT EXISTS transcript_pending_of_tenant ON transcript_pending (tenant_id, session_id, entry_id);
-- apart
CREATE UNIQUE INDEX IF NOT EXISTS transcript_of_tenant ON transcript (tenant_id, session_id, kept);
-- apart
CREATE UNIQUE INDEX IF NOT EXISTS transcript_line_of_tenant ON transcript_line (tenant_id, session_id, kept, n);
-- apart
CREATE INDEX IF NOT EXISTS transcript_line_of_tenants_entry ON transcript_line (tenant_id, session_id, entry_id)
    WHERE entry_id IS NOT NULL;
