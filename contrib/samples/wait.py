import datetime, http.client, ipaddress, json, os, sqlite3, sys, time, urllib.error, urllib.parse, urllib.request

BASE = os.environ.get("VOTE_STATUS_URL", "http://localhost:8080")
WAIT = int(os.environ.get("VOTE_STATUS_WAIT", "25"))
SECONDS = int(os.environ.get("VOTE_STATUS_SECONDS", "600"))  # of play
LEDGER = sqlite3.connect(os.environ.get("VOTE_STATUS_PAID", "paid.db"))
LEDGER.execute("""CREATE TABLE IF NOT EXISTS paid (server, player, address, next_vote_at,
    UNIQUE (server, player, next_vote_at), UNIQUE (server, address, next_vote_at))""")


class Refused(Exception):
    pass  # asking again does not help


def ask(url):
    """The answer's fields, or an exception: a fault is never a vote."""
    try:
        with urllib.request.urlopen(f"{url}?wait={WAIT}", timeout=WAIT + 10) as response:
            status, body = response.status, response.read()
    except urllib.error.HTTPError as fault:
        status, body = fault.code, fault.read()
    try:
        answer = dict(json.loads(body))
    except (TypeError, ValueError):
        answer = {}
    has_voted = answer.get("can_vote") is False and isinstance(answer.get("next_vote_at"), str)
    if "error" not in answer and (has_voted or answer.get("can_vote") is True):
        return answer
    message = answer.get("message", f"Réponse invalide ({status})")
    raise Refused(message) if 400 <= status < 500 and status not in (408, 429) else OSError(message)


def pay_once(server, ip, player, next_vote_at):
    """One INSERT into a table with two unique keys."""
    key = ip if "." in ip else str(ipaddress.ip_network(f"{ip}/64", strict=False))  # for IPv6, the network
    with LEDGER:
        row = (server, player, key, next_vote_at)
        if LEDGER.execute("INSERT OR IGNORE INTO paid VALUES (?, ?, ?, ?)", row).rowcount == 1:
            print("pay", server, player, ip, next_vote_at, flush=True)


def main(server="28", ip="203.0.113.7", player="Alex"):
    url = f"{BASE}/api/vote/{server}/status/{urllib.parse.quote(ip, safe='')}"
    pause, said, exit_status = 5, "", 1
    end = time.monotonic() + SECONDS
    while (asked := time.monotonic()) < end:
        try:
            answer = ask(url)
        except (Refused, OSError, http.client.HTTPException) as fault:
            if str(fault) != said:
                print(said := str(fault), file=sys.stderr)
            if isinstance(fault, Refused):
                return 2
            time.sleep(pause)
            pause = min(2 * pause, 60)
            continue
        pause, said = 5, ""
        if not answer["can_vote"]:
            exit_status = 0
            pay_once(server, ip, player, answer["next_vote_at"])
            next_vote = datetime.datetime.fromisoformat(answer["next_vote_at"].replace("Z", "+00:00"))
            time.sleep(max(5, min(next_vote.timestamp() - time.time(), end - time.monotonic())))
        elif time.monotonic() - asked < WAIT:
            time.sleep(5)  # sooner than asked for
    return exit_status


sys.exit(main(*sys.argv[1:]))
