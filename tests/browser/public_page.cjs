// What the documentation page shows and how it is used. Owns the expected texts.
"use strict";
const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const {
  DESK, PHONE, ROOT, SETTINGS, isAccessible, tabTo, typeInto, sees,
} = require("./harness.cjs");

const NOT_FOUND = ["status of 404"];
const BAD_REQUEST = ["status of 400"];

async function askByKeyboard(page, server, ip) {
  await typeInto(page, "#server", server);
  await typeInto(page, "#ip", ip);
  await page.keyboard.press("Enter");
}

const seconds = (text) => text.split(":").reduce((sum, part) => 60 * sum + Number(part), 0);

async function loads(page) {
  assert.equal(await page.title(), "Statut de vote – Version 1.0");
  await sees(page, ".badge", "Version 1.0");
  await sees(page, "h1", "Statut de vote");
  assert.equal(await page.locator("#result").isVisible(), false);
}

/** The three cases, by the keyboard alone, on one screen in one scheme. */
async function threeCases(page) {
  await isAccessible(page);
  await askByKeyboard(page, "28", "203.0.113.7");
  await sees(page, "#verdict", "○ Peut voter");
  await sees(page, "#explanation", "Vous pouvez voter maintenant");
  await isAccessible(page);

  await page.keyboard.press("Shift+Tab");
  await askByKeyboard(page, "28", SETTINGS.coolingIp);
  await sees(page, "#verdict", "✓ A voté");
  await sees(page, "#explanation", /^Vous pourrez voter à nouveau dans (8\d|90) minutes$/);
  const first = seconds(await sees(page, "#countdown", /^1:(2\d:\d\d|30:00)$/));
  await page.waitForFunction((before) => document.querySelector("#countdown").textContent !== before,
    await page.locator("#countdown").innerText());
  const second = seconds(await page.locator("#countdown").innerText());
  assert.ok(second < first && second >= first - 3, `the countdown went from ${first} to ${second}`);
  await isAccessible(page);

  await page.locator("[name=by][value=id]").focus();
  await page.keyboard.press("ArrowRight");
  await sees(page, "#server-label", "Token API du serveur");
  await askByKeyboard(page, "none", "203.0.113.7");
  await sees(page, "#verdict", "✕ Erreur");
  await sees(page, "#explanation", "Token inconnu");
  await sees(page, "#line", `GET ${SETTINGS.publicUrl}/api/servers/none/vote-status/203.0.113.7 → 404`);
  await isAccessible(page);
}

async function tokenVariant(page) {
  await page.locator("[name=by][value=token]").check();
  await askByKeyboard(page, "demo", ` ${SETTINGS.coolingIp} `);
  await sees(page, "#verdict", "✓ A voté");
  await sees(page, "#line", `GET ${SETTINGS.publicUrl}/api/servers/demo/vote-status/${SETTINGS.coolingIp} → 200`);
}

/** What is typed is asked, whatever it is. */
async function oddInput(page) {
  await askByKeyboard(page, "28", "a/b?c#d%");
  await sees(page, "#explanation", "Adresse IP invalide");
  await sees(page, "#line", `GET ${SETTINGS.publicUrl}/api/vote/28/status/a%2Fb%3Fc%23d%25 → 400`);
  await askByKeyboard(page, "<b>28", "203.0.113.7");
  await sees(page, "#explanation", "Identifiant de serveur invalide");
}

const answered = (body, status = 200) => (page) =>
  page.route("**/api/**", (route) => route.fulfill({ status, body, contentType: "text/html" }));

const seesFault = (explanation) => async (page) => {
  await askByKeyboard(page, "28", "203.0.113.7");
  await sees(page, "#verdict", "✕ Erreur");
  await sees(page, "#explanation", explanation);
  assert.equal(await page.locator("#countdown").isVisible(), false);
};

