-- Changes a table of 1.0 for VoteStatusOutbox.php of 1.1, on MySQL, MariaDB and SQLite. The table does not show which
-- votes 1.0 has sent, so each vote that is left begins anew: a cooldown of its own second counts as another vote's.
ALTER TABLE vote_status_outbox ADD COLUMN outcome VARCHAR(20) NULL;
UPDATE vote_status_outbox SET tries = 0;

CREATE TABLE vote_status_outbox_second (
    server_id BIGINT NOT NULL,
    address VARCHAR(45) NOT NULL,
    voted_at BIGINT NOT NULL,
    vote BIGINT NOT NULL,
    PRIMARY KEY (server_id, address, voted_at)
);

CREATE INDEX vote_status_outbox_second_vote ON vote_status_outbox_second (vote);
