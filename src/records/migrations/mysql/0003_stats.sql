-- Statistics, rolled up. As in sqlite/0003_stats.sql, which says why.

CREATE TABLE IF NOT EXISTS stats (
    day         INTEGER      NOT NULL,
    cell        BINARY(16)   NOT NULL,
    app         VARCHAR(64)  NOT NULL,
    chat        VARCHAR(512) NOT NULL,
    hit         VARCHAR(16)  NOT NULL,
    rule        VARCHAR(255) NOT NULL,
    messages    BIGINT       NOT NULL,
    hits        BIGINT       NOT NULL,
    replies     BIGINT       NOT NULL,
    delivered   BIGINT       NOT NULL,
    unknown     BIGINT       NOT NULL,
    dead        BIGINT       NOT NULL,
    dropped     BIGINT       NOT NULL,
    duplicates  BIGINT       NOT NULL,
    timed       BIGINT       NOT NULL,
    took_ms     BIGINT       NOT NULL,
    PRIMARY KEY (day, cell)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS latencies (
    day         INTEGER      NOT NULL,
    cell        BINARY(16)   NOT NULL,
    bucket      INTEGER      NOT NULL,
    n           BIGINT       NOT NULL,
    PRIMARY KEY (day, cell, bucket)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS copy_batches (
    process     VARCHAR(64)  NOT NULL PRIMARY KEY,
    number      BIGINT       NOT NULL,
    at          BIGINT       NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
