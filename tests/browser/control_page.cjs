// What the operator's page shows and how it is used. Owns the expected texts.
"use strict";
const assert = require("node:assert/strict");
const {
  DESK, PHONE, SETTINGS, isAccessible, tabTo, typeInto, sees,
} = require("./harness.cjs");
const { scrape } = require("./metrics.cjs");

const POLL_SECONDS = 2;
const ANSWER_MS_MAX = 10_000;
const PLOTS = [
  "Status requests a second", "Errors a second", "Live cooldowns", "Open connections", "Votes a second",
  "Commit latency, milliseconds",
];

/** Figures of a made-up service, one poll further each time they are asked for. */
const figures = (state = {}) => async (page) => {
  state.polls = 0;
  await page.route("**/metrics", (route) => {
    if (state.fails) return route.abort("connectionrefused");
    const seconds = POLL_SECONDS * state.polls++;
    return route.fulfill({ body: scrape(seconds, Math.floor(Date.now() / 1000) - 7384), contentType: "text/plain" });
  });
};

/** The browser's clock in our hands: the page polls as often as we let it. */
const withClock = (state) => async (page) => {
  const start = Date.now();
  await page.clock.install({ time: start });
  await page.clock.pauseAt(start + 1000);
  await figures(state)(page);
};

/** Goes on by so many polls, each seen through to its point in the lines. */
async function letPoll(page, polls) {
  const newest = () => page.evaluate("points.at(-1)?.time ?? 0");
  for (let done = 0; done < polls; done += 1) {
    const before = await newest();
    const deadline = Date.now() + ANSWER_MS_MAX;
    if (before > 0) await page.clock.runFor(1000 * POLL_SECONDS);
    while ((await newest()) === before) assert.ok(Date.now() < deadline, "the page does not poll");
  }
}

const legend = (page, title) => page.locator("figure", { hasText: title }).locator(".legend").innerText();

async function loads(page) {
  await sees(page, "h1", /^vote-status/);
  assert.deepEqual(await page.locator("figure h3").allInnerTexts(), PLOTS);
  assert.equal(await page.locator("#work").isVisible(), false);
  assert.equal(await page.locator("#key-form").isVisible(), true);
}

/** What is shown of figures that are known, down to the number. */
const plots = async (page) => {
  await letPoll(page, 10);
  await sees(page, "#version", "9.8.7");
  await sees(page, "#health", "● live");
  const expected = {
    "Status requests a second": "can vote\n1k\nin cooldown\n50\nrefused\n4",
    "Live cooldowns": "cooldowns\n108k",
    "Open connections": "public\n640\ncontrol\n3",
    "Votes a second": "recorded\n20\nnot recorded\n2",
    "Commit latency, milliseconds": "median\n1\n99 %\n1.98",
  };
  for (const [title, text] of Object.entries(expected)) assert.equal(await legend(page, title), text, title);
  assert.match(await legend(page, "Errors a second"), /^4xx\n4\n5xx\n0\nmalformed\n/);
  const tiles = await page.locator("#tiles").innerText();
  for (const tile of ["Up\n2:03:", "Servers\n1.23k", "CPU time\n25 %", "Memory\n50 MiB", "Descriptors\n77", "Store\n1.5 MiB"]) {
    assert.ok(tiles.includes(tile), `${tile} is missing in ${tiles}`);
  }
};

/** The lines move, keep 15 minutes, and a pointer reads them. */
async function history(page) {
  await letPoll(page, 460);
  const path = page.locator("figure", { hasText: PLOTS[2] }).locator(".area path").first();
  const points = (await path.getAttribute("d")).split(/[ML]/).length - 1;
  assert.ok(points === 450, `${points} points are drawn`);
  const before = await path.getAttribute("d");
  await letPoll(page, 2);
  assert.notEqual(await path.getAttribute("d"), before);
  await page.clock.resume();
  await isAccessible(page);
  const newest = await legend(page, PLOTS[2]);
  await tabTo(page, ".area");
  for (let steps = 0; steps < 10; steps += 1) await page.keyboard.press("PageUp");
  await sees(page, "#when", /^– at \d\d:\d\d:\d\d$/);
  assert.notEqual(await legend(page, PLOTS[2]), newest);
  await page.keyboard.press("Escape");
  await sees(page, "#when", "");
}

