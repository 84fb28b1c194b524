// live.test.mjs - the page follows what comes: FLAMETAP_LIVE=http://127.0.0.1:4040 of a `flametap up` that takes /ingest.
import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { chromium } from "playwright-core";

const source = (name) => join(dirname(fileURLToPath(import.meta.url)), "../src", name);
const { outputFiles } = await build({ stdin: { contents: `export { pace } from "${source("live.ts")}"; export { againMs } from "${source("api.ts")}";`, resolveDir: "." }, bundle: true, format: "esm", write: false });
const { pace, againMs } = await import(`data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`);

const url = process.env.FLAMETAP_LIVE;

async function push(folded, secondsAgo = 10, name = "live") {
	const until = Math.floor(Date.now() / 1000) - secondsAgo;
	const got = await fetch(`${url}/ingest?name=${name}&from=${until - 5}&until=${until}`, { method: "POST", body: folded });
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
		const graph = await page.locator(".graph").boundingBox();
		const at = [graph.x + graph.width * 0.7, graph.y + 18 * 2 + 9];
		await page.mouse.move(...at);
		const told = () => page.locator(".tooltip").innerText();
		assert.match(await told(), /first|main/);
		for (const [i, [folded, want]] of [["main;second 30\n", 50], ["main;first 1\nmain;third;deep 9\n", 60], ["other;way 40\n", 100]].entries()) {
			await push(folded, 10 + i);
			await total(want * 1e7);
		}
		await page.waitForFunction(() => /^(other|way)$/.test(document.querySelector(".tooltip .name")?.innerText), null, { timeout: 60_000 });
		const still = await told();
		await page.mouse.move(at[0] + 1, at[1]);
		assert.equal(await told(), still, "a mouse that keeps still is told of the frame that is under it now");
		await page.evaluate(() => (navigator.clipboard.writeText = async (text) => void (window.__copied = text)));
		await page.keyboard.press("y");
		const link = new URL(await page.evaluate(() => window.__copied)).searchParams;
		assert.ok(Math.abs(link.get("to") / 1e9 - Date.now() / 1000) < 60 && BigInt(link.get("to")) - BigInt(link.get("from")) === 900_000_000_000n && !link.has("live"), `${link} has its times fixed`);
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

test("what takes long is done less often", () => {
	assert.deepEqual([0, 40, 100, 250, 500, 60_000].map(pace), [1000, 1000, 1000, 2500, 5000, 5000], "drawing: a tenth of the time, at least every five seconds");
	assert.deepEqual([0, 40, 100, 250, 60_000].map(againMs), [10_000, 10_000, 10_000, 25_000, 6_000_000], "asking: a hundredth");
});

test("a page that nobody sees takes what comes, and draws it once it is seen", { skip: !url && "FLAMETAP_LIVE is not set" }, async () => {
	const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
	const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 } })).newPage();
	await page.addInitScript(() => {
		let [hidden, drawn] = [false, null];
		Object.defineProperty(document, "hidden", { get: () => hidden });
		/* Not told of: after half a minute it would follow no more. */
		window.__hide = () => (hidden = true);
		window.__look = () => ((hidden = false), document.dispatchEvent(new Event("visibilitychange")));
		window.__draws = window.__came = 0;
		Object.defineProperty(window, "__draw", { get: () => drawn, set: (is) => ((drawn = is), window.__draws++) });
		window.EventSource = class extends EventSource {
			constructor(...of) {
				super(...of);
				this.addEventListener("delta", (event) => (window.__came += JSON.parse(event.data).add.total));
			}
		};
	});
	const LONG = { timeout: 60_000 };
	try {
		await push("first;one 1\n", 60, encodeURIComponent("live{host.name=x,process.pid=7}"));
		await page.goto(`${url}/?live=1&from=now-15m&to=now`);
		await page.waitForFunction(() => window.__state?.total > 0 && window.__state.loading === false, null, LONG);
		/* One that was under way may still come; the window's state is known once there is a delta. */
		await push("first;one 2\n", 60);
		await page.waitForFunction(() => window.__came >= 2e7, null, LONG);
		await page.evaluate(() => window.__hide());
		const [total, came] = await page.evaluate(() => [window.__state.total, window.__came]);
		for (const [i, n] of [3, 4].entries()) {
			await push(`hidden;two ${n}\n`, 60); // equal ones at one time would be one
			await page.waitForFunction((want) => window.__came >= want, came + [3e7, 7e7][i], LONG);
		}
		const draws = await page.evaluate(() => new Promise((done) => setTimeout(() => done(window.__draws), 1200)));
		assert.equal(await page.evaluate(() => window.__state.total), total, "nothing is made of it yet");
		await page.evaluate(() => window.__look());
		await page.waitForFunction((want) => window.__state.total >= want, total + 7e7, LONG);
		assert.match(await page.locator("footer").innerText(), /samples\s+1 process\s/, "deltas say no number of their own");
		await page.waitForFunction((before) => window.__draws > before, draws, LONG);
		const more = await page.evaluate((before) => new Promise((done) => setTimeout(() => done(window.__draws - before), 300)), draws);
		assert.ok(more <= 3, `${more} pictures of one change: other numbers are no motion`);
	} finally {
		await browser.close();
	}
});

