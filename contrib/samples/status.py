import json, os, sys, urllib.error, urllib.request

BASE = os.environ.get("VOTE_STATUS_URL", "http://localhost:8080")


def vote_status(url):
    """The answer's fields, or an exception: a fault is never a vote."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            body = response.read()
    except urllib.error.HTTPError as fault:
        body = fault.read()  # the body tells what is wrong
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or not isinstance(answer.get("can_vote"), bool):
        raise ValueError("Réponse invalide")
    if "error" in answer:
        raise ValueError(answer["message"])
    return answer


def main(by="id", server="28", ip="203.0.113.7"):
    path = f"/api/vote/{server}/status/{ip}" if by == "id" else f"/api/servers/{server}/vote-status/{ip}"
    answer = vote_status(BASE + path)
    print(answer["message"])
    return 0 if answer["can_vote"] else 1  # 1: has voted, the reward is due


try:
    sys.exit(main(*sys.argv[1:]))
except (ValueError, OSError) as fault:
    print(fault, file=sys.stderr)
    sys.exit(2)
