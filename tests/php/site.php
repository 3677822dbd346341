<?php
// A site in small: one table of votes, and the outbox. Prints what became of each vote as a line of JSON.
//   site.php DSN URL KEY make FILE…              runs SQL
//   site.php DSN URL KEY vote FIRST COUNT PAUSE_MS   COUNT votes from addresses of their own
//   site.php DSN URL KEY clicks                  a vote for each address that comes in on standard input
//   site.php DSN URL KEY both IP IP              a vote of a voter with two addresses
//   site.php DSN URL KEY at VOTED_AT IP…         a vote of that second, by a voter with these addresses
//   site.php DSN URL KEY forget IP               a vote whose process dies between commit and sending
//   site.php DSN URL KEY replay AGE_S            what cron does, for votes as if they were so much older
//   site.php DSN URL KEY age AGE_S               lets all votes have been cast so much earlier
//   site.php DSN URL KEY rows                    what the site has: its votes, and those that it was told are lost
declare(strict_types=1);

require __DIR__ . '/../../contrib/php/VoteStatusOutbox.php';

[, $dsn, $url, $key, $what] = $argv;
$pdo = new PDO($dsn, 'root');
$run = function (string $sql, array $values = []) use ($pdo): array {
    $statement = $pdo->prepare($sql);
    $statement->execute($values);
    return $statement->columnCount() === 0 ? [] : $statement->fetchAll(PDO::FETCH_ASSOC);
};
$lost = function (array $vote) use ($run): void {
    $run('INSERT INTO lost (vote, outcome) VALUES (?, ?)', [$vote['vote'], $vote['outcome']]);
    $row = [$vote['server_id'], $vote['ips'][0], $vote['voted_at']];
    $run('DELETE FROM votes WHERE server_id = ? AND ip = ? AND voted_at = ?', $row);
};
$outbox = new VoteStatusOutbox($pdo, $url, $key, $lost);
$write = fn (string $ip): Closure => function (int $votedAt) use ($run, $ip): void {
    $run('INSERT INTO votes (server_id, ip, voted_at) VALUES (28, ?, ?)', [$ip, $votedAt]);
};
$tell = function (mixed $told): void {
    echo json_encode($told), "\n";
};

switch ($what) {
    case 'make':
        foreach (array_slice($argv, 5) as $file) {
            // Each statement alone: of several, MySQL tells the first one's error only.
            array_map($pdo->exec(...), preg_split('/;\s*$/m', file_get_contents($file), -1, PREG_SPLIT_NO_EMPTY));
        }
        break;
    case 'vote':
        for ($number = (int) $argv[5]; $number < $argv[5] + $argv[6]; $number++) {
            $ip = '10.1.' . intdiv($number, 250) . '.' . $number % 250;
            $tell(['ip' => $ip] + $outbox->vote(28, $ip, $write($ip)));
            usleep(1000 * (int) $argv[7]);
        }
        break;
    case 'clicks':
        while (($ip = fgets(STDIN)) !== false) {
            $tell(['ip' => trim($ip)] + $outbox->vote(28, trim($ip), $write(trim($ip))));
        }
        break;
    case 'both':
        $tell($outbox->vote(28, [$argv[5], $argv[6]], $write($argv[5])));
        break;
    case 'at':
        $votedAt = (int) $argv[5];
        $ips = array_slice($argv, 6);
        $pdo->beginTransaction();
        $write($ips[0])($votedAt);
        try {
            $vote = $outbox->add(28, $ips, $votedAt);
        } catch (VoteStatusDuplicate) {
            $pdo->rollBack();
            $tell(['outcome' => 'duplicate']);
            break;
        }
        $pdo->commit();
        $tell($outbox->send($vote));
        break;
    case 'forget':
        $pdo->beginTransaction();
        $write($argv[5])(time());
        $outbox->add(28, $argv[5], time());
        $pdo->commit();
        $tell(['ip' => $argv[5], 'outcome' => 'nothing']);
        break;
    case 'replay':
        $run('UPDATE vote_status_outbox SET added_at = added_at - ' . (int) $argv[5]);
        $told = $outbox->replay();
        $tell($told + ['left' => $run('SELECT ip, last_error FROM vote_status_outbox WHERE outcome IS NULL')]);
        break;
    case 'age':
        foreach (['votes', 'vote_status_outbox', 'vote_status_outbox_second'] as $table) {
            $run("UPDATE $table SET voted_at = voted_at - " . (int) $argv[5]);
        }
        break;
    case 'rows':
        $count = fn (string $table): int => $run("SELECT COUNT(*) AS n FROM $table")[0]['n'];
        $tell([
            'votes' => $run('SELECT ip, voted_at FROM votes'),
            'lost' => $run('SELECT vote, outcome FROM lost'),
            'outbox' => [$count('vote_status_outbox'), $count('vote_status_outbox_second')],
        ]);
        break;
    default:
        exit(3);
}