test("what one looks at stays in sight while everything around it grows", { skip: !url && "FLAMETAP_LIVE is not set" }, async () => {
	const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
	const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce" })).newPage();
	const total = (want) => page.waitForFunction((t) => window.__state?.total === t && window.__state.loading === false, want, { timeout: 60_000 });
	try {
		await push("main;second 30\nmain;first;inner 21\nother;way 40\n", 60, "zoom");
		await page.goto(`${url}/?live=1&from=now-15m&to=now&query=${encodeURIComponent('{service.name="zoom"}')}&layout=graph`);
		await total(91 * 1e7);
		const box = await page.locator(".graph").boundingBox();
		/* The names of what lies at the left, in the middle and at the right of the third row. */
		const row = async () => {
			const names = [];
			for (const part of [0.02, 0.5, 0.98]) {
				await page.mouse.move(box.x + box.width * part, box.y + 18 * 2 + 9);
				names.push(await page.locator(".tooltip .name").innerText());
			}
			return names.join();
		};
		/* The browser gives the wheel and the pictures when it comes to it. */
		const within = async (want) => {
			for (const end = Date.now() + 60_000; (await row()) !== want; ) assert.ok(Date.now() < end, `${await row()}, not ${want}`);
		};
		await within("second,first,way");
		await page.mouse.move(box.x + box.width * (40 / 91), box.y + 18 * 2 + 9);
		await page.keyboard.down("Control");
		await page.mouse.wheel(0, -1200);
		await page.keyboard.up("Control");
		await within("first,first,first");
		/* What the menu is opened over is selected. */
		await page.mouse.click(box.x + box.width / 2, box.y + 18 * 3 + 9, { button: "right" });
		await page.keyboard.press("Escape");
		const selected = () => page.locator(".graph").getAttribute("aria-label");
		const before = await selected();
		assert.match(before, /Selected: inner/);
		await push("main;second 300\nother;way 200\nmore;of;it 80\n", 61, "zoom");
		await total(671 * 1e7);
		await within("first,first,first"); // though it is elsewhere and a tenth as wide now
		assert.equal(await selected(), before, "what was selected still is");
		/* The frame that was clicked is what is zoomed to, also where it becomes narrow; so it is by key. */
		await page.mouse.click(box.x + box.width / 2, box.y + 18 * 2 + 9);
		await page.waitForFunction(() => window.__state.zoom !== "");
		await push("main;second 900\n", 62, "zoom");
		await total(1571 * 1e7);
		await within("first,first,first");
		await page.locator(".graph").press("+");
		await push("main;second 900\nmain;first 1\n", 63, "zoom");
		await total(2472 * 1e7);
		await within("first,first,first");
		for (let i = 0; i < 10; i++) await page.locator(".graph").press("-");
		await within("second,second,of");
	} finally {
		await browser.close();
	}
});

