<?php

declare(strict_types=1);

use Illuminate\Console\Scheduling\Schedule;
use Illuminate\Support\Facades\Artisan;
use Illuminate\Support\ServiceProvider;

/**
 * The tables' migrations for `artisan migrate`; VoteStatus for Laravel's container, by `vote_status` in
 * config/services.php; and its replay as `artisan vote-status:replay`, each minute. The settings are `url`, `key`,
 * `lost` (a static method, see VoteStatusOutbox::__construct()), and `cooldown_minutes` and `ipv6_prefix` where the
 * service has others than 90 and 64.
 */
final class VoteStatusServiceProvider extends ServiceProvider
{
    public function register(): void
    {
        $this->app->bind(VoteStatus::class, function ($app): VoteStatus {
            $service = $app['config']['services.vote_status'];
            return new VoteStatus(
                $app['db']->connection(),
                $service['url'],
                $service['key'],
                Closure::fromCallable($service['lost']),
                (int) ($service['cooldown_minutes'] ?? 90),
                (int) ($service['ipv6_prefix'] ?? 64),
            );
        });
    }

    public function boot(): void
    {
        $this->loadMigrationsFrom([
            __DIR__ . '/2026_11_22_000000_create_vote_status_outbox_table.php',
            __DIR__ . '/2026_11_23_000000_add_seconds_to_vote_status_outbox.php',
        ]);
        Artisan::command('vote-status:replay', function (VoteStatus $voteStatus): int {
            ['sent' => $sent, 'lost' => $lost, 'is_complete' => $isComplete, 'misconfigured' => $mistake]
                = $voteStatus->replay();
            $this->line("$sent sent, $lost lost" . match (true) {
                $isComplete => '',
                $mistake !== null => ", the rest is kept: misconfigured: $mistake",
                default => ', the rest later: last_error in vote_status_outbox says why',
            });
            return $isComplete ? 0 : 1;
        })->describe('Send the votes that the vote-status service does not have yet');
        $this->callAfterResolving(Schedule::class, function (Schedule $schedule): void {
            $schedule->command('vote-status:replay')->everyMinute();
        });
    }
}
