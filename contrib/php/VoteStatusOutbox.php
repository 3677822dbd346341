<?php

declare(strict_types=1);

/**
 * Records the votes of a site with the vote-status service. No vote is lost, and none counts twice.
 *
 * The outbox first writes a vote to a table of the site's own database, in one transaction with the site's own
 * rows for it. Then it sends the vote. A cron line sends again the votes that could not be sent. One file, PHP 8.1
 * or later with its curl and PDO extensions. The tables are in outbox.mysql.sql and outbox.sqlite.sql beside this
 * file; outbox.upgrade.sql changes a table of 1.0 for both databases.
 *
 *     $lost = function (array $vote) use ($pdo): void {
 *         // … take the site's own rows back: see __construct() …
 *     };
 *     $outbox = new VoteStatusOutbox($pdo, 'http://127.0.0.1:8081', $key, $lost);
 *     $answer = $outbox->vote(28, [$_SERVER['REMOTE_ADDR'], $otherAddress], function (int $votedAt) use ($pdo): void {
 *         // … the site's own rows for the vote, with $votedAt as its time …
 *     });
 *
 * And once a minute, from cron: `$outbox->replay()`.
 *
 * For the service and for the outbox, a vote is (server, address, second). The outbox takes each such second once,
 * and keeps it for a cooldown: of a double click, one vote is written.
 */
final class VoteStatusOutbox
{
    /** The service has the vote. */
    public const RECORDED = 'recorded';
    /** Another vote counts for this server and address, see `next_vote_at`. The site's rows were taken back. */
    public const IN_COOLDOWN = 'in_cooldown';
    /** The service cannot judge the vote now. The vote is kept, and replay() sends it. */
    public const LATER = 'later';
    /** Key or URL is wrong, see `message`. The vote is kept, and replay() sends it once that is corrected. */
    public const MISCONFIGURED = 'misconfigured';
    /** The service takes no such vote, see `message`: no address, or too old. The site's rows were taken back. */
    public const REFUSED = 'refused';

    private const TABLE = 'vote_status_outbox';
    private const SECONDS = 'vote_status_outbox_second';
    /** Votes in one request of a replay: the service lists at most 100 refused lines. */
    private const LINES_MAX = 100;
    /** Failures of curl that do not pass by themselves: the URL's form, its host, its certificate. */
    private const MISTAKES = [
        CURLE_UNSUPPORTED_PROTOCOL, CURLE_URL_MALFORMAT, CURLE_COULDNT_RESOLVE_HOST, CURLE_SSL_CONNECT_ERROR,
        CURLE_SSL_CACERT,
    ];
    /** A replay leaves out younger votes, in seconds: send() takes less, and may be sending them now. */
    private const REPLAY_AGE_S = 60;

    /** SQLSTATE of a deadlock. A transaction is then tried again, up to TRIES_MAX times in all. */
    private const DEADLOCK = '40001';
    private const TRIES_MAX = 3;
    /** IPv6 forms of an IPv4 address, before its four bytes: mapped, NAT64, SIIT. */
    private const FORMS_OF_IPV4 = [
        "\0\0\0\0\0\0\0\0\0\0\xff\xff", "\0\x64\xff\x9b\0\0\0\0\0\0\0\0", "\0\0\0\0\0\0\0\0\xff\xff\0\0",
    ];