/** What /readyz says in place of the service. */
const stands = (status, body) => async (page) => {
  await withClock()(page);
  await page.route("**/readyz", (route) => route.fulfill({ status, json: body }));
};

/** The page is red and says why, and is never live meanwhile. */
const troubled = (health, texts) => async (page) => {
  await letPoll(page, 2);
  await sees(page, "#health", health);
  assert.equal(await page.locator("#health").getAttribute("data-state"), "bad");
  for (const [id, text] of Object.entries(texts)) await sees(page, `#trouble-${id}`, text);
  const red = await page.locator("#trouble").evaluate((banner) => getComputedStyle(banner).backgroundColor);
  const [, r, g, b] = /(\d+), (\d+), (\d+)/.exec(red).map(Number);
  assert.ok(r > g + 80 && r > b + 80, `${red} is no red`);
  await page.clock.resume();
  await isAccessible(page);
};

/** What was in the way has gone. */
async function recovers(page) {
  await letPoll(page, 2);
  await sees(page, "#health", "✕ votes are refused");
  await page.unroute("**/readyz");
  await letPoll(page, 1);
  await sees(page, "#health", "● live");
  assert.equal(await page.locator("#trouble").isVisible(), false);
}

/** A 429 is for later, of the service and of a proxy: nothing of it is final, and no key is taken on trust. */
async function tooMany(page) {
  const answer = { status: 429, json: { error: "too_many_changes", message: "x" } };
  await page.route("**/v1/servers?limit=1", (route) => route.fulfill({ status: 429, body: "<html></html>" }));
  await typeInto(page, "#key", SETTINGS.controlKey);
  await page.keyboard.press("Enter");
  await sees(page, "#key-note", "Try again later: Nothing was changed.");
  assert.equal(await page.evaluate(() => sessionStorage.getItem("control-key")), null);
  await page.unroute("**/v1/servers?limit=1");
  await enter(page);
  await page.route("**/v1/votes", (route) => route.fulfill(answer));
  await page.locator("#server").fill("28");
  await page.locator("#ip").fill("203.0.113.86");
  await page.locator("[value=record]").click();
  await sees(page, "#verdict", "Try again later");
  await sees(page, "#explanation", "Nothing was changed.");
  await page.route("**/v1/servers/77", (route) => route.fulfill({ status: 429, body: "" }));
  await page.locator("#new-server").fill("77");
  await page.locator("#add button").click();
  await sees(page, "#servers-note", "Try again later: Nothing was changed.");
  let asked = 0;
  await page.route("**/v1/watch?*", (route) => ((asked += 1) === 1 ? route.fulfill(answer) : route.continue()));
  await page.locator("#watch-start").click();
  await sees(page, "#watch-state", "✕ Try again later: Nothing was changed.; trying again");
  await sees(page, "#watch-state", "● watching");
}

/** On a phone the work comes first: the key form is on the first screen, and the watch pane is above the plots. */
async function phoneOrder(page) {
  const top = async (selector) => (await page.locator(selector).first().boundingBox()).y;
  const form = await page.locator("#key-form").boundingBox();
  assert.ok(form.y + form.height <= PHONE.height, `the key form ends at ${form.y + form.height}`);
  assert.ok((await top("#watch-title")) < (await top("figure")));
  await enter(page);
  assert.ok((await top("#work")) < (await top("#watch")) && (await top("#watch")) < (await top("figure")));
}

/** A service that has gone is told, and that it is back. */
const silence = (state) => async (page) => {
  await letPoll(page, 3);
  state.fails = true;
  await page.clock.runFor(1000 * POLL_SECONDS);
  await sees(page, "#health", /^✕ no answer since \d\d:\d\d:\d\d$/);
  state.fails = false;
  await page.clock.runFor(1000 * POLL_SECONDS);
  await sees(page, "#health", "● live");
};

async function enter(page) {
  await typeInto(page, "#key", SETTINGS.controlKey);
  await page.keyboard.press("Enter");
  await page.locator("#work").waitFor();
}

