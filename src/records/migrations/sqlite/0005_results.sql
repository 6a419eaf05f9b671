-- How deliveries of push tasks ended, to be told to whoever waits for it: an outbox, written with the rows it follows from.
-- What was told stays until its message is forgotten, so that the same lines written again tell nothing anew.

CREATE TABLE results (
    delivery    VARCHAR(128) NOT NULL,             -- deliveries.id
    at          BIGINT       NOT NULL,             -- when it came into this state, Unix ms
    state       VARCHAR(16)  NOT NULL,
    task        VARCHAR(128) NOT NULL,
    app         VARCHAR(64)  NOT NULL,
    chat        VARCHAR(512) NOT NULL,
    reason      VARCHAR(255),
    errcode     BIGINT,
    msgid       VARCHAR(255),
    left_out    VARCHAR(255),
    told        INTEGER      NOT NULL,             -- 0 or 1
    PRIMARY KEY (delivery, at, state)
);
CREATE INDEX results_told ON results (told, at);
