<?php
// A vote reported by Laravel's own client, without the outbox: a vote that the service does not answer may be lost.
// 404, 409 and 422 are answers; only 429, 503 and a lost connection are asked again, with the same time.

use GuzzleHttp\Exception\TransferException;
use Illuminate\Http\Client\ConnectionException;
use Illuminate\Http\Client\Response;
use Illuminate\Support\Facades\Http;

/** The service's answer, within 5 s. Null if the service is away: report the vote again, with the same time. */
function reportVote(int $serverId, string $ip, int $votedAt): ?Response
{
    for ($try = 1; $try <= 2; $try++) {
        try {
            $response = Http::withToken(config('services.vote_status.key'))
                ->withOptions(['connect_timeout' => 1, 'allow_redirects' => false])
                ->timeout(2)
                ->post(config('services.vote_status.url') . '/v1/votes', [
                    'server_id' => $serverId, 'ip' => $ip, 'voted_at' => $votedAt,
                ]);
            if (!in_array($response->status(), [429, 503], true)) {
                return $response;
            }
        } catch (ConnectionException | TransferException) {
            // The service is away, or the connection broke: the vote may be recorded or not.
        }
        usleep(300_000);
    }
    return null;
}