/** A wrong key opens nothing and is kept nowhere; the right one is kept in the tab until it is forgotten. */
async function keys(page) {
  await typeInto(page, "#key", "wrong");
  await page.keyboard.press("Enter");
  await sees(page, "#key-note", "This key is not accepted.");
  assert.equal(await page.locator("#work").isVisible(), false);
  assert.equal(await page.evaluate(() => sessionStorage.length + localStorage.length), 0);
  await enter(page);
  await page.reload();
  await page.locator("#work").waitFor();
  assert.equal(await page.evaluate(() => localStorage.length), 0);
  assert.equal((await page.content()).includes(SETTINGS.controlKey), false);
  await page.locator("#forget").click();
  await page.locator("#key-form").waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.getItem("control-key")), null);
}

/** From the first look to the cancelled vote, by the keyboard alone. */
const votes = (ip) => async (page) => {
  const press = async (action) => {
    await tabTo(page, `[value=${action}]`);
    await page.keyboard.press("Enter");
  };
  await enter(page);
  await typeInto(page, "#server", "28");
  await page.keyboard.press("Enter");
  await sees(page, "#verdict", "Server 28 is listed");
  await typeInto(page, "#ip", ip);
  await page.keyboard.press("Enter");
  await sees(page, "#verdict", `${ip} may vote for server 28`);
  await press("record");
  await sees(page, "#verdict", `Vote of ${ip} for server 28 recorded`);
  const first = await sees(page, "#countdown", /^1:(29:5\d|30:00)$/);
  await page.waitForFunction((text) => document.querySelector("#countdown").textContent !== text, first);
  await press("record");
  await sees(page, "#verdict", "This address has voted already");
  await press("lookUp");
  await sees(page, "#verdict", `${ip} is in cooldown for server 28`);
  await isAccessible(page);
  page.once("dialog", (dialog) => dialog.dismiss());
  await press("cancel");
  await sees(page, "#verdict", `${ip} is in cooldown for server 28`);
  page.once("dialog", (dialog) => dialog.accept());
  await press("cancel");
  await sees(page, "#verdict", `The vote of ${ip} for server 28 is cancelled`);
  await press("lookUp");
  await sees(page, "#verdict", `${ip} may vote for server 28`);
  await page.locator("#token summary").click();
  await sees(page, "#token-text", "demo");
};

async function refusals(page) {
  await enter(page);
  await typeInto(page, "#server", "29");
  await page.keyboard.press("Enter");
  await sees(page, "#verdict", "No such server");
  await page.locator("[value=record]").click();
  await sees(page, "#verdict", "An address is needed");
  await typeInto(page, "#ip", "203.0.113");
  await page.locator("[value=record]").click();
  await sees(page, "#raw", /ip must be an IPv4 or IPv6 address/);
  await typeInto(page, "#server", "28");
  await page.keyboard.press("Enter");
  await sees(page, "#verdict", "This vote cannot be taken: is the address right?");
  await sees(page, "#raw", /"error": "invalid_vote"/);
}

/** Servers are listed, added and given another token; one that is there keeps its own unless that is asked for. */
const servers = (id) => async (page) => {
  await enter(page);
  const row = (number) => page.locator("#list tr", { has: page.locator(`th:text-is("${number}")`) });
  await row(28).waitFor();
  await typeInto(page, "#new-server", "28");
  await typeInto(page, "#new-token", "another");
  await page.keyboard.press("Enter");
  await sees(page, "#servers-note", "Server 28 is listed already, and keeps its token");
  await row(28).locator("summary").click();
  assert.equal(await row(28).locator("code").innerText(), "demo");
  await typeInto(page, "#new-server", id);
  await typeInto(page, "#new-token", "no token");
  await page.keyboard.press("Enter");
  await sees(page, "#servers-note", "A token has 1 to 128 letters, digits or - . _ ~ + =");
  await typeInto(page, "#new-token", "");
  await page.keyboard.press("Enter");
  await sees(page, "#servers-note", new RegExp(`^Server ${id} is added\\s+\\w{32}$`));
  await row(id).locator("summary").click();
  const made = await row(id).locator("code").innerText();
  page.once("dialog", (dialog) => dialog.dismiss());
  await row(id).locator("button").click();
  assert.equal(await row(id).locator("code").innerText(), made);
  page.once("dialog", (dialog) => dialog.accept());
  await row(id).locator("button").click();
  await sees(page, "#servers-note", new RegExp(`^Server ${id} has a new token: give it to its plugin\\s+\\w{32}$`));
  const rotated = await row(id).locator("code").innerText();
  assert.notEqual(rotated, made);
  const status = async (token) => (await fetch(`${SETTINGS.publicUrl}/api/servers/${token}/vote-status/203.0.113.7`)).status;
  assert.deepEqual([await status(made), await status(rotated)], [404, 200]);
  await isAccessible(page);
  await page.locator("#forget").click();
  assert.equal((await page.content()).includes(rotated), false);
};

