const fs = require("node:fs");
const base = process.env.VOTE_STATUS_URL || "http://localhost:8080";
const paid = process.env.VOTE_STATUS_PAID || "paid.txt";
const wait = Number(process.env.VOTE_STATUS_WAIT || 25);
const seconds = Number(process.env.VOTE_STATUS_SECONDS || 600); // of play
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// The answer's fields, or an exception: a fault is never a vote.
async function ask(url) {
  const signal = AbortSignal.timeout(1000 * (wait + 10));
  const response = await fetch(`${url}?wait=${wait}`, { signal, redirect: "error" });
  const answer = await response.json().catch(() => null);
  const isAnswer = answer?.can_vote === true || (answer?.can_vote === false && answer.next_vote_at);
  if (isAnswer && !answer.error) return answer;
  const { status } = response;
  const isFinal = status >= 400 && status < 500 && status !== 408 && status !== 429; // asking again does not help
  throw Object.assign(new Error(answer?.message ?? `Réponse invalide (${status})`), { isFinal });
}

// For IPv6, the network.
function key(ip) {
  if (ip.includes(".")) return ip.replace("::ffff:", "");
  const [head, tail = []] = ip.split("::").map((half) => half.split(":").filter(Boolean));
  const groups = [...head, ...Array(8 - head.length - tail.length).fill("0"), ...tail];
  return groups.slice(0, 4).map((group) => parseInt(group, 16)).join(":");
}

// The first line with this vote and this player, or this vote and this address, pays.
// In a plugin: one INSERT into a table with two unique keys.
function payOnce(server, ip, player, nextVoteAt) {
  const keys = [`${server} ${nextVoteAt}`, player, key(ip)];
  const mine = [...keys, Date.now(), Math.random()].join("\t");
  fs.appendFileSync(paid, `${mine}\n`);
  const first = fs.readFileSync(paid, "utf8").split("\n").find((line) => {
    const [vote, player, address] = line.split("\t");
    return vote === keys[0] && (player === keys[1] || address === keys[2]);
  });
  if (first === mine) console.log(`pay ${server} ${player} ${ip} ${nextVoteAt}`);
}

async function main(server = "28", ip = "203.0.113.7", player = "Alex") {
  const url = `${base}/api/vote/${server}/status/${encodeURIComponent(ip)}`;
  let [pause, said, status] = [5, "", 1];
  for (let asked, end = Date.now() + 1000 * seconds; (asked = Date.now()) < end; ) {
    try {
      const answer = await ask(url);
      [pause, said] = [5, ""];
      if (!answer.can_vote) {
        status = 0;
        payOnce(server, ip, player, answer.next_vote_at);
        await sleep(Math.max(5000, Math.min(Date.parse(answer.next_vote_at), end) - Date.now()));
      } else if (Date.now() - asked < 1000 * wait) await sleep(5000); // sooner than asked for
    } catch (fault) {
      if (fault.message !== said) console.error((said = fault.message));
      if (fault.isFinal) return 2;
      await sleep(1000 * pause);
      pause = Math.min(2 * pause, 60);
    }
  }
  return status;
}

main(...process.argv.slice(2)).then((status) => (process.exitCode = status));
