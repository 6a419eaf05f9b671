-- Pushes that ended unknown: one row each, gone once it is settled. All but `held_until` follows from its lines.

CREATE TABLE unknown_pushes (
    delivery     VARCHAR(128) NOT NULL PRIMARY KEY, -- deliveries.id
    message      BIGINT       NOT NULL,             -- messages.id
    looks        BIGINT       NOT NULL,             -- how often it was looked at
    due          BIGINT,                            -- when it is looked at next, Unix ms; null: a person was called
    repeat_until BIGINT,                            -- until when the same bytes may be sent again; null: never
    held_until   BIGINT       NOT NULL              -- somebody looks at it until then; a holder that dies frees it so
);
CREATE INDEX unknown_pushes_due ON unknown_pushes (due);
CREATE INDEX unknown_pushes_message ON unknown_pushes (message);
