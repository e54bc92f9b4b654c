-- oldest: 1
-- When a gateway joined, by this server's clock, for `interlock status`; 0 for one of an earlier version.
ALTER TABLE instance ADD COLUMN since_ms bigint NOT NULL DEFAULT 0;
