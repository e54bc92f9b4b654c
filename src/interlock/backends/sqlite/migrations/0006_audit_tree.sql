-- U-2: the Merkle tree. Kept are its peaks (RFC 6962 roots of the whole subtrees that `count` is made of, largest first)
-- and, in audit_node, the roots of whole subtrees of 2^8, 2^16 … leaves; NULL peaks are made good when the file is opened.
ALTER TABLE audit_head ADD COLUMN peaks BLOB;
CREATE INDEX audit_head_without_tree ON audit_head (tenant_id) WHERE peaks IS NULL;
CREATE TABLE audit_node (
    tenant_id TEXT NOT NULL,
    level     INTEGER NOT NULL,
    place     INTEGER NOT NULL,
    hash      BLOB NOT NULL,
    PRIMARY KEY (tenant_id, level, place)
) WITHOUT ROWID;

-- U-4: what records only commit to. These rows may go; they are never changed.
CREATE TABLE audit_personal (
    tenant_id TEXT NOT NULL,
    seq       INTEGER NOT NULL,
    name      TEXT NOT NULL,
    who       TEXT NOT NULL,
    salt      TEXT NOT NULL,
    value     TEXT NOT NULL,
    PRIMARY KEY (tenant_id, seq, name)
) WITHOUT ROWID;
CREATE INDEX audit_personal_of ON audit_personal (tenant_id, who, seq);
CREATE TRIGGER audit_personal_never_updated BEFORE UPDATE ON audit_personal
BEGIN
    SELECT RAISE(ABORT, 'a personal value of an audit record is never changed');
END;
