base=${VOTE_STATUS_URL:-http://localhost:8080} paid=${VOTE_STATUS_PAID:-paid.txt}
wait=${VOTE_STATUS_WAIT:-25} server=${1:-28} ip=${2:-203.0.113.7} player=${3:-Alex}
path=$(echo "$ip" | sed 's/%/%25/g')
# The first 64 bits of an IPv6 address are one voter's.
voter=$(echo "$ip" | tr A-F a-f | awk -F :: '{ sub(/^::ffff:/, "") } !/:/ { print; exit }
  { before = split($1, head, ":"); after = split($2, tail, ":") + ($2 ~ /\./)
    for (i = 1; i <= 4; i++) {
      group = i <= before ? head[i] : tail[after - 8 + i]
      sub(/^0+/, "", group); printf "%s:", group
    } }')
pause=5 said='' status=1
end=$(($(date +%s) + ${VOTE_STATUS_SECONDS:-600})) # of play

# The first line with this vote and this player, or this vote and this address, pays.
# In a plugin: one INSERT into a table with two unique keys.
pay_once() {
  mine="$server|$1|$player|$voter|$$|$(date +%s%N)"
  echo "$mine" >>"$paid"
  first=$(awk -F '|' -v mine="$mine" 'BEGIN { split(mine, my) }
    $1 == my[1] && $2 == my[2] && ($3 == my[3] || $4 == my[4]) { print; exit }' "$paid")
  [ "$first" != "$mine" ] || echo "pay $server $player $ip $1"
}

while now=$(date +%s) && [ "$now" -lt "$end" ]; do
  answer=$(curl -sS -m $((wait + 10)) -w ' %{http_code}' "$base/api/vote/$server/status/$path?wait=$wait" 2>&1)
  case $answer in
    '{'*'"error"'*) fault=yes ;;
    '{'*'"can_vote":true'*) fault=no ;;
    '{'*'"can_vote":false'*'"next_vote_at":"'*)
      fault=no said='' status=0
      next=$(expr "$answer" : '.*"next_vote_at":"\([^"]*\)"')
      pay_once "$next"
      next=$(date -d "$next" +%s) now=$(date +%s)
      next=$((next < end ? next - now : end - now))
      sleep $((next > 5 ? next : 5))
      continue ;;
    *) fault=yes ;; # a fault is never a vote
  esac
  if [ $fault = yes ]; then
    [ "$answer" = "$said" ] || echo "$answer" >&2
    said=$answer
    case $answer in *' 408' | *' 429') ;; *' 4'??) exit 2 ;; esac
    sleep $pause
    pause=$((pause < 30 ? 2 * pause : 60))
  else
    pause=5 said=''
    [ $(($(date +%s) - now)) -ge "$wait" ] || sleep 5 # sooner than asked for
  fi
done
exit $status
