<?php

declare(strict_types=1);

/**
 * Records the votes of a site with the vote-status service, and never loses one.
 *
 * A vote is first written to a table of the site's own database, in the same transaction as whatever
 * else the site writes for it; then it is sent; and what could not be sent is sent again by a cron
 * line until the service has it. One file, PHP 8.1 or later with its curl and PDO extensions. The
 * table is in outbox.mysql.sql and outbox.sqlite.sql beside this file.
 *
 *     $outbox = new VoteStatusOutbox($pdo, 'http://127.0.0.1:8081', $key);
 *     $pdo->beginTransaction();
 *     // … the site's own row for the vote …
 *     $vote = $outbox->add(28, $_SERVER['REMOTE_ADDR']);
 *     $pdo->commit();
 *     $answer = $outbox->send($vote);
 *
 * And once a minute, from cron: `$outbox->replay()`.
 *
 * Make what a vote pays unique on server, address and `voted_at`: that is what a vote is for the service,
 * also for two players behind one address in one second.
 */
final class VoteStatusOutbox
{
    /** The service has the vote. */
    public const RECORDED = 'recorded';
    /** This address has voted for this server already, see `next_vote_at`: take the site's own row back. */
    public const IN_COOLDOWN = 'in_cooldown';
    /** The service cannot say now. The vote is kept, and replay() sends it. */
    public const LATER = 'later';
    /** The service takes no such vote, see `message`: the address is none, or the vote is too old. */
    public const REFUSED = 'refused';

    private const TABLE = 'vote_status_outbox';
    /** Votes in one request of a replay: the answer tells of each line that was refused, up to 100. */
    private const LINES_MAX = 100;
    /** A vote that is younger may be on its way just now, in seconds: longer than send() takes. */
    private const REPLAY_AGE_S = 60;

    /**
     * @param PDO    $pdo              the site's database: errors must be exceptions, as is usual from PHP 8 on
     * @param string $url              where the service's control listener is
     * @param string $key              its control key
     * @param int    $cooldownMinutes  as the service was started
     * @param int    $connectTimeoutMs how long the service may take to be reached
     * @param int    $timeoutMs        how long it may take to answer
     */
    public function __construct(
        private PDO $pdo,
        private string $url,
        private string $key,
        private int $cooldownMinutes = 90,
        private int $connectTimeoutMs = 1_000,
        private int $timeoutMs = 2_000,
    ) {
        $this->url = rtrim($url, '/');
    }

    /**
     * Writes a vote to the outbox, within the transaction that is open. Gives its number there.
     *
     * @param int|null $votedAt Unix seconds; now, if left out
     */
    public function add(int $serverId, string $ip, ?int $votedAt = null): int
    {
        $now = time();
        $insert = $this->pdo->prepare(
            'INSERT INTO ' . self::TABLE . ' (server_id, ip, voted_at, added_at) VALUES (?, ?, ?, ?)'
        );
        $insert->execute([$serverId, $ip, $votedAt ?? $now, $now]);
        return (int) $this->pdo->lastInsertId();
    }

    /**
     * Sends a vote that was added, after its transaction was committed. Never throws for want of the
     * service: that is LATER.
     *
     * @return array{outcome: string, next_vote_at: ?string, message: ?string}
     */
    public function send(int $vote): array
    {
        $select = $this->pdo->prepare('SELECT * FROM ' . self::TABLE . ' WHERE id = ?');
        $select->execute([$vote]);
        $row = $select->fetch(PDO::FETCH_ASSOC);
        if ($row === false) {
            // A replay was faster.
            return self::answer(self::RECORDED);
        }
        [$status, $body, $now] = $this->post('/v1/votes', self::line($row));
        $next = $body['next_vote_at'] ?? null;
        $message = $body['message'] ?? "status $status";
        switch (true) {
            case $status === 201:
            // An answer that got lost on an earlier try: the cooldown is that of this very vote.
            case $status === 409 && $next === $this->nextVoteAt((int) $row['voted_at']):
                $this->remove([$vote]);
                return self::answer(self::RECORDED, $next);
            case $status === 409:
                $this->remove([$vote]);
                return self::answer(self::IN_COOLDOWN, $next, $message);
            // A clock that is ahead of the service's is no reason to lose a vote: it is sent when it is due.
            case $status === 422 && (int) $row['voted_at'] <= $now:
                $this->remove([$vote]);
                return self::answer(self::REFUSED, null, $message);
            default:
                $this->note($vote, $message);
                return self::answer(self::LATER, null, $message);
        }
    }

