-- Statistics, rolled up: what each flush adds, by day, chat, and what messages set off there. `cell` is the first 16 bytes
-- of a SHA-256 that names the rest within its day. Rows only ever follow from messages' rows, so sums over any of them are right.

CREATE TABLE stats (
    day         INTEGER      NOT NULL,             -- 20261129, in [database] zone
    cell        BINARY(16)   NOT NULL,
    app         VARCHAR(64)  NOT NULL,
    chat        VARCHAR(512) NOT NULL,
    hit         VARCHAR(16)  NOT NULL,             -- command, keyword, …; empty: the chat as a whole
    rule        VARCHAR(255) NOT NULL,             -- the command's name, the keyword, the reason
    messages    BIGINT       NOT NULL,             -- only where hit is empty
    hits        BIGINT       NOT NULL,
    replies     BIGINT       NOT NULL,
    delivered   BIGINT       NOT NULL,
    unknown     BIGINT       NOT NULL,
    dead        BIGINT       NOT NULL,
    dropped     BIGINT       NOT NULL,
    duplicates  BIGINT       NOT NULL,             -- only where hit is empty
    timed       BIGINT       NOT NULL,             -- how many latencies, and their sum
    took_ms     BIGINT       NOT NULL,
    PRIMARY KEY (day, cell)
) WITHOUT ROWID;

-- How many replies took how long; src/records/stats/histogram.rs says what a bucket is.
CREATE TABLE latencies (
    day         INTEGER      NOT NULL,
    cell        BINARY(16)   NOT NULL,
    bucket      INTEGER      NOT NULL,
    n           BIGINT       NOT NULL,
    PRIMARY KEY (day, cell, bucket)
) WITHOUT ROWID;

-- Processes count some copies by themselves and write them in batches: the last one of each, so that none counts twice.
CREATE TABLE copy_batches (
    process     VARCHAR(64)  NOT NULL PRIMARY KEY,
    number      BIGINT       NOT NULL,
    at          BIGINT       NOT NULL              -- Unix ms
);
