-- Votes that the vote-status service does not have yet: see VoteStatusOutbox.php.
CREATE TABLE vote_status_outbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    server_id INTEGER NOT NULL,
    ip TEXT NOT NULL, -- up to 8, with a blank between them
    voted_at INTEGER NOT NULL, -- Unix seconds
    added_at INTEGER NOT NULL, -- Unix seconds
    tries INTEGER NOT NULL DEFAULT 0,
    last_error TEXT
);
