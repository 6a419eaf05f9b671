-- What operators changed, and who: one row a change. The first of its lines makes it; a call that was repeated left another.

CREATE TABLE operator_changes (
    id          VARCHAR(128) NOT NULL PRIMARY KEY, -- the change's own
    at          BIGINT       NOT NULL,             -- Unix ms
    kind        VARCHAR(32)  NOT NULL,
    via         VARCHAR(32)  NOT NULL,             -- by what way
    by_whom     VARCHAR(512) NOT NULL,             -- a token's name, a member's sender key, or what `via` says
    app         VARCHAR(64)  NOT NULL,             -- empty here and below: about none
    chat        VARCHAR(512) NOT NULL,
    sender      VARCHAR(512) NOT NULL,
    detail      TEXT         NOT NULL              -- a JSON object
);
CREATE INDEX operator_changes_at ON operator_changes (at, id);
CREATE INDEX operator_changes_chat ON operator_changes (app, chat, at);
CREATE INDEX operator_changes_sender ON operator_changes (app, sender, at);
