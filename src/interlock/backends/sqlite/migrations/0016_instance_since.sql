-- When a gateway joined, in milliseconds since the epoch; 0 for one of an earlier version.
ALTER TABLE instance ADD COLUMN since_ms INTEGER NOT NULL DEFAULT 0;
