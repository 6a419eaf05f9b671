-- What operators changed, and who. As in sqlite/0006_operator_changes.sql, which says why.

CREATE TABLE IF NOT EXISTS operator_changes (
    id          VARCHAR(128) NOT NULL PRIMARY KEY,
    at          BIGINT       NOT NULL,
    kind        VARCHAR(32)  NOT NULL,
    via         VARCHAR(32)  NOT NULL,
    by_whom     VARCHAR(512) NOT NULL,
    app         VARCHAR(64)  NOT NULL,
    chat        VARCHAR(512) NOT NULL,
    sender      VARCHAR(512) NOT NULL,
    detail      MEDIUMTEXT   NOT NULL,
    INDEX operator_changes_at (at, id),
    INDEX operator_changes_chat (app, chat, at),
    INDEX operator_changes_sender (app, sender, at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
