-- What was said, for members who come back after the store forgot: one row an exchange (a member's words and ours), and
-- when a session was last forgotten on demand. An exchange that is not younger than that is never kept, in whatever
-- order the two are written.
--
-- `session` is the first 16 bytes of the SHA-256 of the session's name, `line` of the journal line's text.

CREATE TABLE exchanges (
    session     BINARY(16)   NOT NULL,
    line        BINARY(16)   NOT NULL,
    at          BIGINT       NOT NULL,             -- Unix ms
    turns       TEXT         NOT NULL,             -- a JSON array
    vars        TEXT,                              -- a JSON object, all of them after this exchange; null: it knew none
    PRIMARY KEY (session, line)
);
CREATE INDEX exchanges_session_at ON exchanges (session, at);
CREATE INDEX exchanges_at ON exchanges (at);

CREATE TABLE forgotten (
    session     BINARY(16)   NOT NULL PRIMARY KEY,
    at          BIGINT       NOT NULL              -- Unix ms
);
CREATE INDEX forgotten_at ON forgotten (at);
