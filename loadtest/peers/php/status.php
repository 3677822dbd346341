<?php
// The status resource as a PHP site writes it: one MGET over a persistent connection, json_encode.
declare(strict_types=1);

const COOLDOWN_MINUTES = 90;

function answer(int $status, array $fields): void
{
    http_response_code($status);
    header('Content-Type: application/json; charset=utf-8');
    header('Cache-Control: no-store');
    header('Access-Control-Allow-Origin: *');
    header('X-Content-Type-Options: nosniff');
    $body = json_encode($fields, JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES);
    header('Content-Length: ' . strlen($body));
    echo $body;
}

function can_vote(string $message, array $more = []): array
{
    return [
        'success' => true,
        'can_vote' => true,
        'message' => $message,
        'next_vote_at' => null,
        'cooldown_minutes' => COOLDOWN_MINUTES,
    ] + $more;
}

if (!preg_match('~^/api/vote/([0-9]+)/status/([^/?]+)~', $_SERVER['REQUEST_URI'], $part)) {
    answer(404, can_vote('Ressource introuvable', ['error' => 'not_found']));
    return;
}
[, $id, $ip] = $part;
if (!filter_var($ip, FILTER_VALIDATE_IP, FILTER_FLAG_IPV4)) {
    answer(400, can_vote('Adresse IP invalide', ['error' => 'invalid_ip']));
    return;
}
$redis = new Redis();
$redis->pconnect('127.0.0.1', (int) $_SERVER['REDIS_PORT']);
[$server, $expiry] = $redis->mGet(["server:$id", "cooldown:$id:$ip"]);
if ($server === false) {
    answer(404, can_vote('Serveur inconnu', ['error' => 'unknown_server']));
    return;
}
$left = (int) $expiry - time();
if ($left <= 0) {
    answer(200, can_vote('Vous pouvez voter maintenant'));
    return;
}
answer(200, [
    'success' => false,
    'can_vote' => false,
    'message' => 'Vous pourrez voter à nouveau dans ' . (int) ceil($left / 60) . ' minutes',
    'next_vote_at' => gmdate('Y-m-d\TH:i:s\Z', (int) $expiry),
    'cooldown_minutes' => COOLDOWN_MINUTES,
]);
