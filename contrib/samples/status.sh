base=${VOTE_STATUS_URL:-http://localhost:8080}
ip=${1:-203.0.113.7}

# By server id
curl -sS -m 5 -w '\n' "$base/api/vote/${ID:-28}/status/$ip"

# By API token
curl -sS -m 5 -w '\n' "$base/api/servers/${TOKEN:-demo}/vote-status/$ip"
