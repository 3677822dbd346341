// The pictures of the page in the README. Owns what they show, and whether the kept ones still show the page of today.
"use strict";
const assert = require("node:assert/strict");
const fs = require("node:fs");
const path = require("node:path");
const { ROOT, SETTINGS, typeInto, sees } = require("./harness.cjs");

const SCREEN = { width: 390, height: 940 };
// Fonts and the countdown differ between two runs by less, a section that is new or gone by more.
const DIFFERENCE_MAX = 0.02;

/** How far two PNG files are apart, from 0 to 1, both made as small as a thumbnail. */
function difference(page, pictures) {
  return page.evaluate(async (encoded) => {
    const [width, height] = [78, 188];
    const pixels = await Promise.all(encoded.map(async (one) => {
      const bytes = Uint8Array.from(atob(one), (char) => char.charCodeAt(0));
      const canvas = new OffscreenCanvas(width, height).getContext("2d");
      canvas.drawImage(await createImageBitmap(new Blob([bytes])), 0, 0, width, height);
      return canvas.getImageData(0, 0, width, height).data;
    }));
    return pixels[0].reduce((sum, value, at) => sum + Math.abs(value - pixels[1][at]), 0) / pixels[0].length / 255;
  }, pictures.map((picture) => picture.toString("base64")));
}

const picture = (scheme) => async (page) => {
  await typeInto(page, "#server", "28");
  await typeInto(page, "#ip", SETTINGS.coolingIp);
  await page.keyboard.press("Enter");
  await sees(page, "#verdict", "✓ A voté");
  await page.evaluate(() => document.activeElement.blur());
  const name = `page-${scheme}.png`;
  await page.screenshot({ path: path.join(SETTINGS.screenshots, name) });
  const [made, kept] = [path.join(SETTINGS.screenshots, name), path.join(ROOT, "docs", name)];
  if (SETTINGS.keep) fs.copyFileSync(made, kept);
  const apart = await difference(page, [made, kept].map((file) => fs.readFileSync(file)));
  assert.ok(apart < DIFFERENCE_MAX, `docs/${name} is stale, by ${apart.toFixed(3)}: tests/browser/run --only pictures --keep`);
};

const CHECKS = ["light", "dark"].map((scheme) => ({
  name: `README, ${scheme}`, run: picture(scheme), viewport: SCREEN, scale: 2, scheme,
}));

module.exports = { CHECKS };
