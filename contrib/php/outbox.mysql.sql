-- Votes that the vote-status service does not have yet: see VoteStatusOutbox.php. InnoDB, because a vote
-- is written in the transaction of the site's own row.
CREATE TABLE vote_status_outbox (
    id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    server_id INT UNSIGNED NOT NULL,
    ip VARCHAR(400) NOT NULL COMMENT 'up to 8, with a blank between them',
    voted_at BIGINT NOT NULL COMMENT 'Unix seconds',
    added_at BIGINT NOT NULL COMMENT 'Unix seconds',
    tries INT UNSIGNED NOT NULL DEFAULT 0,
    last_error VARCHAR(200) NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
