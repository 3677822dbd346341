const fs = require("node:fs");
const base = process.env.VOTE_STATUS_URL || "http://localhost:8080";
const paid = process.env.VOTE_STATUS_PAID || "paid.txt";
const wait = Number(process.env.VOTE_STATUS_WAIT || 25);
const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

// The answer's fields, or null: a fault is never a vote.
async function ask(url) {
  try {
    const signal = AbortSignal.timeout(1000 * (wait + 10));
    const answer = await (await fetch(`${url}?wait=${wait}`, { signal, redirect: "error" })).json();
    const isAnswer = answer?.can_vote === true || (answer?.can_vote === false && answer.next_vote_at);
    return isAnswer && !answer.error ? answer : null;
  } catch {
    return null;
  }
}

// Each vote once, also after a restart. In a plugin: a unique key of its database.
function payOnce(vote) {
  if (fs.existsSync(paid) && fs.readFileSync(paid, "utf8").split("\n").includes(vote)) return;
  fs.appendFileSync(paid, `${vote}\n`);
  console.log(`pay ${vote}`);
}

async function main(server = "28", ip = "203.0.113.7") {
  let pause = 5;
  for (const left = Date.now() + 600_000; Date.now() < left; ) { // the player has ten minutes
    const asked = performance.now();
    const answer = await ask(`${base}/api/vote/${server}/status/${ip}`);
    if (answer === null) {
      await sleep(pause);
      pause = Math.min(2 * pause, 60);
      continue;
    }
    if (!answer.can_vote) return payOnce(`${server} ${ip} ${answer.next_vote_at}`);
    pause = 5;
    if (performance.now() - asked < 1000 * wait) await sleep(5); // told sooner than asked for
  }
  process.exitCode = 1;
}

main(...process.argv.slice(2));