/** More servers than a page of the list holds. */
async function manyServers(page) {
  const lines = Array.from({ length: 120 }, (_, index) => JSON.stringify({ server_id: 1000 + index, token: `many-${index}` }));
  const headers = { Authorization: `Bearer ${SETTINGS.controlKey}` };
  await fetch(`${SETTINGS.controlUrl}/v1/servers/batch`, { method: "POST", headers, body: lines.join("\n") });
  await enter(page);
  const rows = page.locator("#list tr");
  await rows.nth(49).waitFor();
  assert.equal(await rows.count(), 50);
  while (await page.locator("#more").isVisible()) {
    const before = await rows.count();
    await page.locator("#more").click();
    await page.waitForFunction((count) => document.querySelectorAll("#list tr").length > count || document.querySelector("#more").hidden, before);
  }
  await page.locator('#list th:text-is("1119")').waitFor();
  const numbers = await page.locator("#list th").allInnerTexts();
  assert.equal(new Set(numbers).size, numbers.length);
}

/** In a French browser nothing of the page's own is left in English, whatever the language of its menus. */
const french = (ip) => async (page) => {
  const asked = (path) => fetch(`${SETTINGS.publicUrl}${path}`);
  await letPoll(page, 10);
  assert.equal(await page.locator("html").getAttribute("lang"), "fr");
  await sees(page, "#health", "● en direct");
  await sees(page, "#key-form button", "Utiliser cette clé");
  await page.clock.resume();
  await enter(page);
  await typeInto(page, "#server", "28");
  await typeInto(page, "#ip", ip);
  await page.locator("[value=record]").click();
  await sees(page, "#verdict", `Vote de ${ip} pour le serveur 28 enregistré`);
  await sees(page, "#explanation", /^Prochain vote le \d+ \S+ 20\d\d à \d\d:\d\d:\d\d\.$/);
  await page.locator("#watch-start").click();
  await sees(page, "#watch-state", "● en direct");
  await asked("/api/servers/forgotten/vote-status/203.0.113.91");
  await asked(`/api/vote/28/status/${ip}`);
  for (const word of ["token inconnu", "a voté"]) {
    const row = page.locator("#lines tbody tr", { hasText: word }).first();
    await row.waitFor();
    assert.match(await row.innerText(), new RegExp(`^\\d\\d:\\d\\d:\\d\\d\\t.*\\t${word}\\t`));
  }
  const tiles = (await page.locator("#tiles").innerText()).replace(/\s/g, " ");
  for (const tile of ["Serveurs 1,23 k", "Mémoire 50 Mio", "Stockage 1,5 Mio", "Retard des boucles, 99 % 99 µs"]) {
    assert.ok(tiles.includes(tile), `${tile} is missing in ${tiles}`);
  }
  await tabTo(page, ".area");
  await page.keyboard.press("PageUp");
  await sees(page, "#when", /^– à \d\d:\d\d:\d\d$/);
  for (const [action, verdict] of [["record", "Cette adresse a déjà voté"], ["lookUp", `${ip} a voté pour le serveur 28`]]) {
    await page.locator(`[value=${action}]`).click();
    await sees(page, "#verdict", verdict);
  }
  await page.locator("#server").fill("29");
  await page.locator("[value=lookUp]").click();
  await sees(page, "#verdict", "Ce serveur n’est pas listé");
  /* What came back is the service's own, in English. */
  await page.locator("#raw").evaluate((raw) => (raw.textContent = ""));
  const english = /\b(the|is|of|votes? a|server|look|more|waiting|now|latency|open|errors|unknown|AM|PM)\b|MiB|KiB/i;
  const text = await page.locator("body").innerText();
  assert.equal(english.exec(text.replace(/vote-status/, ""))?.[0], undefined, text);
  await isAccessible(page);
};

