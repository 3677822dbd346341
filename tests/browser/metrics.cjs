// A service's figures as they would be scraped, for a plot whose every value is known. Owns the names
// that the operator's page reads; the service has the same in its own list.
"use strict";

/**
 * The text of one scrape, `seconds` after the start: every second 500 + 500 times "can vote", 50 "in cooldown",
 * 4 refused, 20 votes, 10 commits.
 */
function scrape(seconds, startedAt) {
  const [canVote, inCooldown, refused, votes, commits] = [500, 50, 4, 20, 10].map((each) => each * seconds);
  const bucket = (le) => `vote_status_commit_duration_seconds_bucket{le="${le}"}`;
  return [
    "# HELP vote_status_requests_total Status requests.",
    "# TYPE vote_status_requests_total counter",
    `vote_status_requests_total{variant="id",outcome="can_vote"} ${canVote}`,
    `vote_status_requests_total{variant="token",outcome="can_vote"} ${canVote}`,
    `vote_status_requests_total{variant="id",outcome="in_cooldown"} ${inCooldown}`,
    `vote_status_requests_total{variant="id",outcome="refused"} ${refused}`,
    `vote_status_responses_total{listener="public",status="200"} ${2 * canVote + inCooldown}`,
    `vote_status_responses_total{listener="public",status="404"} ${refused}`,
    `vote_status_responses_total{listener="control",status="404"} 1000000`,
    `vote_status_responses_total{listener="public",status="503"} ${Math.floor(seconds / 100)}`,
    `vote_status_parse_errors_total{listener="public",kind="host"} ${Math.floor(seconds / 20)}`,
    `vote_status_votes_total{outcome="recorded"} ${votes}`,
    `vote_status_votes_total{outcome="in_cooldown"} ${Math.floor(votes / 10)}`,
    `vote_status_cooldowns ${108_000 + votes}`,
    "vote_status_servers 1234",
    'vote_status_connections_open{listener="public"} 640',
    'vote_status_connections_open{listener="control"} 3',
    "# TYPE vote_status_commit_duration_seconds histogram",
    // Half of the commits take up to 1 ms, the other half up to 2 ms.
    `${bucket("0.001")} ${commits / 2}`,
    `${bucket("0.002")} ${commits}`,
    `${bucket("+Inf")} ${commits}`,
    `vote_status_commit_duration_seconds_count ${commits}`,
    "# TYPE vote_status_lateness_seconds histogram",
    `vote_status_lateness_seconds_bucket{le="0.0001"} ${seconds}`,
    `vote_status_lateness_seconds_bucket{le="+Inf"} ${seconds}`,
    "vote_status_store_bytes 1572864",
    "process_resident_memory_bytes 52428800",
    "process_open_fds 77",
    `process_cpu_seconds_total ${(seconds / 4).toFixed(2)}`,
    `process_start_time_seconds ${startedAt}`,
    'vote_status_build_info{version="9.8.7"} 1',
    "",
  ].join("\n");
}

module.exports = { scrape };
