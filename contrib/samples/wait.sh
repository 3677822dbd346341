base=${VOTE_STATUS_URL:-http://localhost:8080} paid=${VOTE_STATUS_PAID:-paid.txt}
wait=${VOTE_STATUS_WAIT:-25} server=${1:-28} ip=${2:-203.0.113.7}
pause=5 left=$(($(date +%s) + 600)) # the player has ten minutes

while asked=$(date +%s) && [ "$asked" -lt "$left" ]; do
  answer=$(curl -sSf -m $((wait + 10)) "$base/api/vote/$server/status/$ip?wait=$wait")
  case $answer in
    '{'*'"error"'*) fault=yes ;;
    '{'*'"can_vote":true'*) fault=no ;;
    '{'*'"can_vote":false'*'"next_vote_at":"'*)
      vote="$server $ip $(expr "$answer" : '.*"next_vote_at":"\([^"]*\)"')"
      grep -qxF "$vote" "$paid" 2>/dev/null && exit 0 # was paid before
      echo "$vote" >>"$paid" && echo "pay $vote"
      exit ;;
    *) fault=yes ;; # a fault is never a vote
  esac
  if [ $fault = yes ]; then
    sleep $pause
    pause=$((pause < 30 ? 2 * pause : 60))
  else
    pause=5
    [ $(($(date +%s) - asked)) -ge "$wait" ] || sleep 5 # told sooner than asked for
  fi
done
exit 1
