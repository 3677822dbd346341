// What the operator's page shows and how it is used. Owns the expected texts.
"use strict";
const assert = require("node:assert/strict");
const {
  DESK, PHONE, SETTINGS, isAccessible, isServedAsWritten, tabTo, typeInto, sees, screenshot,
} = require("./harness.cjs");
const { steady, wavy } = require("./metrics.cjs");

const POLL_SECONDS = 2;
const ANSWER_MS_MAX = 10_000;
const PLOTS = [
  "Status requests a second", "Errors a second", "Live cooldowns", "Open connections", "Votes a second",
  "Commit latency, milliseconds",
];

/** Figures of a made-up service, one poll further each time they are asked for. */
const figures = (sample, state = {}) => async (page) => {
  state.polls = 0;
  await page.route("**/metrics", (route) => {
    if (state.fails) return route.abort("connectionrefused");
    const seconds = POLL_SECONDS * state.polls++;
    return route.fulfill({ body: sample(seconds, Math.floor(Date.now() / 1000) - 7384), contentType: "text/plain" });
  });
};

/** The browser's clock in our hands: the page polls as often as we let it. */
const withClock = (sample, state) => async (page) => {
  const start = Date.now();
  await page.clock.install({ time: start });
  await page.clock.pauseAt(start + 1000);
  await figures(sample, state)(page);
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

async function loads(page, response) {
  await isServedAsWritten("control", response);
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
    "Status requests a second": "can vote\n1K\nin cooldown\n50\nrefused\n4",
    "Live cooldowns": "cooldowns\n108K",
    "Open connections": "public\n640\ncontrol\n3",
    "Votes a second": "recorded\n20\nnot recorded\n2",
    "Commit latency, milliseconds": "median\n1\n99 %\n1.98",
  };
  for (const [title, text] of Object.entries(expected)) assert.equal(await legend(page, title), text, title);
  assert.match(await legend(page, "Errors a second"), /^4xx\n4\n5xx\n0\nmalformed\n/);
  const tiles = await page.locator("#tiles").innerText();
  for (const tile of ["Up\n2:03:", "Servers\n1.23K", "CPU time\n25 %", "Memory\n50 MiB", "Descriptors\n77", "Store\n1.5 MiB"]) {
    assert.ok(tiles.includes(tile), `${tile} is missing in ${tiles}`);
  }
};

/** The lines move, keep 15 minutes, and a pointer reads them. */
const history = (name) => async (page) => {
  await letPoll(page, 460);
  const path = page.locator("figure").first().locator(".area path").first();
  const points = (await path.getAttribute("d")).split(/[ML]/).length - 1;
  assert.ok(points === 450, `${points} points are drawn`);
  const before = await path.getAttribute("d");
  await letPoll(page, 2);
  assert.notEqual(await path.getAttribute("d"), before);
  await page.clock.resume();
  await isAccessible(page);
  await screenshot(page, `control-${name}`);
  const newest = await legend(page, PLOTS[2]);
  await tabTo(page, ".area");
  for (let steps = 0; steps < 10; steps += 1) await page.keyboard.press("PageUp");
  await sees(page, "#when", /^– at \d\d:\d\d:\d\d$/);
  assert.notEqual(await legend(page, PLOTS[2]), newest);
  await screenshot(page, `control-${name}-cursor`, false);
  await page.keyboard.press("Escape");
  await sees(page, "#when", "");
};

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

async function wrongKey(page) {
  await typeInto(page, "#key", "wrong");
  await page.keyboard.press("Enter");
  await sees(page, "#key-note", "This key is not accepted.");
  assert.equal(await page.locator("#work").isVisible(), false);
  assert.equal(await page.evaluate(() => sessionStorage.length + localStorage.length), 0);
}

