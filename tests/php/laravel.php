<?php
// The site of site.php on Laravel: real container, database, console and HTTP client. The same calls, and
//   laravel.php DSN URL KEY rolled-back IP    a vote within a transaction that is rolled back
//   laravel.php DSN URL KEY report FILE IP VOTED_AT   what the function reportVote() in FILE gives
declare(strict_types=1);

use Illuminate\Console\Scheduling\Schedule;
use Illuminate\Foundation\Application;
use Illuminate\Foundation\Console\Kernel;
use Illuminate\Support\Facades\DB;

require 'Illuminate/autoload.php';
require 'GuzzleHttp/autoload.php';
foreach (['VoteStatusOutbox', 'VoteStatus', 'VoteStatusServiceProvider'] as $class) {
    require __DIR__ . "/../../contrib/php/$class.php";
}

[, $dsn, $url, $key, $what] = $argv;

// A site's folder as far as this one needs it: config/ alone, and no log.
$base = sys_get_temp_dir() . '/site-' . getmypid();
mkdir("$base/bootstrap/cache", 0777, true);
mkdir("$base/config");
register_shutdown_function(fn () => (new Illuminate\Filesystem\Filesystem)->deleteDirectory($base));
[$driver, $rest] = explode(':', $dsn, 2);
parse_str(strtr($rest, ';', '&'), $parts);
$database = $driver === 'sqlite'
    ? ['driver' => 'sqlite', 'database' => $rest]
    : [
        'driver' => 'mysql', 'unix_socket' => $parts['unix_socket'], 'database' => $parts['dbname'],
        'username' => 'root', 'password' => '',
    ];
$config = [
    'app' => ['name' => 'site', 'env' => 'testing', 'timezone' => 'Europe/Paris', 'locale' => 'fr', 'providers' => [
        Illuminate\Bus\BusServiceProvider::class,
        Illuminate\Cache\CacheServiceProvider::class,
        Illuminate\Database\DatabaseServiceProvider::class,
        Illuminate\Filesystem\FilesystemServiceProvider::class,
        Illuminate\Foundation\Providers\ConsoleSupportServiceProvider::class,
        Illuminate\Queue\QueueServiceProvider::class,
        VoteStatusServiceProvider::class,
    ]],
    'cache' => ['default' => 'array', 'stores' => ['array' => ['driver' => 'array']]],
    'database' => ['default' => 'site', 'migrations' => 'migrations', 'connections' => ['site' => $database + ['prefix' => '']]],
    'queue' => ['default' => 'sync', 'connections' => ['sync' => ['driver' => 'sync']]],
    'services' => ['vote_status' => ['url' => $url, 'key' => $key]],
];
foreach ($config as $name => $values) {
    file_put_contents("$base/config/$name.php", '<?php return ' . var_export($values, true) . ';');
}
$app = new Application($base);
$app->singleton(Illuminate\Contracts\Console\Kernel::class, Kernel::class);
$app->singleton(Illuminate\Contracts\Debug\ExceptionHandler::class, Illuminate\Foundation\Exceptions\Handler::class);
$kernel = $app->make(Illuminate\Contracts\Console\Kernel::class);
$kernel->bootstrap();
// An error is to end this program as PHP ends it, with a status.
restore_exception_handler();

/** The answer, and the vote's time. */
function vote(string|array $ip): array
{
    $at = null;
    $answer = app(VoteStatus::class)->vote(28, $ip, function (int $votedAt) use ($ip, &$at): void {
        DB::table('votes')->insert(['server_id' => 28, 'ip' => ((array) $ip)[0], 'voted_at' => $at = $votedAt]);
    });
    return ['ip' => $ip, 'voted_at' => $at] + $answer;
}

switch ($what) {
    case 'make':
        $driver === 'sqlite' && touch($rest);
        // The outbox's own table comes by the migration, as on any site.
        DB::unprepared(file_get_contents($argv[5]));
        $kernel->call('migrate', ['--force' => true]) === 0 || exit(3);
        break;
    case 'vote':
        for ($number = (int) $argv[5]; $number < $argv[5] + $argv[6]; $number++) {
            echo json_encode(vote('10.1.' . intdiv($number, 250) . '.' . $number % 250)), "\n";
            usleep(1000 * (int) $argv[7]);
        }
        break;
    case 'both':
        echo json_encode(vote([$argv[5], $argv[6]])), "\n";
        break;
    case 'age':
        DB::table('vote_status_outbox')->decrement('voted_at', (int) $argv[5]);
        break;
    case 'forget':
        // The process dies once the vote is committed, within a transaction of the caller's.
        DB::beginTransaction();
        $told = ['outcome' => 'nothing'] + vote($argv[5]);
        DB::connection()->getPdo()->commit();
        echo json_encode($told), "\n";
        break;
    case 'rolled-back':
        DB::beginTransaction();
        $told = vote($argv[5]);
        DB::rollBack();
        echo json_encode($told + ['rows' => DB::table('votes')->where('ip', $argv[5])->count()]), "\n";
        break;
    case 'replay':
        $due = array_filter($app->make(Schedule::class)->events(), fn ($event) => $event->isDue($app));
        $scheduled = implode(' ', array_map(fn ($event) => $event->command, $due));
        str_contains($scheduled, 'vote-status:replay') || exit(3);
        DB::table('vote_status_outbox')->decrement('added_at', (int) $argv[5]);
        $status = $kernel->call('vote-status:replay');
        $said = $kernel->output();
        sscanf($said, '%d sent, %d refused', $sent, $refused);
        $told = ['sent' => $sent, 'refused' => $refused, 'is_complete' => $status === 0];
        $told['misconfigured'] = preg_match('/: misconfigured: (.*)/', $said, $found) ? $found[1] : null;
        echo json_encode($told + ['left' => DB::table('vote_status_outbox')->get(['ip', 'last_error'])]), "\n";
        break;
    case 'report':
        require $argv[5];
        $response = reportVote(28, $argv[6], (int) $argv[7]);
        echo json_encode(['status' => $response?->status(), 'body' => $response?->json()]), "\n";
        break;
}