    /**
     * `$lost` is called once for each vote that does not count, in one transaction with the outbox's note of
     * it: take back what the site wrote for the vote, and pay nothing for it. It is given `vote` (the number
     * that add() gave), `server_id`, `ips`, `voted_at`, `outcome` (IN_COOLDOWN or REFUSED) and `message`.
     * Where it throws, the outbox keeps the vote and calls it again at the next replay.
     *
     * @param PDO          $pdo              the site's database: errors must be exceptions, as is usual from PHP 8 on
     * @param string       $url              the address of the service's control listener
     * @param string       $key              the control key
     * @param Closure      $lost             see above
     * @param int          $cooldownMinutes  the service's --cooldown-minutes
     * @param int          $ipv6Prefix       the service's --ipv6-prefix
     * @param int          $connectTimeoutMs longest wait for a connection to the service
     * @param int          $timeoutMs        longest request, with its answer
     * @param Closure|null $transaction      for a framework: runs a closure in a transaction
     * @param Closure|null $afterCommit      for a framework: runs a closure once the open transaction is committed
     */
    public function __construct(
        private PDO $pdo,
        private string $url,
        private string $key,
        private Closure $lost,
        private int $cooldownMinutes = 90,
        private int $ipv6Prefix = 64,
        private int $connectTimeoutMs = 1_000,
        private int $timeoutMs = 2_000,
        private ?Closure $transaction = null,
        private ?Closure $afterCommit = null,
    ) {
        $this->url = rtrim($url, '/');
        $this->transaction ??= $this->inTransaction(...);
    }

    /**
     * Calls `$write`, which writes the site's own rows with the vote's time in Unix seconds. Writes the outbox's rows
     * in the same transaction, and then sends the vote. Of a double click, one vote is written: the other call writes
     * nothing, and its outcome is IN_COOLDOWN. `$write` may be called again after a deadlock.
     *
     * Within a transaction of a framework, the vote is sent once that is committed, and the outcome is LATER.
     *
     * @param string|list<string> $ip    the voter's address, or all that the site knows of, up to 8: one vote
     * @param Closure(int): void  $write
     * @return array{outcome: string, next_vote_at: ?string, message: ?string}
     */
    public function vote(int $serverId, string|array $ip, Closure $write): array
    {
        // One clock for one vote: the site's rows and the service have the same second.
        $votedAt = time();
        try {
            $vote = ($this->transaction)(function () use ($serverId, $ip, $write, $votedAt): int {
                $write($votedAt);
                return $this->add($serverId, $ip, $votedAt);
            });
        } catch (VoteStatusDuplicate $duplicate) {
            return self::answer(self::IN_COOLDOWN, $this->nextVoteAt($votedAt), $duplicate->getMessage());
        }
        if ($this->afterCommit === null || !$this->pdo->inTransaction()) {
            return $this->send($vote);
        }
        // A vote that is sent before the commit puts the player in cooldown even if the site rolls it back.
        ($this->afterCommit)(fn (): array => $this->send($vote));
        return self::answer(self::LATER, null, 'sent once the transaction around it is committed');
    }

    /**
     * Writes a vote to the outbox, within the transaction that is open. Gives its number there.
     *
     * @param string|list<string> $ip      as vote() has it
     * @param int                 $votedAt Unix seconds, the same as in the site's own rows
     * @throws VoteStatusDuplicate where the second is taken: roll back, and write nothing for this vote
     */
    public function add(int $serverId, string|array $ip, int $votedAt): int
    {
        $insert = 'INSERT INTO ' . self::TABLE . ' (server_id, ip, voted_at, added_at) VALUES (?, ?, ?, ?)';
        $ips = implode(' ', (array) $ip);
        $this->run($insert, [$serverId, $ips, $votedAt, time()]);
        $vote = (int) $this->pdo->lastInsertId();
        $this->take(['id' => $vote, 'server_id' => $serverId, 'ip' => $ips, 'voted_at' => $votedAt]);
        return $vote;
    }

