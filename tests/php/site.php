<?php
// A site in small: one table of votes, and the outbox. Prints what became of each vote as a line of JSON.
//   site.php DSN URL KEY vote FIRST COUNT PAUSE_MS   COUNT votes from addresses of their own
//   site.php DSN URL KEY forget IP                   a vote whose process dies between commit and sending
//   site.php DSN URL KEY replay AGE_S                what cron does, for votes as if they were so much older
//   site.php DSN URL KEY age AGE_S                   lets the votes in the outbox have been cast so much earlier
//   site.php DSN URL KEY both IP IP                  a vote of a voter with two addresses
declare(strict_types=1);

require __DIR__ . '/../../contrib/php/VoteStatusOutbox.php';

[, $dsn, $url, $key, $what] = $argv;
$pdo = new PDO($dsn, 'root');
$outbox = new VoteStatusOutbox($pdo, $url, $key);

function vote(PDO $pdo, VoteStatusOutbox $outbox, string|array $ip): array
{
    $votedAt = time();
    $pdo->beginTransaction();
    $row = [28, ((array) $ip)[0], $votedAt];
    $pdo->prepare('INSERT INTO votes (server_id, ip, voted_at) VALUES (?, ?, ?)')->execute($row);
    $vote = $outbox->add(28, $ip, $votedAt);
    $pdo->commit();
    return [$vote, $votedAt];
}

switch ($what) {
    case 'make':
        foreach (array_slice($argv, 5) as $file) {
            $pdo->exec(file_get_contents($file));
        }
        break;
    case 'vote':
        for ($number = (int) $argv[5]; $number < $argv[5] + $argv[6]; $number++) {
            $ip = '10.1.' . intdiv($number, 250) . '.' . $number % 250;
            [$vote, $votedAt] = vote($pdo, $outbox, $ip);
            $answer = $outbox->send($vote);
            echo json_encode(['ip' => $ip, 'voted_at' => $votedAt] + $answer), "\n";
            usleep(1000 * (int) $argv[7]);
        }
        break;
    case 'both':
        [$vote, $votedAt] = vote($pdo, $outbox, [$argv[5], $argv[6]]);
        echo json_encode(['voted_at' => $votedAt] + $outbox->send($vote)), "\n";
        break;
    case 'age':
        $pdo->exec('UPDATE vote_status_outbox SET voted_at = voted_at - ' . (int) $argv[5]);
        break;
    case 'forget':
        [, $votedAt] = vote($pdo, $outbox, $argv[5]);
        echo json_encode(['ip' => $argv[5], 'voted_at' => $votedAt, 'outcome' => 'nothing']), "\n";
        break;
    case 'replay':
        $pdo->exec('UPDATE vote_status_outbox SET added_at = added_at - ' . (int) $argv[5]);
        $left = fn (): array => $pdo->query('SELECT ip, last_error FROM vote_status_outbox')->fetchAll(PDO::FETCH_ASSOC);
        echo json_encode($outbox->replay() + ['left' => $left()]), "\n";
        break;
}
