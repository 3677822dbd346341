const base = process.env.VOTE_STATUS_URL || "http://localhost:8080";

// The answer's fields, or an exception: a fault is never a vote.
async function voteStatus(url) {
  const response = await fetch(url, { signal: AbortSignal.timeout(5000) });
  const answer = await response.json().catch(() => null);
  if (typeof answer?.can_vote !== "boolean") throw new Error("Réponse invalide");
  if (answer.error) throw new Error(answer.message);
  return answer;
}

async function main(by = "id", server = "28", ip = "203.0.113.7") {
  const path = by === "id" ? `/api/vote/${server}/status/${ip}` : `/api/servers/${server}/vote-status/${ip}`;
  const answer = await voteStatus(base + path);
  console.log(answer.message);
  return answer.can_vote ? 0 : 1; // 1: has voted, the reward is due
}

main(...process.argv.slice(2)).then(
  (status) => (process.exitCode = status),
  (fault) => {
    console.error(fault.message);
    process.exitCode = 2;
  },
);
