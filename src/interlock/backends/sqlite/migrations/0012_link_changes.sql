-- Which links have changed since somebody looked: each change is numbered.
ALTER TABLE runner_link ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;
CREATE INDEX runner_link_by_change ON runner_link (changed);
