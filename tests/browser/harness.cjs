// The browser, and a page of it that is watched for faults. Owns how a page is opened and what no page
// may do (write errors, ask others, be wider than the screen); knows nothing of what is on it.
"use strict";
const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const { createRequire } = require("node:module");

const tools = createRequire(path.join(process.env.TOOLS, "package.json"));
const { chromium } = tools("playwright-core");
const axe = fs.readFileSync(tools.resolve("axe-core/axe.min.js"), "utf8");
const ROOT = path.resolve(__dirname, "../..");
const SETTINGS = {
  publicUrl: process.env.PUBLIC_URL,
  controlUrl: process.env.CONTROL_URL,
  controlKey: process.env.CONTROL_KEY,
  coolingIp: process.env.COOLING_IP,
  screenshots: process.env.SCREENSHOTS,
  only: process.env.ONLY,
  keep: process.env.KEEP === "1",
};
const ANSWER_MS_MAX = 10_000;
const PHONE = { width: 360, height: 740 };
const DESK = { width: 1280, height: 900 };

function launch() {
  return chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
}

/** Opens the page as asked, runs the check, and holds the page to the rules of all pages. */
async function withPage(browser, { address, viewport = DESK, scale = 1, scheme = "light", locale, expected = [], before }, check) {
  const context = await browser.newContext({
    viewport, deviceScaleFactor: scale, colorScheme: scheme, locale, timezoneId: "Europe/Paris",
  });
  context.setDefaultTimeout(ANSWER_MS_MAX);
  await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: address });
  const page = await context.newPage();
  const faults = [];
  page.on("console", (message) => {
    // The browser itself reports an answer like 404; a check says which of them it provokes.
    const isExpected = expected.some((part) => message.text().includes(part));
    if (["error", "warning"].includes(message.type()) && !isExpected) faults.push(message.text());
  });
  page.on("pageerror", (fault) => faults.push(String(fault.stack)));
  page.on("request", (request) => {
    const origins = [SETTINGS.publicUrl, SETTINGS.controlUrl, "data:"];
    if (!origins.some((origin) => request.url().startsWith(origin))) faults.push(`asks ${request.url()}`);
  });
  await before?.(page);
  try {
    const response = await page.goto(`${address}/`);
    assert.equal(response.status(), 200);
    await check(page, response);
    await fitsTheScreen(page);
    assert.deepEqual(faults, []);
  } finally {
    await context.close();
  }
}

async function fitsTheScreen(page) {
  const [wide, room] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(wide <= room, `the page is ${wide} wide on a screen of ${room}`);
}

/** No violation of WCAG 2.2 A and AA that a program can find. */
async function isAccessible(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() =>
    window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }));
  const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" | ")}`);
  assert.deepEqual(found, []);
}

/** Moves by the keyboard alone until the element has the focus. */
async function tabTo(page, selector) {
  for (let steps = 0; steps < 60; steps += 1) {
    if (await page.evaluate((wanted) => document.activeElement?.matches(wanted), selector)) return;
    await page.keyboard.press("Tab");
  }
  assert.fail(`${selector} is not reached by the keyboard`);
}

/** Types into the field that has the focus, in place of what is there. */
async function typeInto(page, selector, text) {
  await tabTo(page, selector);
  await page.keyboard.press("Control+A");
  await page.keyboard.press("Delete");
  await page.keyboard.type(text);
}

/** Waits until the text is the one expected, or matches. */
async function sees(page, selector, expected) {
  const deadline = Date.now() + ANSWER_MS_MAX;
  let text;
  do {
    text = (await page.locator(selector).innerText()).trim();
    if (expected instanceof RegExp ? expected.test(text) : text === expected) return text;
    await page.waitForTimeout(50);
  } while (Date.now() < deadline);
  return assert.fail(`${selector} shows ${JSON.stringify(text)}, not ${expected}`);
}

module.exports = {
  DESK, PHONE, ROOT, SETTINGS, launch, withPage, isAccessible, tabTo, typeInto, sees,
};