/** Lines come as it happens, by the filter that was set, until they are stopped; nothing of them is secret. */
const watches = (ip) => async (page) => {
  const ask = (path) => fetch(`${SETTINGS.publicUrl}${path}`);
  const rows = () => page.locator("#lines tbody tr").allInnerTexts();
  const comes = (text) => page.locator("#lines tbody tr", { hasText: text }).first().waitFor();
  assert.equal(await page.locator("#watch").isVisible(), false);
  await enter(page);
  await typeInto(page, "#watch-server", "28");
  await page.keyboard.press("Enter");
  await sees(page, "#watch-state", "● watching");
  await ask("/api/vote/29/status/203.0.113.91");
  await ask("/api/servers/demo/vote-status/203.0.113.91");
  await comes("can vote");
  assert.equal((await rows()).length, 1);
  assert.match((await rows())[0], /^\d\d:\d\d:\d\d\t28\t203\.0\.113\.91\tcan vote\t127\.0\.0\.1:\d+$/);
  const headers = { Authorization: `Bearer ${SETTINGS.controlKey}` };
  const body = JSON.stringify({ server_id: 28, ip: ip });
  assert.equal((await fetch(`${SETTINGS.controlUrl}/v1/votes`, { method: "POST", headers, body })).status, 201);
  await comes("vote");
  await ask(`/api/vote/28/status/${ip}`);
  await comes("in cooldown");
  /* The same vote again: it is not recorded, and the line says why. */
  assert.equal((await fetch(`${SETTINGS.controlUrl}/v1/votes`, { method: "POST", headers, body })).status, 409);
  await comes("vote not recorded: in cooldown, since ");
  await isAccessible(page);
  await page.locator("#watch-stop").click();
  await sees(page, "#watch-state", "Stopped.");
  await page.locator("#watch-server").fill("");
  await page.locator("#watch-unknown").check();
  await page.locator("#watch-start").click();
  await sees(page, "#watch-state", "● watching");
  assert.deepEqual(await rows(), []);
  await ask("/api/vote/28/status/203.0.113.91");
  await ask("/api/servers/forgotten/vote-status/203.0.113.91");
  await comes("unknown token");
  assert.equal((await rows()).length, 1);
  assert.match((await rows())[0], /\tforg…\t203\.0\.113\.91\t/);
  await page.locator("#watch-ip").fill("x");
  await page.locator("#watch-start").click();
  await sees(page, "#watch-state", "This cannot be asked: are number and address right?");
  await page.locator("#watch-ip").fill("");
  await page.locator("#watch-start").click();
  await sees(page, "#watch-state", "● watching");
  await page.locator("#forget").click();
  await sees(page, "#watch-state", "Stopped.");
};

/** The service's own figures, without a made-up one. */
async function realFigures(page) {
  await sees(page, "#health", "● live");
  assert.equal((await fetch(`${SETTINGS.controlUrl}/metrics`)).status, 200);
  await sees(page, "#version", /^\d+\.\d+\.\d+/);
  for (let asked = 0; asked < 20; asked += 1) await fetch(`${SETTINGS.publicUrl}/api/vote/28/status/203.0.113.7`);
  await page.waitForFunction(() => Number(document.querySelector("figure .legend b").textContent) > 0);
  assert.match(await legend(page, "Live cooldowns"), /^cooldowns\n[1-9]/);
  assert.match(await legend(page, "Open connections"), /^public\n\d+\ncontrol\n[1-9]/);
  const tiles = await page.locator("#tiles div:visible").allInnerTexts();
  for (const name of ["Servers", "Cooldowns", "CPU time", "Memory", "Descriptors", "Store"]) {
    assert.ok(tiles.some((tile) => tile.startsWith(`${name}\n`)), `${name} is not told`);
  }
  assert.deepEqual(tiles.filter((tile) => /(–|NaN|undefined)$/.test(tile)), []);
}

