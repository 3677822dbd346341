// Runs every check in a fresh browser context and tells which failed. Owns the order and the verdict.
"use strict";
const { SETTINGS, launch, withPage } = require("./harness.cjs");
const publicPage = require("./public_page.cjs");
const controlPage = require("./control_page.cjs");
const pictures = require("./pictures.cjs");

const CHECK_MS_MAX = 240_000;

/** A check that hangs has failed; the others still get their turn. */
function within(milliseconds, check) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${milliseconds} ms`)), milliseconds);
  });
  return Promise.race([check, late]).finally(() => clearTimeout(timer));
}

async function main() {
  const browser = await launch();
  let failures = 0;
  let passes = 0;
  for (const [name, address, locale, checks] of [
    ["public", SETTINGS.publicUrl, "fr-FR", publicPage.CHECKS],
    ["control", SETTINGS.controlUrl, "en-GB", controlPage.CHECKS],
    ["pictures", SETTINGS.publicUrl, "fr-FR", pictures.CHECKS],
  ]) {
    for (const check of checks.filter((one) => `${name}: ${one.name}`.includes(SETTINGS.only))) {
      const label = `${name}: ${check.name}`;
      try {
        await within(CHECK_MS_MAX, withPage(browser, { locale, address, ...check }, check.run));
        passes += 1;
        console.log(`ok   ${label}`);
      } catch (fault) {
        failures += 1;
        console.log(`FAIL ${label}\n${String(fault.stack).replace(/^/gm, "  ")}`);
      }
    }
  }
  await browser.close();
  console.log(`${passes} checks passed, ${failures} failed; pictures in ${SETTINGS.screenshots}`);
  // A run of no check would be no success.
  process.exitCode = failures === 0 && passes > 0 ? 0 : 1;
}

main();
