-- oldest: 1
-- The heads of the streams that a writer's last transaction of one statement has appended to, in the order of their
-- names: a gateway whose link broke over its reply reads there which numbers were given. Null for any other transaction.
ALTER TABLE writer ADD COLUMN heads bigint[];