/** The wait ends under the eyes of the reader: the page asks again by itself. */
async function waitEnds(page) {
  const questions = [];
  await page.route("**/api/**", (route) => {
    questions.push(route.request().url());
    if (questions.length > 1) return route.continue();
    const next = new Date(Date.now() + 3000).toISOString().replace(/\.\d+/, "");
    const body = { success: false, can_vote: false, message: "x", next_vote_at: next, cooldown_minutes: 1 };
    return route.fulfill({ json: body, headers: { Date: new Date().toUTCString() } });
  });
  await askByKeyboard(page, "28", "203.0.113.7");
  await sees(page, "#verdict", "✓ A voté");
  await sees(page, "#verdict", "○ Peut voter");
  assert.equal(questions.length, 2);
}

/** A clock here that is an hour wrong does no harm to the countdown. */
async function wrongClock(page) {
  await page.clock.setFixedTime(Date.now() + 3_600_000);
  await askByKeyboard(page, "28", SETTINGS.coolingIp);
  await sees(page, "#countdown", /^1:(2\d:\d\d|30:00)$/);
}

/** Regression: the page opened in French for everybody. It follows the browser, and then the switch. */
async function languages(page) {
  await sees(page, "h1", "Vote status");
  await page.locator("[data-language=fr]").click();
  await page.reload();
  await sees(page, "h1", "Statut de vote");
  assert.equal(await page.locator(".en:visible").count(), 0);
  await askByKeyboard(page, "28", SETTINGS.coolingIp);
  await tabTo(page, "[data-language=en]");
  await page.keyboard.press("Enter");
  await sees(page, "h1", "Vote status");
  await sees(page, "#verdict", "✓ Has voted");
  assert.equal(await page.title(), "Vote status – Version 1.0");
  assert.equal(await page.locator(".fr:visible").count(), 0);
  await isAccessible(page);
  await page.reload();
  await sees(page, "h1", "Vote status");
}

/** The sentence that keeps a plugin from paying twice, with the cooldown's length as the service has it. */
async function pluginDelay(page) {
  await page.route("**/api/**", (route) => route.fulfill({
    json: { success: true, can_vote: true, message: "x", next_vote_at: null, cooldown_minutes: 120 },
  }));
  await sees(page, "#plugin .note b:visible", "Le délai entre deux votes, dans le plugin, doit valoir au moins 90 minutes.");
  await askByKeyboard(page, "28", "203.0.113.7");
  await sees(page, "#plugin .note b:visible", "Le délai entre deux votes, dans le plugin, doit valoir au moins 120 minutes.");
}

const held = async () =>
  Number(/^vote_status_waiting (\d+)$/m.exec(await (await fetch(`${SETTINGS.controlUrl}/metrics`)).text())[1]);

async function untilHeld(page, count) {
  for (const deadline = Date.now() + 10_000; (await held()) !== count; await page.waitForTimeout(20)) {
    assert.ok(Date.now() < deadline, `${await held()} are held, not ${count}`);
  }
}

/** With the switch, one question waits for its answer; and nothing is left of it once another is asked. */
async function toldAtOnce(page) {
  const questions = [];
  page.on("request", (request) => request.url().includes("/api/") && questions.push(request.url()));
  await tabTo(page, "#wait");
  await page.keyboard.press("Space");
  await askByKeyboard(page, "28", "203.0.113.31");
  await sees(page, "#verdict", "… En attente d’un vote");
  await untilHeld(page, 1);
  await askByKeyboard(page, "28", "203.0.113.30");
  await untilHeld(page, 1);
  await isAccessible(page);
  const vote = await fetch(`${SETTINGS.controlUrl}/v1/votes`, {
    method: "POST", headers: { Authorization: `Bearer ${SETTINGS.controlKey}` },
    body: JSON.stringify({ server_id: 28, ip: "203.0.113.30" }),
  });
  assert.equal(vote.status, 201);
  await sees(page, "#verdict", "✓ A voté");
  const url = (ip) => `${SETTINGS.publicUrl}/api/vote/28/status/${ip}?wait=25`;
  await sees(page, "#line", `GET ${url("203.0.113.30")} → 200`);
  assert.deepEqual(questions, [url("203.0.113.31"), url("203.0.113.30")]);
  await untilHeld(page, 0);
}

