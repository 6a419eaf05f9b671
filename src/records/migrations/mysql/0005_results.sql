-- How deliveries of push tasks ended, to be told to whoever waits for it. As in sqlite/0005_results.sql, which says why.

CREATE TABLE IF NOT EXISTS results (
    delivery    VARCHAR(128) NOT NULL,
    at          BIGINT       NOT NULL,
    state       VARCHAR(16)  NOT NULL,
    task        VARCHAR(128) NOT NULL,
    app         VARCHAR(64)  NOT NULL,
    chat        VARCHAR(512) NOT NULL,
    reason      VARCHAR(1024),
    errcode     BIGINT,
    msgid       VARCHAR(1024),
    left_out    VARCHAR(1024),
    told        INTEGER      NOT NULL,
    PRIMARY KEY (delivery, at, state),
    INDEX results_told (told, at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