/** The first language of the list is French, and the browser itself is English. */
const frenchList = (before) => async (page) => {
  await page.addInitScript(() => Object.defineProperty(navigator, "languages", { value: ["fr-FR", "fr", "en-US"] }));
  await before(page);
};

const REFUSED = { ready: true, votes: false, reason: "store_failing", message: "no room on the disk: make room" };
const silent = {};
const before = figures();
const CHECKS = [
  { name: "loads", run: loads, before },
  { name: "plots", run: plots, before: withClock() },
  { name: "silence", run: silence(silent), before: withClock(silent), expected: ["CONNECTION_REFUSED"] },
  { name: "keys", run: keys, before, expected: ["status of 401"] },
  { name: "refusals", run: refusals, before,
    expected: ["404", "422"] },
  { name: "history, 1280-light", run: history, before: withClock() },
  { name: "history, 360-dark", run: history, before: withClock(), viewport: PHONE, scheme: "dark" },
  { name: "the service's own figures", run: realFigures },
  { name: "watches, 1280-light", run: watches("203.0.113.90"), before, viewport: DESK, expected: ["400"] },
  { name: "watches, 360-dark", run: watches("203.0.113.88"), before, viewport: PHONE, scheme: "dark", expected: ["400"] },
  { name: "votes, 1280-light", run: votes("203.0.113.81"), before, viewport: DESK, expected: ["404", "409"] },
  { name: "servers, 1280-light", run: servers("501"), before, viewport: DESK, expected: ["404", "422"] },
  { name: "servers, 360-dark", run: servers("502"), before, viewport: PHONE, scheme: "dark", expected: ["404", "422"] },
  { name: "French", run: french("203.0.113.84"), before: withClock(), locale: "fr-FR", expected: ["404", "409"] },
  { name: "French in an English browser", run: french("203.0.113.85"), before: frenchList(withClock()), locale: "en-US", expected: ["404", "409"] },
  { name: "not ready", before: stands(503, { ready: false, votes: false, reason: "loading", message: "wait until that is done" }),
    run: troubled("✕ not ready", { title: "The service is not ready.", reason: "The state is being loaded.", message: "wait until that is done" }),
    expected: ["503"] },
  { name: "stopping", before: stands(503, { ready: false, reason: "stopping" }), expected: ["503"], scheme: "dark",
    run: troubled("✕ not ready", { title: "The service is not ready.", reason: "The service is stopping." }) },
  { name: "votes refused", before: stands(200, REFUSED), viewport: PHONE,
    run: troubled("✕ votes are refused", {
      title: "Votes are refused. Status requests are answered.", reason: "The store takes no changes, as on a full disk.", message: REFUSED.message }) },
  { name: "store gone", before: stands(200, { ...REFUSED, reason: "store_gone" }),
    run: troubled("✕ votes are refused", { reason: "The store’s file is no longer at its path.", message: REFUSED.message }) },
  { name: "votes refused, French", before: stands(200, { ...REFUSED, reason: "no_replicas" }), locale: "fr-FR",
    run: troubled("✕ votes refusés", {
      title: "Les votes sont refusés. Les demandes de statut ont leur réponse.",
      reason: "Le stockage partagé ne fait pas ce qui lui est demandé : no_replicas.", message: REFUSED.message }) },
  { name: "recovers", run: recovers, before: stands(200, REFUSED) },
  { name: "too many", run: tooMany, before, expected: ["429"] },
  { name: "the order on a phone", run: phoneOrder, before, viewport: PHONE },
  { name: "votes, 360-dark", run: votes("203.0.113.82"), before, viewport: PHONE, scheme: "dark", expected: ["404", "409"] },
  // The last: it leaves servers behind.
  { name: "many servers", run: manyServers, before },
];

module.exports = { CHECKS };