    /**
     * Sends a vote that was added, after its transaction was committed. If the service cannot be asked, the outcome
     * is LATER or MISCONFIGURED, and nothing is thrown.
     *
     * @return array{outcome: string, next_vote_at: ?string, message: ?string}
     */
    public function send(int $vote): array
    {
        if ($this->pdo->inTransaction()) {
            throw new LogicException('a vote is sent after its transaction is committed');
        }
        $row = $this->claim([$vote])[0] ?? null;
        if ($row === null) {
            return self::answer(...$this->settled($vote));
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
            // The answer to an earlier try was lost, and the cooldown is that of this very vote. On a first
            // try it is another vote's. No other vote of this site has this second.
            case $status === 409 && $next === $this->nextVoteAt($row['voted_at']) && $this->wasTriedBefore($vote):
                return self::answer($this->settle($row, self::RECORDED, null), $next);
            case $status === 409:
                return self::answer($this->settle($row, self::IN_COOLDOWN, $message), $next, $message);
            // If this clock is ahead of the service's, the vote is not lost: it is sent when it is due.
            case $status === 422 && $row['voted_at'] <= $now:
                return self::answer($this->settle($row, self::REFUSED, $message), null, $message);
            default:
                $this->note($vote, $message);
                return self::answer(self::LATER, null, $message);
        }
    }

    /**
     * Sends the votes that the service does not have yet, and calls `$lost` for each vote that does not count. If
     * `$lost` throws, the other votes are sent first.
     *
     * @return array{sent: int, lost: int, is_complete: bool, misconfigured: ?string} `is_complete` is false
     *         where votes stay for the next run: the service is away, does not list the server, or key or URL
     *         is wrong as `misconfigured` says. `last_error` in the table says why.
     */
    public function replay(): array
    {
        $result = ['sent' => 0, 'lost' => 0, 'is_complete' => true, 'misconfigured' => null];
        $failure = null;
        $this->forget();
        for ($after = 0; $votes = $this->due($after); $after = end($votes)) {
            $rows = $this->claim($votes);
            if ($rows === []) {
                continue;
            }
            $lines = implode("\n", array_map(self::line(...), $rows)) . "\n";
            [$status, $body, $now] = $this->post('/v1/votes/batch?mode=cast', $lines, 'application/x-ndjson');
            $mistake = $this->mistake($status, $body);
            $errors = array_column($body['errors'] ?? [], null, 'line');
            $isWhole = $status === 200 && ($body['recorded'] ?? null) === count($rows) - count($errors);
            if ($mistake !== null || !$isWhole) {
                $why = $mistake === null ? $body['message'] ?? "status $status" : "misconfigured: $mistake";
                $this->note($rows[0]['id'], $why);
                return ['is_complete' => false, 'misconfigured' => $mistake] + $result;
            }
            foreach ($rows as $index => $row) {
                try {
                    $outcome = $this->replayed($row, $errors[$index + 1] ?? null, $now);
                } catch (Throwable $failure) {
                    $outcome = self::LATER;
                }
                $result['sent'] += (int) ($outcome === self::RECORDED);
                $result['lost'] += (int) in_array($outcome, [self::IN_COOLDOWN, self::REFUSED], true);
                $result['is_complete'] = $result['is_complete'] && $outcome !== self::LATER;
            }
        }
        return $failure === null ? $result : throw $failure;
    }

    /**
     * The outcome of a vote, by its line in the answer to a batch.
     *
     * @param array<string, mixed>                      $row
     * @param array{error: string, message: string}|null $error
     */
    private function replayed(array $row, ?array $error, int $now): string
    {
        $word = $error['error'] ?? null;
        $message = $word === null ? null : "$word: {$error['message']}";
        switch (true) {
            case $word === null:
                return $this->settle($row, self::RECORDED, null);
            // An earlier try may have recorded this very vote. Asked alone, the service says which vote counts.
            case $word === 'in_cooldown' && $this->wasTriedBefore($row['id']):
                return $this->send($row['id'])['outcome'];
            case $word === 'in_cooldown':
                return $this->settle($row, self::IN_COOLDOWN, $message);
            case $word === 'expired' || $word === 'invalid_vote' && $row['voted_at'] <= $now:
                return $this->settle($row, self::REFUSED, $message);
            default:
                $this->note($row['id'], $message);
                return self::LATER;
        }
    }

