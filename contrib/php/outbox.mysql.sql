-- Votes and their seconds: see VoteStatusOutbox.php. InnoDB, because a vote is written in one transaction with
-- the site's own rows.
CREATE TABLE vote_status_outbox (
    id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    server_id INT UNSIGNED NOT NULL,
    ip VARCHAR(400) NOT NULL COMMENT 'up to 8, with a blank between them',
    voted_at BIGINT NOT NULL COMMENT 'Unix seconds',
    added_at BIGINT NOT NULL COMMENT 'Unix seconds',
    tries INT UNSIGNED NOT NULL DEFAULT 0,
    last_error VARCHAR(200) NULL,
    outcome VARCHAR(20) NULL COMMENT 'null until the service has answered'
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

CREATE TABLE vote_status_outbox_second (
    server_id BIGINT NOT NULL,
    address VARCHAR(45) NOT NULL,
    voted_at BIGINT NOT NULL,
    vote BIGINT NOT NULL,
    PRIMARY KEY (server_id, address, voted_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

CREATE INDEX vote_status_outbox_second_vote ON vote_status_outbox_second (vote);
