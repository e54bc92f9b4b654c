-- Audit records that bind a row of another table by its digest (H-5): few, and read at every look at a key.
CREATE INDEX audit_of_rows ON audit (tenant_id, seq) WHERE instr(body, CAST('"row_sha256":"' AS BLOB)) > 0;
