"""A ledger's tables as if distributed by tenant, in one PostgreSQL: a stand-in for Citus.

Citus accepts no triggers on distributed tables, and no unique key without the distribution column. So both are removed
here: a statement that relies on a trigger or on another key fails in the suites of the ports.
"""

from __future__ import annotations

OF_THE_CLUSTER = ("runner", "api_key", "pairing", "browser_login", "runner_link")
"""Tables with a tenant that would not be distributed: the tenant of a credential is unknown until its row is found,
and the changes of links are distinguished by the transactions of one server."""
_OTHERS = f"c.relname <> ALL ('{{{','.join(OF_THE_CLUSTER)}}}')"
MAKE = f"""
DO $$
DECLARE one record;
BEGIN
    FOR one IN
        SELECT t.tgname, c.relname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        WHERE NOT t.tgisinternal AND c.relnamespace = current_schema()::regnamespace AND {_OTHERS}
    LOOP
        EXECUTE format('DROP TRIGGER %I ON %I', one.tgname, one.relname);
    END LOOP;
    FOR one IN
        SELECT c.relname, i.indexrelid::regclass::text AS index, k.conname FROM pg_index i
        JOIN pg_class c ON c.oid = i.indrelid LEFT JOIN pg_constraint k ON k.conindid = i.indexrelid
        JOIN pg_attribute tenant ON tenant.attrelid = c.oid AND tenant.attname = 'tenant_id'
        WHERE i.indisunique AND c.relnamespace = current_schema()::regnamespace
          AND NOT tenant.attnum = ANY (i.indkey) AND {_OTHERS}
    LOOP
        IF one.conname IS NULL THEN
            EXECUTE format('DROP INDEX %s', one.index);
        ELSE
            EXECUTE format('ALTER TABLE %I DROP CONSTRAINT %I', one.relname, one.conname);
        END IF;
    END LOOP;
    ALTER TABLE event ADD PRIMARY KEY (tenant_id, stream_id, n);
END
$$
"""
"""Turn a database with the newest schema, and nothing in it, into that form."""
