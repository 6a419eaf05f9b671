-- What was said, for members who come back after the store forgot. As in sqlite/0002_exchanges.sql, which says why.

CREATE TABLE IF NOT EXISTS exchanges (
    session     BINARY(16)   NOT NULL,
    line        BINARY(16)   NOT NULL,
    at          BIGINT       NOT NULL,
    turns       MEDIUMTEXT   NOT NULL,
    vars        MEDIUMTEXT,
    PRIMARY KEY (session, line),
    INDEX exchanges_session_at (session, at),
    INDEX exchanges_at (at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS forgotten (
    session     BINARY(16)   NOT NULL PRIMARY KEY,
    at          BIGINT       NOT NULL,
    INDEX forgotten_at (at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