/** An answer that comes sooner than asked for is followed by a pause, and is no verdict. */
async function toldTooSoon(page) {
  const asked = [];
  await page.route("**/api/**", (route) => {
    asked.push(Date.now());
    const body = { success: true, can_vote: true, message: "x", next_vote_at: null, cooldown_minutes: 90 };
    return asked.length > 1 ? route.fulfill({ status: 502, body: "<html>" }) : route.fulfill({ json: body });
  });
  await page.locator("#wait").check();
  await askByKeyboard(page, "28", "203.0.113.7");
  await sees(page, "#verdict", "… En attente d’un vote");
  await sees(page, "#verdict", "✕ Erreur");
  assert.equal(asked.length, 2);
  assert.ok(asked[1] - asked[0] >= 4900, `asked again after ${asked[1] - asked[0]} ms`);
}

/** Each sample is its file, with this service's address; the button copies it whole. */
async function samples(page) {
  const names = await page.locator("[data-sample]").evaluateAll((all) => all.map((one) => one.dataset.sample));
  assert.equal(names.length, 8);
  for (const name of names) {
    const file = fs.readFileSync(path.join(ROOT, "contrib/samples", name), "utf8").trimEnd();
    const details = page.locator("details", { has: page.locator(`[data-sample="${name}"]`) });
    if (!(await details.evaluate((element) => element.open))) {
      await details.locator("summary").focus();
      await page.keyboard.press("Enter");
    }
    const expected = file.replace("http://localhost:8080", SETTINGS.publicUrl);
    assert.notEqual(expected, file);
    assert.equal(await details.locator("pre").textContent(), expected);
    await details.locator("button").click();
    await sees(page, `details[open] [data-sample="${name}"] >> xpath=.. >> button`, "Copié");
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), expected);
  }
  await isAccessible(page);
}

/** Every error of the OpenAPI document stands in the table: status, word and message. */
async function errors(page) {
  const { components: { responses }, paths } = await page.evaluate(async () => (await fetch("openapi.json")).json());
  const { get } = paths["/api/vote/{serverId}/status/{ipUser}"];
  const expected = Object.entries(get.responses).flatMap(([status, { $ref }]) => {
    const { examples } = responses[$ref.split("/").at(-1)].content["application/json"];
    return Object.values(examples).filter(({ value }) => value.error)
      .map(({ value }) => `${status} ${value.error} ${value.message}`);
  });
  const rows = await page.locator("#errors tbody tr").evaluateAll((all) => all.map((row) =>
    `${row.querySelector("th").textContent} ${row.querySelector("code").textContent} ${row.querySelector("small").textContent}`));
  assert.ok(expected.length > 10);
  assert.deepEqual(rows, expected);
}

const CHECKS = [
  { name: "loads", run: loads },
  { name: "the wait ends", run: waitEnds },
  { name: "a wrong clock", run: wrongClock },
  { name: "by token", run: tokenVariant },
  { name: "odd input", run: oddInput, expected: BAD_REQUEST },
  { name: "network failure", run: seesFault("Le service est injoignable : panne de réseau ou délai dépassé."),
    before: (page) => page.route("**/api/**", (route) => route.abort("connectionrefused")), expected: ["CONNECTION_REFUSED"] },
  { name: "an HTML page", run: seesFault("Réponse invalide"), before: answered("<html>502</html>", 502), expected: ["502"] },
  { name: "an array", run: seesFault("Réponse invalide"), before: answered("[]") },
  { name: "null", run: seesFault("Réponse invalide"), before: answered("null") },
  { name: "nothing", run: seesFault("Réponse invalide"), before: answered("") },
  { name: "no flag", run: seesFault("Réponse invalide"), before: answered("{}") },
  { name: "told at once", run: toldAtOnce },
  { name: "told too soon", run: toldTooSoon, expected: ["502"] },
  { name: "samples", run: samples },
  { name: "errors", run: errors },
  { name: "languages, in an English browser", run: languages, locale: "en-GB" },
  { name: "the plugin's delay", run: pluginDelay },
  { name: "three cases, 1280-light", run: threeCases, viewport: DESK, expected: NOT_FOUND },
  { name: "three cases, 360-dark", run: threeCases, viewport: PHONE, scheme: "dark", expected: NOT_FOUND },
];
module.exports = { CHECKS };