    /**
     * Sends what is left in the outbox, as records of the site: the later of two votes stays, and a
     * vote that the service has already changes nothing. Votes that it refuses stay in the table with
     * the reason in `last_error`; those that are older than the cooldown mean nothing any more, and go.
     *
     * @return array{sent: int, refused: int, is_complete: bool} `is_complete` is false where the service
     *         was away: the next run goes on
     */
    public function replay(): array
    {
        $result = ['sent' => 0, 'refused' => 0, 'is_complete' => true];
        $after = 0;
        while ($rows = $this->rowsAfter($after)) {
            $after = (int) end($rows)['id'];
            $lines = implode("\n", array_map(self::line(...), $rows)) . "\n";
            [$status, $body] = $this->post('/v1/votes/batch', $lines, 'application/x-ndjson');
            if ($status !== 200) {
                $this->note((int) $rows[0]['id'], $body['message'] ?? "status $status");
                return ['is_complete' => false] + $result;
            }
            $errors = array_column($body['errors'] ?? [], null, 'line');
            $done = [];
            foreach ($rows as $index => $row) {
                $error = $errors[$index + 1] ?? null;
                if ($error === null || $error['error'] === 'expired') {
                    $done[] = (int) $row['id'];
                } else {
                    $this->note((int) $row['id'], $error['error'] . ': ' . $error['message']);
                    $result['refused']++;
                }
            }
            $this->remove($done);
            $result['sent'] += count($done);
        }
        return $result;
    }

    /** @return list<array<string, mixed>> */
    private function rowsAfter(int $id): array
    {
        $select = $this->pdo->prepare(
            'SELECT * FROM ' . self::TABLE . ' WHERE id > ? AND added_at <= ? ORDER BY id LIMIT ' . self::LINES_MAX
        );
        $select->execute([$id, time() - self::REPLAY_AGE_S]);
        return $select->fetchAll(PDO::FETCH_ASSOC);
    }

    /** @param list<int> $votes */
    private function remove(array $votes): void
    {
        if ($votes !== []) {
            $marks = implode(', ', array_fill(0, count($votes), '?'));
            $this->pdo->prepare('DELETE FROM ' . self::TABLE . " WHERE id IN ($marks)")->execute($votes);
        }
    }

    private function note(int $vote, string $error): void
    {
        $update = $this->pdo->prepare('UPDATE ' . self::TABLE . ' SET tries = tries + 1, last_error = ? WHERE id = ?');
        // Whatever a proxy in between may have said fits the column, too.
        $update->execute([substr(preg_replace('/[^\x20-\x7e]/', '?', $error), 0, 200), $vote]);
    }

    /** @param array<string, mixed> $row */
    private static function line(array $row): string
    {
        $vote = [
            'server_id' => (int) $row['server_id'],
            'ip' => (string) $row['ip'],
            'voted_at' => (int) $row['voted_at'],
        ];
        return json_encode($vote, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES);
    }

    private function nextVoteAt(int $votedAt): string
    {
        return gmdate('Y-m-d\TH:i:s\Z', $votedAt + 60 * $this->cooldownMinutes);
    }

    /** @return array{outcome: string, next_vote_at: ?string, message: ?string} */
    private static function answer(string $outcome, ?string $next = null, ?string $message = null): array
    {
        return ['outcome' => $outcome, 'next_vote_at' => $next, 'message' => $message];
    }

    /**
     * Status (0 where there was no answer), the JSON of the body, and the service's time.
     *
     * @return array{int, array<string, mixed>, int}
     */
    private function post(string $path, string $body, string $type = 'application/json'): array
    {
        $now = time();
        $curl = curl_init($this->url . $path);
        curl_setopt_array($curl, [
            CURLOPT_POST => true,
            CURLOPT_POSTFIELDS => $body,
            CURLOPT_HTTPHEADER => ['Authorization: Bearer ' . $this->key, 'Content-Type: ' . $type, 'Expect:'],
            CURLOPT_RETURNTRANSFER => true,
            CURLOPT_CONNECTTIMEOUT_MS => $this->connectTimeoutMs,
            CURLOPT_TIMEOUT_MS => $this->timeoutMs,
            // The service never redirects: whoever does is not the service, and must not get the key.
            CURLOPT_FOLLOWLOCATION => false,
            CURLOPT_HEADERFUNCTION => function ($curl, string $header) use (&$now): int {
                if (stripos($header, 'Date:') === 0) {
                    $now = strtotime(trim(substr($header, 5))) ?: $now;
                }
                return strlen($header);
            },
        ]);
        $answer = curl_exec($curl);
        if ($answer === false) {
            return [0, ['message' => curl_error($curl)], $now];
        }
        $json = json_decode((string) $answer, true);
        // What is no JSON object is not of the service, whatever its status.
        $status = is_array($json) ? (int) curl_getinfo($curl, CURLINFO_RESPONSE_CODE) : 0;
        return [$status, is_array($json) ? $json : ['message' => 'no answer of the service'], $now];
    }
}
