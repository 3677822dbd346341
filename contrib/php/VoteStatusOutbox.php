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
 *     $vote = $outbox->add(28, [$_SERVER['REMOTE_ADDR'], $otherAddress]);
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
    /** Key or URL is wrong, see `message`. The vote is kept, and replay() sends it once that is mended. */
    public const MISCONFIGURED = 'misconfigured';
    /** The service takes no such vote, see `message`: the address is none, or the vote is too old. */
    public const REFUSED = 'refused';

    private const TABLE = 'vote_status_outbox';
    /** Votes in one request of a replay: the answer tells of each line that was refused, up to 100. */
    private const LINES_MAX = 100;
    /** Failures of curl that do not pass by themselves: the URL's form, its host, its certificate. */
    private const MISTAKES = [
        CURLE_UNSUPPORTED_PROTOCOL, CURLE_URL_MALFORMAT, CURLE_COULDNT_RESOLVE_HOST, CURLE_SSL_CONNECT_ERROR,
        CURLE_SSL_CACERT,
    ];
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
     * @param string|list<string> $ip      the voter's address, or all that the site knows of, up to 8: one vote
     * @param int|null            $votedAt Unix seconds; now, if left out
     */
    public function add(int $serverId, string|array $ip, ?int $votedAt = null): int
    {
        $now = time();
        $insert = $this->pdo->prepare(
            'INSERT INTO ' . self::TABLE . ' (server_id, ip, voted_at, added_at) VALUES (?, ?, ?, ?)'
        );
        $insert->execute([$serverId, implode(' ', (array) $ip), $votedAt ?? $now, $now]);
        return (int) $this->pdo->lastInsertId();
    }

    /**
     * Sends a vote that was added, after its transaction was committed. Never throws for want of the
     * service: that is LATER, or MISCONFIGURED.
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
        $mistake = $this->mistake($status, $body);
        switch (true) {
            case $mistake !== null:
                $this->note($vote, "misconfigured: $mistake");
                return self::answer(self::MISCONFIGURED, null, $mistake);
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
     * the reason in `last_error`. Those that have become older than the cooldown stay there too, and are
     * not sent again: delete them once somebody has looked at them.
     *
     * @return array{sent: int, refused: int, is_complete: bool, misconfigured: ?string} `is_complete` is
     *         false where the service was away, or key or URL is wrong as `misconfigured` says: the next
     *         run goes on
     */
    public function replay(): array
    {
        $result = ['sent' => 0, 'refused' => 0, 'is_complete' => true, 'misconfigured' => null];
        $after = 0;
        while ($rows = $this->rowsAfter($after)) {
            $after = (int) end($rows)['id'];
            $lines = implode("\n", array_map(self::line(...), $rows)) . "\n";
            [$status, $body] = $this->post('/v1/votes/batch', $lines, 'application/x-ndjson');
            $mistake = $this->mistake($status, $body);
            if ($mistake !== null || $status !== 200) {
                $why = $mistake === null ? $body['message'] ?? "status $status" : "misconfigured: $mistake";
                $this->note((int) $rows[0]['id'], $why);
                return ['is_complete' => false, 'misconfigured' => $mistake] + $result;
            }
            $errors = array_column($body['errors'] ?? [], null, 'line');
            $done = [];
            foreach ($rows as $index => $row) {
                $error = $errors[$index + 1] ?? null;
                if ($error === null) {
                    $done[] = (int) $row['id'];
                    continue;
                }
                $this->note((int) $row['id'], $error['error'] . ': ' . $error['message']);
                // Too many changes of one vote at once: the line is right, and its time has not come.
                $isLater = $error['error'] === 'too_many_changes';
                $result['refused'] += $isLater ? 0 : 1;
                $result['is_complete'] = $result['is_complete'] && !$isLater;
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
            'SELECT * FROM ' . self::TABLE . " WHERE id > ? AND added_at <= ?
            AND (last_error IS NULL OR last_error NOT LIKE 'expired:%') ORDER BY id LIMIT " . self::LINES_MAX
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
        $ips = explode(' ', (string) $row['ip']);
        $voter = count($ips) === 1 ? ['ip' => $ips[0]] : ['ips' => $ips];
        $vote = ['server_id' => (int) $row['server_id'], ...$voter, 'voted_at' => (int) $row['voted_at']];
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
     * What is wrong with key or URL, or null where the answer is one of the service, or of none: a service
     * that is away comes back by itself, and a mistake does not.
     *
     * @param array<string, mixed> $body
     */
    private function mistake(int $status, array $body): ?string
    {
        $isOfService = isset($body[$status < 300 ? 'recorded' : 'error']);
        return match (true) {
            isset($body['mistake']) => "{$this->url}: {$body['mistake']}",
            $status === 0 || $status >= 500 || $status === 429 => null,
            $status === 401 => "{$this->url} refuses the control key",
            isset($body['can_vote']) => "{$this->url} is the public listener: name the control listener, by default port 8081",
            $isOfService && !in_array($body['error'] ?? null, ['not_found', 'method_not_allowed'], true) => null,
            default => "{$this->url} answers with status $status, and is not the control listener of vote-status",
        };
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
            // The service never redirects: another server that does must not get the key.
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
            $member = in_array(curl_errno($curl), self::MISTAKES, true) ? 'mistake' : 'message';
            return [0, [$member => curl_error($curl)], $now];
        }
        $json = json_decode((string) $answer, true);
        $status = (int) curl_getinfo($curl, CURLINFO_RESPONSE_CODE);
        // A success without a JSON object is not of the service.
        return [$status, is_array($json) ? $json : ['message' => "status $status, and no answer of the service"], $now];
    }
}
