-- What outlives the queue: one row a message, one a step of its trail, one a delivery.
--
-- Plain SQL, so that another database needs little change. `digest` and `line` are the first 16 bytes of a SHA-256: short,
-- of one length whatever WeCom sends as ids, and equal wherever the same text is seen again. Rows hang together by the
-- messages' running number, not by digest: what is written together then lies together, however large the tables are.

CREATE TABLE messages (
    id          INTEGER      NOT NULL PRIMARY KEY, -- given by the database, counting up
    digest      BINARY(16)   NOT NULL UNIQUE,      -- of the encoded message key
    app         VARCHAR(64)  NOT NULL,
    chat        VARCHAR(512) NOT NULL,
    sender      VARCHAR(512) NOT NULL,
    msg_id      VARCHAR(512) NOT NULL,
    request_id  VARCHAR(64)  NOT NULL,             -- the request that owns the message
    outcome     VARCHAR(16)  NOT NULL,
    reason      VARCHAR(255),
    rule        VARCHAR(255),
    action      VARCHAR(64),
    received_at BIGINT       NOT NULL              -- Unix ms
);
CREATE INDEX messages_msg_id ON messages (msg_id);
CREATE INDEX messages_received_at ON messages (received_at);

-- The journal lines themselves: everything in the two other tables follows from them.
CREATE TABLE stages (
    message     BIGINT       NOT NULL,             -- messages.id
    line        BINARY(16)   NOT NULL,             -- of the line's text: the same line again is no second row
    at          BIGINT       NOT NULL,             -- Unix ms
    request_id  VARCHAR(64)  NOT NULL,
    stage       VARCHAR(16)  NOT NULL,
    detail      TEXT         NOT NULL,             -- a JSON object
    PRIMARY KEY (message, line)
);
CREATE INDEX stages_request_id ON stages (request_id);

CREATE TABLE deliveries (
    id          VARCHAR(128) NOT NULL PRIMARY KEY,
    message     BIGINT       NOT NULL,             -- messages.id
    request_id  VARCHAR(64)  NOT NULL,
    app         VARCHAR(64)  NOT NULL,
    chat        VARCHAR(512) NOT NULL,
    msg_id      VARCHAR(512) NOT NULL,
    state       VARCHAR(16)  NOT NULL,
    reason      VARCHAR(255),
    errcode     BIGINT,
    at          BIGINT       NOT NULL              -- when it came into this state, Unix ms
);
CREATE INDEX deliveries_message ON deliveries (message);
CREATE INDEX deliveries_state ON deliveries (state, at, id);