    /**
     * Numbers of votes to replay.
     *
     * @return list<int>
     */
    private function due(int $after): array
    {
        $due = 'SELECT id FROM ' . self::TABLE . ' WHERE id > ? AND outcome IS NULL AND added_at <= ? ORDER BY id LIMIT ';
        $rows = $this->run($due . self::LINES_MAX, [$after, time() - self::REPLAY_AGE_S]);
        return array_map('intval', array_column($rows, 'id'));
    }

    /**
     * Counts a try of each vote before it is sent, and gives those that are still to be sent.
     *
     * @param list<int> $votes
     * @return list<array<string, mixed>>
     */
    private function claim(array $votes): array
    {
        $which = ' WHERE id IN (' . implode(', ', array_fill(0, count($votes), '?')) . ') AND outcome IS NULL';
        $this->run('UPDATE ' . self::TABLE . ' SET tries = tries + 1' . $which, $votes);
        $rows = $this->run('SELECT id, server_id, ip, voted_at FROM ' . self::TABLE . $which . ' ORDER BY id', $votes);
        // A database may be set up to give its numbers as text.
        $typed = fn (array $row): array => ['ip' => $row['ip']] + array_map('intval', $row);
        return array_values(array_filter(array_map($typed, $rows), $this->isTaken(...)));
    }

    /**
     * Whether the vote has its second. A vote that 1.0 wrote takes it now, and is lost if another vote has it.
     *
     * @param array<string, mixed> $row
     */
    private function isTaken(array $row): bool
    {
        $taken = $this->run('SELECT vote FROM ' . self::SECONDS . ' WHERE vote = ?', [$row['id']]);
        try {
            $taken !== [] || ($this->transaction)(fn () => $this->take($row));
            return true;
        } catch (VoteStatusDuplicate $duplicate) {
            $this->settle($row, self::IN_COOLDOWN, $duplicate->getMessage());
            return false;
        }
    }

    /**
     * Takes the vote's second for each of its addresses. If one is taken, the caller rolls the transaction back.
     *
     * @param array<string, mixed> $row
     */
    private function take(array $row): void
    {
        $voters = array_unique(array_map($this->voter(...), explode(' ', $row['ip'])));
        // Always in the same order, so that two clicks never deadlock.
        sort($voters);
        $insert = 'INSERT INTO ' . self::SECONDS . ' (server_id, address, voted_at, vote) VALUES (?, ?, ?, ?)';
        try {
            foreach ($voters as $voter) {
                $this->run($insert, [$row['server_id'], $voter, $row['voted_at'], $row['id']]);
            }
        } catch (PDOException $taken) {
            if ((string) $taken->getCode() !== '23000') {
                throw $taken;
            }
            throw new VoteStatusDuplicate('a vote of this second is there already: a double click');
        }
    }

    /** The voter as the service sees it: an IPv4 address, or the network of an IPv6 address. */
    private function voter(string $ip): string
    {
        $bytes = (string) @inet_pton($ip);
        if (strlen($bytes) === 16) {
            $isIpv4 = in_array(substr($bytes, 0, 12), self::FORMS_OF_IPV4, true);
            $bytes = $isIpv4 ? substr($bytes, 12) : $bytes & pack('J2', -1 << (64 - $this->ipv6Prefix), 0);
        }
        return $bytes === '' ? '' : inet_ntop($bytes);
    }

    /** Whether more than one try was sent: each is counted before it is sent. */
    private function wasTriedBefore(int $vote): bool
    {
        return (int) $this->run('SELECT tries FROM ' . self::TABLE . ' WHERE id = ?', [$vote])[0]['tries'] > 1;
    }

