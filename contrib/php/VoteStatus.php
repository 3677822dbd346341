<?php

declare(strict_types=1);

use Illuminate\Database\Connection;

/**
 * The outbox in Laravel (8.37 or later). Its tables are made by `artisan migrate`, from the migrations beside this
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
    /** @param Closure $lost as VoteStatusOutbox::__construct() has it */
    public function __construct(
        private Connection $database,
        private string $url,
        private string $key,
        private Closure $lost,
        private int $cooldownMinutes = 90,
        private int $ipv6Prefix = 64,
    ) {
    }

    /**
     * As VoteStatusOutbox::vote() has it.
     *
     * @param string|list<string> $ip    the voter's address, or all that the site knows of
     * @param Closure(int): void  $write
     * @return array{outcome: string, next_vote_at: ?string, message: ?string}
     */
    public function vote(int $serverId, string|array $ip, Closure $write): array
    {
        return $this->outbox()->vote($serverId, $ip, $write);
    }

    /** @return array{sent: int, lost: int, is_complete: bool, misconfigured: ?string} as VoteStatusOutbox::replay() has it */
    public function replay(): array
    {
        return $this->outbox()->replay();
    }

    /** Made anew each time: Laravel may have connected anew to the database. */
    private function outbox(): VoteStatusOutbox
    {
        return new VoteStatusOutbox(
            $this->database->getPdo(),
            $this->url,
            $this->key,
            $this->lost,
            $this->cooldownMinutes,
            $this->ipv6Prefix,
            transaction: fn (Closure $do): mixed => $this->database->transaction($do, 3),
            afterCommit: fn (Closure $do) => $this->database->afterCommit($do),
        );
    }
}
