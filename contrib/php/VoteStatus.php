<?php

declare(strict_types=1);

use Illuminate\Database\Connection;

/**
 * The outbox in Laravel (8.37 or later). Its table is made by `artisan migrate`, from the migration beside this
 * file; VoteStatusServiceProvider.php makes the outbox, and runs its replay.
 *
 *     public function store(Request $request, Server $server, VoteStatus $voteStatus)
 *     {
 *         $answer = $voteStatus->vote($server->id, $request->ip(), function (int $votedAt) use ($request, $server) {
 *             // … the site's own rows for the vote …
 *         });
 *     }
 */
final class VoteStatus
{
    public function __construct(
        private Connection $database,
        private string $url,
        private string $key,
        private int $cooldownMinutes = 90,
    ) {
    }

    /**
     * Has `$write` write the site's own rows, given the vote's time in Unix seconds, and the outbox its own,
     * in one transaction; then sends the vote. `$write` may be called again after a deadlock.
     *
     * Within a transaction of the caller's the vote is sent once that is committed, and the outcome is LATER:
     * what is sent before that may be rolled back on the site, and would still put the player in cooldown.
     *
     * @param string|list<string> $ip the voter's address, or all that the site knows of
     * @return array{outcome: string, next_vote_at: ?string, message: ?string} as VoteStatusOutbox::send() has it
     */
    public function vote(int $serverId, string|array $ip, Closure $write): array
    {
        $votedAt = time();
        $add = function () use ($serverId, $ip, $write, $votedAt): int {
            $write($votedAt);
            return $this->outbox()->add($serverId, $ip, $votedAt);
        };
        $vote = $this->database->transaction($add, 3);
        if ($this->database->transactionLevel() === 0) {
            return $this->outbox()->send($vote);
        }
        $this->database->afterCommit(fn () => $this->outbox()->send($vote));
        $message = 'sent once the transaction around it is committed';
        return ['outcome' => VoteStatusOutbox::LATER, 'next_vote_at' => null, 'message' => $message];
    }

    /** @return array{sent: int, refused: int, is_complete: bool, misconfigured: ?string} as VoteStatusOutbox::replay() has it */
    public function replay(): array
    {
        return $this->outbox()->replay();
    }

    /** Made anew each time: Laravel may have connected anew to the database. */
    private function outbox(): VoteStatusOutbox
    {
        return new VoteStatusOutbox($this->database->getPdo(), $this->url, $this->key, $this->cooldownMinutes);
    }
}
