<?php

declare(strict_types=1);

use Illuminate\Console\Scheduling\Schedule;
use Illuminate\Support\Facades\Artisan;
use Illuminate\Support\ServiceProvider;

/**
 * The table's migration for `artisan migrate`; VoteStatus for Laravel's container, by `vote_status` in
 * config/services.php (`url`, `key`, and `cooldown_minutes` where it is not 90); and its replay as
 * `artisan vote-status:replay`, each minute.
 */
final class VoteStatusServiceProvider extends ServiceProvider
{
    public function register(): void
    {
        $this->app->bind(VoteStatus::class, function ($app): VoteStatus {
            $service = $app['config']['services.vote_status'];
            $minutes = (int) ($service['cooldown_minutes'] ?? 90);
            return new VoteStatus($app['db']->connection(), $service['url'], $service['key'], $minutes);
        });
    }

    public function boot(): void
    {
        $this->loadMigrationsFrom(__DIR__ . '/2026_11_22_000000_create_vote_status_outbox_table.php');
        Artisan::command('vote-status:replay', function (VoteStatus $voteStatus): int {
            ['sent' => $sent, 'refused' => $refused, 'is_complete' => $isComplete, 'misconfigured' => $mistake]
                = $voteStatus->replay();
            $this->line("$sent sent, $refused refused" . match (true) {
                $isComplete => '',
                $mistake !== null => ", the rest is kept: misconfigured: $mistake",
                default => ', the rest later: the service is away',
            });
            return $isComplete ? 0 : 1;
        })->describe('Send the votes that the vote-status service does not have yet');
        $this->callAfterResolving(Schedule::class, function (Schedule $schedule): void {
            $schedule->command('vote-status:replay')->everyMinute();
        });
    }
}
