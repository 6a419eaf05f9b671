-- The embedded store. Times are Unix ms. One process owns the file; every step is one transaction.
--
-- A lane's messages stand at the positions head .. tail - 1. Their rows stand in the order they came: clustered by (lane,
-- position), few of them would fill a page of the tree, and a message in a long queue write several such pages. Indexes are
-- few and partial: each is written on every message.

-- shards: fixed at first start. trimmed: the number of the journal's last line that was. pinged: when the disk was tried last.
CREATE TABLE IF NOT EXISTS meta (
    name  TEXT PRIMARY KEY,
    value ANY
) STRICT, WITHOUT ROWID;

-- Inbound lanes that hold something; an emptied lane goes.
CREATE TABLE IF NOT EXISTS in_lanes (
    id     INTEGER PRIMARY KEY,
    lane   TEXT    NOT NULL UNIQUE,
    head   INTEGER NOT NULL,
    tail   INTEGER NOT NULL,
    -- 1: in work until `due`. 0: can be worked, and waits since `due`.
    leased INTEGER NOT NULL,
    due    INTEGER NOT NULL,
    -- The last lease; it still counts after its end, until another claims the lane.
    lease  TEXT,
    -- How many leases of the head ended with neither a commit nor a release.
    crashes INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX IF NOT EXISTS in_ready  ON in_lanes (due) WHERE leased = 0;
CREATE INDEX IF NOT EXISTS in_leases ON in_lanes (due) WHERE leased = 1;

CREATE TABLE IF NOT EXISTS messages (
    lane       INTEGER NOT NULL,
    pos        INTEGER NOT NULL,
    request_id TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    -- Dropped unhandled when claimed after this.
    good_until INTEGER NOT NULL,
    mark_ttl   INTEGER NOT NULL,
    body       TEXT    NOT NULL,
    UNIQUE (lane, pos)
) STRICT;

-- Who owns a message, from its claim on.
CREATE TABLE IF NOT EXISTS marks (
    key        TEXT    PRIMARY KEY,
    request_id TEXT    NOT NULL,
    done       INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- With a rowid: such a row may fill a page, a clustered one spills into further pages from a quarter of a page on.
CREATE TABLE IF NOT EXISTS sessions (
    key        TEXT    PRIMARY KEY NOT NULL,
    body       TEXT    NOT NULL,
    expires_at INTEGER NOT NULL,
    -- When it was last forgotten on demand.
    forgotten  INTEGER NOT NULL DEFAULT 0,
    -- When `body` ends where it is known for longer that it was forgotten; else with its row.
    ends       INTEGER
) STRICT;

-- Messages whose answer comes later; `seqs` is a JSON list of the answers taken.
CREATE TABLE IF NOT EXISTS late (
    key             TEXT    PRIMARY KEY,
    lane            TEXT    NOT NULL,
    message_key     TEXT    NOT NULL,
    received_at     INTEGER NOT NULL,
    send_until      INTEGER NOT NULL,
    seqs            TEXT    NOT NULL,
    -- How the message can be answered, JSON.
    reply_to        TEXT    NOT NULL DEFAULT '{}',
    expires_at      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Who members are in the business system.
CREATE TABLE IF NOT EXISTS users (
    key        TEXT    PRIMARY KEY,
    user_id    TEXT    NOT NULL,
    -- Each use makes it hold for so many ms again.
    renew      INTEGER,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What is known of members. source: 0 what callbacks told, 1 what was set, 2 what the member said; the highest shows.
CREATE TABLE IF NOT EXISTS contact_fields (
    key    TEXT    NOT NULL,
    field  TEXT    NOT NULL,
    source INTEGER NOT NULL,
    value  TEXT    NOT NULL,
    PRIMARY KEY (key, field, source)
) STRICT, WITHOUT ROWID;

-- When members were last forgotten on demand.
CREATE TABLE IF NOT EXISTS forgotten_members (
    key        TEXT    PRIMARY KEY,
    at         INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What counts against a member's rate in a chat: [[request id, when], …]; and which request told them so, until when.
CREATE TABLE IF NOT EXISTS rates (
    key        TEXT    PRIMARY KEY,
    counted    TEXT    NOT NULL,
    told       TEXT    NOT NULL,
    told_until INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Lanes of the chats that an admin muted.
CREATE TABLE IF NOT EXISTS mutes (
    lane TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- Push tasks: which content goes by this id, and how many of its deliveries are in their lanes.
CREATE TABLE IF NOT EXISTS tasks (
    key        TEXT    PRIMARY KEY,
    app        TEXT    NOT NULL,
    digest     TEXT    NOT NULL,
    total      INTEGER NOT NULL,
    cursor     INTEGER NOT NULL,
    done       INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The deliveries of push tasks; `key` is the task.
CREATE TABLE IF NOT EXISTS pushes (
    key        TEXT    NOT NULL,
    delivery   TEXT    NOT NULL,
    lane       TEXT    NOT NULL,
    -- How far it has come, JSON, and since when.
    state      TEXT    NOT NULL,
    at         INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (key, delivery)
) STRICT, WITHOUT ROWID;

-- Which operation ended a delivery by hand.
CREATE TABLE IF NOT EXISTS operations (
    key        TEXT    PRIMARY KEY,
    operation  TEXT    NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Outbound lanes and what is known of their chats; these rows stay, there are as many as chats.
CREATE TABLE IF NOT EXISTS chats (
    id         INTEGER PRIMARY KEY,
    lane       TEXT    NOT NULL UNIQUE,
    head       INTEGER NOT NULL DEFAULT 0,
    tail       INTEGER NOT NULL DEFAULT 0,
    -- Where the last reply stood that came: before `head` it says that the lane holds pushes alone.
    last_reply INTEGER NOT NULL DEFAULT -1,
    -- idle, ready (by turn), leased (until due), parked (until due)
    state      TEXT    NOT NULL DEFAULT 'idle',
    turn       INTEGER NOT NULL DEFAULT 0,
    due        INTEGER NOT NULL DEFAULT 0,
    lease      TEXT,
    parked_for TEXT,
    failures   INTEGER NOT NULL DEFAULT 0,
    -- Sends so far, and when the last of them was.
    sent       INTEGER NOT NULL DEFAULT 0,
    last_send  INTEGER NOT NULL DEFAULT 0,
    -- The digest of the route by which the chat is dead.
    dead       TEXT,
    last_error TEXT,
    -- What operators set.
    weight     INTEGER,
    paused     INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX IF NOT EXISTS out_ready      ON chats (turn) WHERE state = 'ready' AND last_reply >= head;
CREATE INDEX IF NOT EXISTS out_ready_push ON chats (turn) WHERE state = 'ready' AND last_reply < head;
CREATE INDEX IF NOT EXISTS out_waiting    ON chats (due)  WHERE state IN ('leased', 'parked');

-- When a chat's `n`-th send was, for those that its pace still asks for and a few more; the last one stands in `chats`.
CREATE TABLE IF NOT EXISTS sends (
    chat INTEGER NOT NULL,
    n    INTEGER NOT NULL,
    at   INTEGER NOT NULL,
    PRIMARY KEY (chat, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS deliveries (
    chat        INTEGER NOT NULL,
    pos         INTEGER NOT NULL,
    id          TEXT    NOT NULL,
    route       TEXT    NOT NULL,
    received_at INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    attempts    INTEGER NOT NULL DEFAULT 0,
    refusals    INTEGER NOT NULL DEFAULT 0,
    -- The lease under which an attempt was begun and not yet settled, and how many deliveries it carries.
    begun       TEXT,
    merged      INTEGER NOT NULL DEFAULT 1,
    -- 1: never carried together with others.
    apart       INTEGER NOT NULL DEFAULT 0,
    body        TEXT    NOT NULL,
    UNIQUE (chat, pos)
) STRICT;

-- Small values that are shared for a while, and their locks (`<key>:lock`).
CREATE TABLE IF NOT EXISTS notes (
    key        TEXT    PRIMARY KEY,
    value      TEXT    NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- A number is never used again, so a slow reader's trim can't hit later lines: an empty journal goes on behind what was trimmed
-- last (in `meta`). AUTOINCREMENT would write that number down with every line.
CREATE TABLE IF NOT EXISTS journal (
    seq  INTEGER PRIMARY KEY,
    line TEXT NOT NULL
) STRICT;
