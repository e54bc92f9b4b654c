-- Audit records that have digests of a session's control frames and state (H-5), by the session's name in the body.
CREATE INDEX audit_of_seals ON audit (
    tenant_id, substr(body, instr(body, CAST('"frames_of":"' AS BLOB)) + 13, 32), seq
) WHERE instr(body, CAST('"frames_of":"' AS BLOB)) > 0;