    /**
     * Notes the outcome of the vote, and calls `$lost` in the same transaction. Gives the noted outcome, which is
     * another one if another process was faster.
     *
     * @param array<string, mixed> $row
     */
    private function settle(array $row, string $outcome, ?string $message): string
    {
        $isFirst = ($this->transaction)(function () use ($row, $outcome, $message): bool {
            $update = 'UPDATE ' . self::TABLE . ' SET outcome = ?, last_error = ? WHERE id = ? AND outcome IS NULL';
            $settle = $this->pdo->prepare($update);
            $settle->execute([$outcome, self::printable($message), $row['id']]);
            $isFirst = $settle->rowCount() === 1;
            if ($isFirst && $outcome !== self::RECORDED) {
                ($this->lost)([
                    'vote' => $row['id'], 'server_id' => $row['server_id'], 'ips' => explode(' ', $row['ip']),
                    'voted_at' => $row['voted_at'], 'outcome' => $outcome, 'message' => $message,
                ]);
            }
            return $isFirst;
        });
        return $isFirst ? $outcome : $this->settled($row['id'])[0];
    }

    /**
     * Outcome, `next_vote_at` and message of a vote that is not to be sent any more.
     *
     * @return array{string, ?string, ?string}
     */
    private function settled(int $vote): array
    {
        $row = $this->run('SELECT outcome, voted_at, last_error FROM ' . self::TABLE . ' WHERE id = ?', [$vote])[0] ?? null;
        if ($row === null) {
            return [self::REFUSED, null, 'no such vote in the outbox: it is older than a cooldown'];
        }
        $next = $row['outcome'] === self::RECORDED ? $this->nextVoteAt((int) $row['voted_at']) : null;
        return [$row['outcome'], $next, $row['last_error']];
    }

    /** Deletes votes that were settled, a cooldown after they were cast: no vote of their second can come. */
    private function forget(): void
    {
        $until = time() - 60 * $this->cooldownMinutes - self::REPLAY_AGE_S;
        $old = 'SELECT id FROM ' . self::TABLE . ' WHERE outcome IS NOT NULL AND voted_at < ? LIMIT ' . self::LINES_MAX;
        while ($votes = array_column($this->run($old, [$until]), 'id')) {
            $marks = implode(', ', array_fill(0, count($votes), '?'));
            ($this->transaction)(function () use ($marks, $votes): void {
                $this->run('DELETE FROM ' . self::TABLE . " WHERE id IN ($marks)", $votes);
                $this->run('DELETE FROM ' . self::SECONDS . " WHERE vote IN ($marks)", $votes);
            });
        }
    }

    private function note(int $vote, string $error): void
    {
        $update = 'UPDATE ' . self::TABLE . ' SET last_error = ? WHERE id = ? AND outcome IS NULL';
        $this->run($update, [self::printable($error), $vote]);
    }

    /** Fits the column, whatever a proxy in between may have said. */
    private static function printable(?string $message): ?string
    {
        return $message === null ? null : substr(preg_replace('/[^\x20-\x7e]/', '?', $message), 0, 200);
    }

    /**
     * All rows at once: a statement that is read halfway holds SQLite's lock.
     *
     * @param list<mixed> $values
     * @return list<array<string, mixed>>
     */
    private function run(string $sql, array $values): array
    {
        $statement = $this->pdo->prepare($sql);
        $statement->execute($values);
        return $statement->columnCount() === 0 ? [] : $statement->fetchAll(PDO::FETCH_ASSOC);
    }

    private function inTransaction(Closure $do): mixed
    {
        for ($try = 1;; $try++) {
            $this->pdo->beginTransaction();
            try {
                $done = $do();
                $this->pdo->commit();
                return $done;
            } catch (Throwable $failure) {
                $this->pdo->inTransaction() && $this->pdo->rollBack();
                if ((string) $failure->getCode() !== self::DEADLOCK || $try === self::TRIES_MAX) {
                    throw $failure;
                }
            }
        }
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
     * The mistake in key or URL. Null if the answer is the service's, or if there is none: a service that is away
     * comes back by itself, and a mistake does not.
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

/** The vote's second is taken: this is the other half of a double click. */
final class VoteStatusDuplicate extends RuntimeException
{
}
