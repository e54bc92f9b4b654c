-- The number of the newest hello of a runner, which outlives its link: one that is heard late is known for it. A link
-- that is gone has the instance ''.
ALTER TABLE runner_link ADD COLUMN number INTEGER NOT NULL DEFAULT 0;
