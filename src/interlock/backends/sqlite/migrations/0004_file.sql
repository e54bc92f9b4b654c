-- Files that travelled in a session (E-5): what they are called, and where the object store has them.
CREATE TABLE file (
    place       INTEGER PRIMARY KEY,
    session_id  TEXT NOT NULL,
    transfer_id TEXT NOT NULL,
    body        BLOB NOT NULL
);
CREATE UNIQUE INDEX file_by_transfer ON file (session_id, transfer_id);
CREATE INDEX file_by_session ON file (session_id, place);