test("nothing is called live that is not", { skip: !url && "FLAMETAP_LIVE is not set" }, async () => {
	const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
	const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 } })).newPage();
	let mode = "dead";
	await page.route(/v1\/live/, (route) =>
		mode === "dead" ? route.abort() : mode === "full" ? route.fulfill({ status: 503, json: { error: { what: "as many pages are open as may be" } } }) : route.continue(),
	);
	/* Seconds are hundredths. */
	await page.addInitScript(() => {
		const later = window.setTimeout;
		window.setTimeout = (what, ms, ...rest) => later(what, ms >= 5000 ? ms / 100 : ms, ...rest);
	});
	try {
		await push("first;one 1\n", 90, "lost");
		await page.goto(`${url}/?live=1&from=now-15m&to=now&query=${encodeURIComponent('{service.name="lost"}')}`);
		const note = (text) => page.getByRole("alert").filter({ hasText: text }).waitFor({ timeout: 60_000 });
		await note("flametap does not answer");
		assert.equal(await page.locator(".live.on").count(), 0, "the light is off");
		mode = "full";
		await note("as many pages are open as may be");
		mode = "well";
		await page.waitForFunction(() => !document.querySelector("[role=alert]") && document.querySelector(".live.on"), null, { timeout: 60_000 });
		await push("first;two 2\n", 91, "lost");
		await page.waitForFunction(() => window.__state.total === 3e7, null, { timeout: 60_000 });
	} finally {
		await browser.close();
	}
});

test("where little of the time has data, that is what is drawn along time", { skip: !url && "FLAMETAP_LIVE is not set" }, async () => {
	const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
	const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce" })).newPage();
	const asked = [];
	page.on("request", (request) => /v1\/heatmap/.test(request.url()) && asked.push(new URL(request.url()).searchParams));
	try {
		const now = Math.floor(Date.now() / 1000);
		await push("a;b 40\n", 700, "sparse");
		await push("a;c 90\n", 300, "sparse");
		await page.goto(`${url}/?view=heat&from=${now - 900}000000000&to=${now}000000000&query=${encodeURIComponent('{service.name="sparse"}')}`);
		const spells = page.locator(".spells button");
		await spells.first().waitFor({ timeout: 60_000 });
		assert.deepEqual([await spells.count(), await page.locator(".spells [aria-pressed=true]").count()], [3, 1]);
		const seconds = () => [asked.at(-1).get("from"), asked.at(-1).get("to")].map((t) => Number(t) / 1e9 - now);
		const [from, to] = seconds();
		assert.ok(from <= -240 && from > -330 && to >= -310 && to < -220, `the heavier one: ${from} to ${to}`);
		await page.locator(".heat-box canvas").waitFor({ timeout: 60_000 });
		if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/sparse-1440.png` });
		for (const [i, least, most] of [[0, -730, -620], [2, -901, 1]]) {
			const before = asked.length;
			await spells.nth(i).click();
			for (const end = Date.now() + 60_000; asked.length === before; await new Promise((done) => setTimeout(done, 20))) assert.ok(Date.now() < end);
			assert.ok(seconds()[0] >= least && seconds()[1] <= most, `${i}: ${seconds()}`);
		}
	} finally {
		await browser.close();
	}
});

test("a live sandwich is of all stacks, not of those that are drawn", { skip: !url && "FLAMETAP_LIVE is not set" }, async () => {
	const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
	/* So narrow that 16,384 nodes are drawn. */
	const page = await (await browser.newContext({ viewport: { width: 700, height: 900 }, reducedMotion: "reduce" })).newPage();
	const LONG = { timeout: 60_000 };
	try {
		await push(Array.from({ length: 12_000 }, (_, i) => `wide;caller_${i};shared 1`).join("\n"), 60, "wide");
		const query = encodeURIComponent('{service.name="wide"}');
		const { rows } = await (await fetch(`${url}/api/v1/top?from=now-15m&to=now&limit=1&query=${query}`)).json();
		assert.deepEqual([rows[0][0], rows[0][6]], ["shared", 12_000 * 1e7]);
		await page.goto(`${url}/?live=1&from=now-15m&to=now&view=sandwich&name=shared&key=${rows[0][9]}&query=${query}`);
		await page.waitForFunction(() => document.querySelectorAll(".sandwich section").length === 2, null, LONG);
		const labels = await page.locator(".sandwich section").evaluateAll((all) => all.map((e) => e.getAttribute("aria-label")));
		assert.deepEqual(labels, ["Callers of shared: 2.00 min", "Callees of shared: 2.00 min"]);
	} finally {
		await browser.close();
	}
});
