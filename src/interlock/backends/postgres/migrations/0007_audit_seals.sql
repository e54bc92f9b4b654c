-- oldest: 1
-- Audit records that have digests of a session's control frames and state (H-5), by the session's name in the body.
CREATE INDEX audit_of_seals ON audit (
    tenant_id, (substring(body FROM position('"frames_of":"'::bytea IN body) + 13 FOR 32)), seq
) WHERE position('"frames_of":"'::bytea IN body) > 0;
