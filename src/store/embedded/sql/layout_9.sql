-- From layout 8: rows stand in the order they came, as long as they are, and their place in an index of its own. Clustered by their
-- place, a dozen of them filled a page of the tree, and a message in a long queue wrote several such pages.
ALTER TABLE messages RENAME TO clustered_messages;
CREATE TABLE messages (
    lane       INTEGER NOT NULL,
    pos        INTEGER NOT NULL,
    request_id TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    good_until INTEGER NOT NULL,
    mark_ttl   INTEGER NOT NULL,
    body       TEXT    NOT NULL,
    UNIQUE (lane, pos)
) STRICT;
INSERT INTO messages (lane, pos, request_id, key, good_until, mark_ttl, body)
    SELECT lane, pos, request_id, key, good_until, mark_ttl, body FROM clustered_messages;
DROP TABLE clustered_messages;

ALTER TABLE deliveries RENAME TO clustered_deliveries;
CREATE TABLE deliveries (
    chat        INTEGER NOT NULL,
    pos         INTEGER NOT NULL,
    id          TEXT    NOT NULL,
    route       TEXT    NOT NULL,
    received_at INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    attempts    INTEGER NOT NULL DEFAULT 0,
    refusals    INTEGER NOT NULL DEFAULT 0,
    begun       TEXT,
    merged      INTEGER NOT NULL DEFAULT 1,
    apart       INTEGER NOT NULL DEFAULT 0,
    body        TEXT    NOT NULL,
    UNIQUE (chat, pos)
) STRICT;
INSERT INTO deliveries (chat, pos, id, route, received_at, expires_at, attempts, refusals, begun, merged, apart, body)
    SELECT chat, pos, id, route, received_at, expires_at, attempts, refusals, begun, merged, apart, body FROM clustered_deliveries;
DROP TABLE clustered_deliveries;

-- And the journal's numbers are counted without a row that each line writes.
INSERT INTO meta (name, value) SELECT 'trimmed', seq FROM sqlite_sequence WHERE name = 'journal';
ALTER TABLE journal RENAME TO numbered_journal;
CREATE TABLE journal (
    seq  INTEGER PRIMARY KEY,
    line TEXT NOT NULL
) STRICT;
INSERT INTO journal (seq, line) SELECT seq, line FROM numbered_journal;
DROP TABLE numbered_journal;
