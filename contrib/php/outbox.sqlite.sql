-- Votes and their seconds: see VoteStatusOutbox.php.
CREATE TABLE vote_status_outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    server_id INTEGER NOT NULL,
    ip TEXT NOT NULL, -- up to 8, with a blank between them
    voted_at INTEGER NOT NULL, -- Unix seconds
    added_at INTEGER NOT NULL, -- Unix seconds
    tries INTEGER NOT NULL DEFAULT 0,
    last_error TEXT,
    outcome TEXT -- null until the service has answered
);

CREATE TABLE vote_status_outbox_second (
    server_id INTEGER NOT NULL,
    address TEXT NOT NULL,
    voted_at INTEGER NOT NULL,
    vote INTEGER NOT NULL,
    PRIMARY KEY (server_id, address, voted_at)
);

CREATE INDEX vote_status_outbox_second_vote ON vote_status_outbox_second (vote);
