-- oldest: 1
-- The number of the newest hello of a runner, which outlives its link: one that is heard late is known for it. A link
-- that is gone has the instance ''. A gateway of before removes the row and numbers nothing: beside it, as before, the
-- last hello to be heard counts.
ALTER TABLE runner_link ADD COLUMN number bigint NOT NULL DEFAULT 0;
