-- Pushes that ended unknown. As in sqlite/0004_unknown_pushes.sql, which says why.

CREATE TABLE IF NOT EXISTS unknown_pushes (
    delivery     VARCHAR(128) NOT NULL PRIMARY KEY,
    message      BIGINT       NOT NULL,
    looks        BIGINT       NOT NULL,
    due          BIGINT,
    repeat_until BIGINT,
    held_until   BIGINT       NOT NULL,
    INDEX unknown_pushes_due (due),
    INDEX unknown_pushes_message (message)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
