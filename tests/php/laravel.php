<?php
// The site of site.php on Laravel: real container, database, console and HTTP client. The same calls but "at", and
//   laravel.php DSN URL KEY make FILE first|all   runs SQL, and the first migration of the outbox or all of them
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
    'services' => ['vote_status' => ['url' => $url, 'key' => $key, 'lost' => ['Site', 'takeBack']]],
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

/** The site's own side of a vote that does not count. */
final class Site
{
    public static function takeBack(array $vote): void
    {
        DB::table('lost')->insert(['vote' => $vote['vote'], 'outcome' => $vote['outcome']]);
        $row = ['server_id' => $vote['server_id'], 'ip' => $vote['ips'][0], 'voted_at' => $vote['voted_at']];
        DB::table('votes')->where($row)->delete();
    }
}

function vote(string $ip, string ...$others): array
{
    return ['ip' => $ip] + app(VoteStatus::class)->vote(28, [$ip, ...$others], function (int $votedAt) use ($ip): void {
        DB::table('votes')->insert(['server_id' => 28, 'ip' => $ip, 'voted_at' => $votedAt]);
    });
}

switch ($what) {
    case 'make':
        $driver === 'sqlite' && touch($rest);
        // The outbox's own tables come by the migrations, as on any site.
        DB::unprepared(file_get_contents($argv[5]));
        $first = realpath(__DIR__ . '/../../contrib/php/2026_11_22_000000_create_vote_status_outbox_table.php');
        $only = $argv[6] === 'first' ? ['--path' => $first, '--realpath' => true] : [];
        $kernel->call('migrate', $only + ['--force' => true]) === 0 || exit(3);
        break;
    case 'vote':
        for ($number = (int) $argv[5]; $number < $argv[5] + $argv[6]; $number++) {
            echo json_encode(vote('10.1.' . intdiv($number, 250) . '.' . $number % 250)), "\n";
            usleep(1000 * (int) $argv[7]);
        }
        break;
    case 'clicks':
        while (($ip = fgets(STDIN)) !== false) {
            echo json_encode(vote(trim($ip))), "\n";
        }
        break;
    case 'both':
        echo json_encode(vote($argv[5], $argv[6])), "\n";
        break;
    case 'forget':
        // The process dies once the vote is committed, within a transaction of the caller's.
        DB::beginTransaction();
        $told = ['outcome' => 'nothing'] + vote($argv[5]);
        DB::connection()->getPdo()->commit();
        echo json_encode($told), "\n";
        break;
    case 'age':
        foreach (['votes', 'vote_status_outbox', 'vote_status_outbox_second'] as $table) {
            DB::table($table)->decrement('voted_at', (int) $argv[5]);
        }
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
        sscanf($said, '%d sent, %d lost', $sent, $lost);
        $told = ['sent' => $sent, 'lost' => $lost, 'is_complete' => $status === 0];
        $told['misconfigured'] = preg_match('/: misconfigured: (.*)/', $said, $found) ? $found[1] : null;
        $left = DB::table('vote_status_outbox')->whereNull('outcome')->get(['ip', 'last_error']);
        echo json_encode($told + ['left' => $left]), "\n";
        break;
    case 'rows':
        echo json_encode([
            'votes' => DB::table('votes')->get(['ip', 'voted_at']),
            'lost' => DB::table('lost')->get(),
            'outbox' => [DB::table('vote_status_outbox')->count(), DB::table('vote_status_outbox_second')->count()],
        ]), "\n";
        break;
    case 'report':
        require $argv[5];
        $response = reportVote(28, $argv[6], (int) $argv[7]);
        echo json_encode(['status' => $response?->status(), 'body' => $response?->json()]), "\n";
        break;
    default:
        exit(3);
}
