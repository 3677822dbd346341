<?php
$base = getenv('VOTE_STATUS_URL') ?: 'http://localhost:8080';
$wait = (int) (getenv('VOTE_STATUS_WAIT') ?: 25);
$seconds = (int) (getenv('VOTE_STATUS_SECONDS') ?: 600); // of play
$ledger = new PDO('sqlite:' . (getenv('VOTE_STATUS_PAID') ?: 'paid.db'));
$ledger->exec('CREATE TABLE IF NOT EXISTS paid (server, player, address, next_vote_at,
    UNIQUE (server, player, next_vote_at), UNIQUE (server, address, next_vote_at))');

// The answer's fields, or an exception: a fault is never a vote. Code 4: asking again does not help.
function ask(string $url, int $wait): array
{
    $options = ['timeout' => $wait + 10, 'follow_location' => 0, 'ignore_errors' => true];
    $body = @file_get_contents("$url?wait=$wait", false, stream_context_create(['http' => $options]));
    if ($body === false) {
        throw new RuntimeException('network failure');
    }
    $answer = json_decode($body, true);
    $can_vote = $answer['can_vote'] ?? null;
    $has_voted = $can_vote === false && is_string($answer['next_vote_at'] ?? null);
    if (!isset($answer['error']) && ($has_voted || $can_vote === true)) {
        return $answer;
    }
    $status = (int) substr($http_response_header[0], 9, 3);
    $is_final = intdiv($status, 100) === 4 && !in_array($status, [408, 429], true);
    throw new RuntimeException($answer['message'] ?? "Réponse invalide ($status)", $is_final ? 4 : 0);
}

// One INSERT into a table with two unique keys.
function pay_once(PDO $ledger, string $server, string $ip, string $player, string $next_vote_at): void
{
    $key = str_contains($ip, '.') ? $ip : bin2hex(substr(inet_pton($ip), 0, 8)); // for IPv6, the network
    $insert = $ledger->prepare('INSERT OR IGNORE INTO paid VALUES (?, ?, ?, ?)');
    $insert->execute([$server, $player, $key, $next_vote_at]);
    if ($insert->rowCount() === 1) {
        echo "pay $server $player $ip $next_vote_at\n";
    }
}

[, $server, $ip, $player] = $argv + [1 => '28', '203.0.113.7', 'Alex'];
[$pause, $said, $status] = [5, '', 1];
for ($end = time() + $seconds; time() < $end;) {
    $asked = microtime(true);
    try {
        $answer = ask("$base/api/vote/$server/status/" . rawurlencode($ip), $wait);
    } catch (RuntimeException $fault) {
        if ($fault->getMessage() !== $said) {
            fwrite(STDERR, ($said = $fault->getMessage()) . "\n");
        }
        if ($fault->getCode() === 4) {
            exit(2);
        }
        sleep($pause);
        $pause = min(2 * $pause, 60);
        continue;
    }
    [$pause, $said] = [5, ''];
    if (!$answer['can_vote']) {
        $status = 0;
        pay_once($ledger, $server, $ip, $player, $answer['next_vote_at']);
        sleep(max(5, min(strtotime($answer['next_vote_at']), $end) - time()));
    } elseif (microtime(true) - $asked < $wait) {
        sleep(5); // sooner than asked for
    }
}
exit($status);
