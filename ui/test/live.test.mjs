// live.test.mjs - the page follows what comes: FLAMETAP_LIVE=http://127.0.0.1:4040 of a `flametap up` that takes /ingest.
import assert from "node:assert/strict";
import { test } from "node:test";
import { chromium } from "playwright-core";

const url = process.env.FLAMETAP_LIVE;

async function push(folded, secondsAgo = 10) {
	const until = Math.floor(Date.now() / 1000) - secondsAgo;
	const got = await fetch(`${url}/ingest?name=live&from=${until - 5}&until=${until}`, { method: "POST", body: folded });
	assert.equal(got.status, 200);
}

test("live adds what comes, and asks for the whole only once", { skip: !url && "FLAMETAP_LIVE is not set" }, async () => {
	const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
	const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce" })).newPage();
	const asked = [];
	const lines = [];
	page.on("request", (request) => /v1\/(flamegraph|top|timeline)/.test(request.url()) && asked.push(request.url()));
	page.on("console", (message) => lines.push(message.text()));
	page.on("pageerror", (error) => lines.push(error.message));
	const total = (want) => page.waitForFunction((t) => window.__state.total === t, want, { timeout: 60_000 });
	try {
		await page.goto(`${url}/?live=1&from=now-15m&to=now`);
		await total(20 * 1e7);
		for (const [i, [folded, want]] of [["main;second 30\n", 50], ["main;first 1\nmain;third;deep 9\n", 60], ["other;way 40\n", 100]].entries()) {
			await push(folded, 10 + i);
			await total(want * 1e7);
		}
		assert.deepEqual(asked.map((u) => /v1\/(\w+)/.exec(u)[1]).sort(), ["flamegraph", "flamegraph", "timeline", "top"], "the first picture, then the whole, once each");
		const rows = await page.locator(".top-pane .row").allInnerTexts();
		assert.match(rows[0], /40\.0 %[^]*way/, "the table follows, sorted");
		assert.ok((await page.evaluate(() => window.__state.depth)) === 4);
		const table = (n) => page.waitForFunction((want) => [...document.querySelectorAll(".top-pane .row")].some((r) => r.textContent.includes(want)), n, { timeout: 60_000 });
		await page.keyboard.press("i");
		await page.goto(`${url}/?live=1&from=now-15m&to=now&view=inverted`);
		await total(100 * 1e7);
		await push("main;first 7\nlast;first 3\n", 13);
		await total(110 * 1e7);
		assert.equal(await page.evaluate(() => window.__state.depth), 4, "all, its leaves, their callers");
		await table("last");
		if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/live-1440.png` });
		await push("main;first 1\n", 5);
		await page.goto(`${url}/`);
		await total(111 * 1e7);
		assert.equal(await page.evaluate(() => window.__state.live), true, "a store that grows is followed from the start");
		assert.match(page.url(), /from=now-15m&to=now&live=1/);
		await page.keyboard.press("d");
		await page.waitForFunction(() => window.__state.view === "diff" && window.__state.loading === false && window.__state.total2 > 0, null, { timeout: 60_000 });
		const sides = await page.evaluate(() => [window.__state.total, window.__state.total2, window.__state.live]);
		assert.deepEqual([sides[0] > 0, sides[0] + sides[1], sides[2]], [true, 111 * 1e7, false], "each half has something, both are all");
		assert.deepEqual(lines, []);
	} finally {
		await browser.close();
	}
});
