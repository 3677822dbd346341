<?php
$base = getenv('VOTE_STATUS_URL') ?: 'http://localhost:8080';

// The answer's fields, or an exception: a fault is never a vote.
function vote_status(string $url): array
{
    $options = ['timeout' => 5, 'ignore_errors' => true, 'header' => 'Accept: application/json'];
    $body = @file_get_contents($url, false, stream_context_create(['http' => $options]));
    if ($body === false) {
        throw new RuntimeException('network failure');
    }
    $answer = json_decode($body, true);
    if (!is_array($answer) || !is_bool($answer['can_vote'] ?? null)) {
        throw new RuntimeException('Réponse invalide');
    }
    if (isset($answer['error'])) {
        throw new RuntimeException($answer['message']);
    }
    return $answer;
}

[, $by, $server, $ip] = $argv + [1 => 'id', '28', '203.0.113.7'];
$path = $by === 'id' ? "/api/vote/$server/status/$ip" : "/api/servers/$server/vote-status/$ip";
try {
    $answer = vote_status($base . $path);
    echo $answer['message'], "\n";
    exit($answer['can_vote'] ? 0 : 1); // 1: has voted, the reward is due
} catch (RuntimeException $fault) {
    fwrite(STDERR, $fault->getMessage() . "\n");
    exit(2);
}
