-- oldest: 1
-- Which links have changed since somebody looked, so that nobody reads all of them again and again. `changed` is the
-- transaction that wrote the row last: whoever reads from the oldest one that was still open when it looked before misses
-- none, in whatever order they commit. A trigger sets it, since programs of the schema before write here too.
ALTER TABLE runner_link ADD COLUMN changed bigint NOT NULL DEFAULT 0;
CREATE FUNCTION interlock_link_changed() RETURNS trigger LANGUAGE plpgsql
    AS $$ BEGIN NEW.changed := pg_current_xact_id()::text::bigint; RETURN NEW; END $$;
CREATE TRIGGER runner_link_changed BEFORE INSERT OR UPDATE ON runner_link
    FOR EACH ROW EXECUTE FUNCTION interlock_link_changed();
CREATE INDEX runner_link_by_change ON runner_link (changed);
