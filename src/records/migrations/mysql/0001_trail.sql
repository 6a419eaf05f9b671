-- What outlives the queue: one row a message, one a step of its trail, one a delivery. As in sqlite/0001_trail.sql, which
-- says why; ids are compared byte by byte, and `IF NOT EXISTS` because MySQL commits each of these statements by itself.

CREATE TABLE IF NOT EXISTS messages (
    id          BIGINT       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    digest      BINARY(16)   NOT NULL UNIQUE,
    app         VARCHAR(64)  NOT NULL,
    chat        VARCHAR(512) NOT NULL,
    sender      VARCHAR(512) NOT NULL,
    msg_id      VARCHAR(512) NOT NULL,
    request_id  VARCHAR(64)  NOT NULL,
    outcome     VARCHAR(16)  NOT NULL,
    reason      VARCHAR(1024),
    rule        VARCHAR(1024),
    action      VARCHAR(64),
    received_at BIGINT       NOT NULL,
    INDEX messages_msg_id (msg_id),
    INDEX messages_received_at (received_at)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS stages (
    message     BIGINT       NOT NULL,
    line        BINARY(16)   NOT NULL,
    at          BIGINT       NOT NULL,
    request_id  VARCHAR(64)  NOT NULL,
    stage       VARCHAR(16)  NOT NULL,
    detail      MEDIUMTEXT   NOT NULL,
    PRIMARY KEY (message, line),
    INDEX stages_request_id (request_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS deliveries (
    id          VARCHAR(128) NOT NULL PRIMARY KEY,
    message     BIGINT       NOT NULL,
    request_id  VARCHAR(64)  NOT NULL,
    app         VARCHAR(64)  NOT NULL,
    chat        VARCHAR(512) NOT NULL,
    msg_id      VARCHAR(512) NOT NULL,
    state       VARCHAR(16)  NOT NULL,
    reason      VARCHAR(1024),
    errcode     BIGINT,
    at          BIGINT       NOT NULL,
    INDEX deliveries_message (message),
    INDEX deliveries_state (state, at, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Its one row is locked by whoever writes: two gateways that write the same message's lines at once would each judge it
-- by half of them.
CREATE TABLE IF NOT EXISTS writing (
    id INTEGER NOT NULL PRIMARY KEY
) ENGINE = InnoDB;
INSERT IGNORE INTO writing (id) VALUES (1);
