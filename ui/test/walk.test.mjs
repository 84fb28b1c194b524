// walk.test.mjs - every view of a page whose program profiles this machine at this moment, by keyboard and by mouse:
// FLAMETAP_AGENT=http://127.0.0.1:4040 of a `flametap up` beside a busy program "known_spin" (tests/agents.py).
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { test } from "node:test";
import { chromium } from "playwright-core";

const url = process.env.FLAMETAP_AGENT;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const LONG = { timeout: 60_000 };

test("every view of a live agent, by keyboard and by mouse", { skip: !url && "FLAMETAP_AGENT is not set" }, async () => {
	const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
	const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce" })).newPage();
	const lines = [];
	page.on("console", (message) => lines.push(message.text()));
	page.on("pageerror", (error) => lines.push(error.message));
	const state = () => page.evaluate(() => window.__state);
	const shown = async (view) => {
		await page.waitForFunction((v) => window.__state?.view === v && window.__state.loading === false && window.__state.total > 0 && !document.querySelector(".quiet-state"), view, LONG);
		assert.equal(await page.locator(".state.error").count(), 0, view);
	};
	const shot = async (name) => {
		if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/agent-${name}.png` });
	};
	const silentAndAccessible = async (where) => {
		await page.evaluate(axe);
		const found = await page.evaluate(async () => (await window.axe.run(document, { resultTypes: ["violations"] })).violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target.join(" ")).join("; ")}`));
		assert.deepEqual([found, lines], [[], []], where);
	};
	try {
		/* The page is there before the first sample: it shows that one as it comes. */
		await page.goto(url);
		await shown("icicle");
		assert.equal((await state()).live, true, "it opens live");
		const row = () => page.locator(".top-pane .row", { hasText: "known_leaf" }).first();
		await row().waitFor(LONG);
		await page.locator(".timeline-legend button", { hasText: "known_spin" }).waitFor(LONG);
		await shot("icicle-1440");
		await silentAndAccessible("icicle");

		await page.locator(".timeline-legend button", { hasText: "known_spin" }).click();
		await page.waitForFunction(() => window.__state.query.includes("known_spin"));
		await shown("icicle");
		await page.keyboard.press("/");
		await page.keyboard.type("known_leaf");
		await page.keyboard.press("Enter");
		await page.waitForFunction(() => /^(9|100)/.test(document.querySelector(".matched")?.textContent ?? ""), null, LONG);
		await page.keyboard.press("Escape");

		for (const [key, view] of [["f", "flame"], ["v", "inverted"], ["t", "time"], ["h", "heat"], ["r", "raw"], ["i", "icicle"]]) {
			await page.keyboard.press(key);
			await shown(view);
			await shot(`${view}-1440`);
			await silentAndAccessible(view);
			await page.setViewportSize({ width: 390, height: 844 });
			await page.emulateMedia({ colorScheme: "dark" });
			await shown(view);
			await shot(`${view}-390-dark`);
			await page.setViewportSize({ width: 1440, height: 900 });
			await page.emulateMedia({ colorScheme: "light" });
		}

		await page.keyboard.press("r");
		await shown("raw");
		await page.locator(".raw .row").first().click();
		await page.locator(".detail", { hasText: "known_spin" }).waitFor(LONG);
		await page.keyboard.press("i");
		await shown("icicle");

		await page.getByRole("button", { name: "why?" }).click(LONG);
		await page.getByText("In this time the agents took").waitFor(LONG);
		await shot("why-1440");
		await page.keyboard.press("Escape");
		await row().click({ button: "right" });
		await page.getByRole("menuitem", { name: /^Sandwich/ }).click();
		await page.locator('.sandwich [aria-label^="Callers of known_leaf"]').first().waitFor(LONG);
		await page.waitForFunction(() => document.querySelectorAll(".sandwich .graph").length === 2, null, LONG);
		await silentAndAccessible("sandwich");
		await page.goBack();
		await shown("icicle");
		await row().click({ button: "right" });
		await page.getByRole("menuitem", { name: "Lines of its source" }).click();
		await page.locator(".source h2", { hasText: "known_spin.c" }).waitFor(LONG);
		await shot("source-1440");
		await silentAndAccessible("source");
		await page.goBack();
		await shown("icicle");

		await page.keyboard.press("d");
		await page.waitForFunction(() => window.__state.view === "diff" && window.__state.loading === false && window.__state.total > 0 && window.__state.total2 > 0, null, LONG);
		assert.equal((await state()).live, false, "what is compared stands still");
		await shot("diff-1440");
		await silentAndAccessible("diff");
	} finally {
		await browser.close();
	}
});