async function keyIsKept(page) {
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
const votes = (name, ip) => async (page) => {
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
  await sees(page, "#verdict", "in_cooldown");
  await press("lookUp");
  await sees(page, "#verdict", `${ip} is in cooldown for server 28`);
  await isAccessible(page);
  await screenshot(page, `control-${name}-cooldown`);
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
  await sees(page, "#verdict", "unknown_server");
  await page.locator("[value=record]").click();
  await sees(page, "#verdict", "An address is needed");
  await typeInto(page, "#ip", "203.0.113");
  await page.locator("[value=record]").click();
  await sees(page, "#explanation", "ip must be an IPv4 or IPv6 address");
  await typeInto(page, "#server", "28");
  await page.keyboard.press("Enter");
  await sees(page, "#verdict", "invalid_vote");
  await sees(page, "#explanation", "ip must be an IPv4 or IPv6 address");
}

/** Servers are listed, added and given another token; one that is there keeps its own unless that is asked for. */
const servers = (name, id) => async (page) => {
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
  await sees(page, "#servers-note", /^invalid_token: /);
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
  await screenshot(page, `control-${name}-servers`);
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

/** In a French browser nothing of the page's own is left in English. */
async function french(page) {
  await letPoll(page, 3);
  assert.equal(await page.locator("html").getAttribute("lang"), "fr");
  await sees(page, "#health", "● en direct");
  await sees(page, "#key-form button", "Utiliser cette clé");
  await page.clock.resume();
  await enter(page);
  await typeInto(page, "#server", "28");
  await typeInto(page, "#ip", "203.0.113.84");
  await page.locator("[value=record]").click();
  await sees(page, "#verdict", "Vote de 203.0.113.84 pour le serveur 28 enregistré");
  await sees(page, "#explanation", /^Prochain vote à /);
  const english = /\b(the|is|of|votes? a|server|look|more|waiting|now|latency|open|errors)\b/i;
  const text = await page.locator("body").innerText();
  assert.equal(english.exec(text.replace(/vote-status/, ""))?.[0], undefined, text);
  await isAccessible(page);
  await screenshot(page, "control-french");
}

/** Lines come as it happens, by the filter that was set, until they are stopped; nothing of them is secret. */
const watches = (name) => async (page) => {
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
  await comes("can_vote");
  assert.equal((await rows()).length, 1);
  assert.match((await rows())[0], /^\d\d:\d\d:\d\d\t28\t203\.0\.113\.91\tcan_vote\t127\.0\.0\.1:\d+$/);
  const headers = { Authorization: `Bearer ${SETTINGS.controlKey}` };
  const body = JSON.stringify({ server_id: 28, ip: `203.0.113.${80 + name.length}` });
  assert.equal((await fetch(`${SETTINGS.controlUrl}/v1/votes`, { method: "POST", headers, body })).status, 201);
  await comes("vote");
  await ask(`/api/vote/28/status/203.0.113.${80 + name.length}`);
  await comes("in_cooldown");
  await isAccessible(page);
  await screenshot(page, `control-watch-${name}`);
  await page.locator("#watch-stop").click();
  await sees(page, "#watch-state", "Stopped.");
  await page.locator("#watch-server").fill("");
  await page.locator("#watch-unknown").check();
  await page.locator("#watch-start").click();
  await sees(page, "#watch-state", "● watching");
  assert.deepEqual(await rows(), []);
  await ask("/api/vote/28/status/203.0.113.91");
  await ask("/api/servers/forgotten/vote-status/203.0.113.91");
  await comes("unknown_token");
  assert.equal((await rows()).length, 1);
  assert.match((await rows())[0], /\tforg…\t203\.0\.113\.91\t/);
  await page.locator("#watch-ip").fill("x");
  await page.locator("#watch-start").click();
  await sees(page, "#watch-state", "ip must be an IPv4 or IPv6 address");
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
  await screenshot(page, "control-own-figures");
}

const silent = {};
const before = figures(steady);
const CHECKS = [
  { name: "loads", run: loads, before },
  { name: "plots", run: plots, before: withClock(steady) },
  { name: "silence", run: silence(silent), before: withClock(steady, silent), expected: ["CONNECTION_REFUSED"] },
  { name: "wrong key", run: wrongKey, before, expected: ["status of 401"] },
  { name: "the key is kept in the tab", run: keyIsKept, before },
  { name: "refusals", run: refusals, before,
    expected: ["404", "422"] },
  { name: "history, 1280-light", run: history("1280-light"), before: withClock(wavy) },
  { name: "history, 1280-dark", run: history("1280-dark"), before: withClock(wavy), scheme: "dark" },
  { name: "history, 360-light", run: history("360-light"), before: withClock(wavy), viewport: PHONE },
  { name: "the service's own figures", run: realFigures },
  { name: "watches, 1280-light", run: watches("1280-light"), before, viewport: DESK, expected: ["400"] },
  { name: "watches, 360-dark", run: watches("360-dark"), before, viewport: PHONE, scheme: "dark", expected: ["400"] },
  { name: "votes, 1280-light", run: votes("1280-light", "203.0.113.81"), before, viewport: DESK, expected: ["404", "409"] },
  { name: "servers, 1280-light", run: servers("1280-light", "501"), before, viewport: DESK, expected: ["404", "422"] },
  { name: "servers, 360-dark", run: servers("360-dark", "502"), before, viewport: PHONE, scheme: "dark", expected: ["404", "422"] },
  { name: "French", run: french, before: withClock(steady), locale: "fr-FR" },
  { name: "votes, 360-dark", run: votes("360-dark", "203.0.113.82"), before, viewport: PHONE, scheme: "dark", expected: ["404", "409"] },
  // The last: it leaves servers behind.
  { name: "many servers", run: manyServers, before },
];

module.exports = { CHECKS };
