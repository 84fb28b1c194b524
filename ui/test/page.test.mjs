// page.test.mjs - drives the page in a real Chromium: FLAMETAP_URL=http://127.0.0.1:4040 [SHOTS=folder]
// node --test test/. Every view is looked at: its state, its console, its accessibility, and a screenshot of it.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

const url = process.env.FLAMETAP_URL;
const shots = process.env.SHOTS;
const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let browser;

before(async () => {
	assert.ok(url, "FLAMETAP_URL is not set");
	browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
});
after(() => browser?.close());

/** Keeps what the console says, but for what our own reading of pixels brings about. */
function listen(page, lines) {
	page.on("console", (message) => /willReadFrequently/.test(message.text()) || lines.push(`${message.type()}: ${message.text()}`));
}

/** A page whose console and failures are kept in `lines`. */
async function open(path = "/", { width = 1440, height = 900, dark = false } = {}) {
	const context = await browser.newContext({ viewport: { width, height }, colorScheme: dark ? "dark" : "light", reducedMotion: "reduce" });
	const page = await context.newPage();
	const lines = [];
	listen(page, lines);
	page.on("pageerror", (error) => lines.push(`error: ${error.message}`));
	page.on("requestfailed", (request) => {
		if (!/ERR_ABORTED/.test(request.failure()?.errorText ?? "")) lines.push(`failed: ${request.url()}`);
	});
	await page.goto(url + path, { waitUntil: "load" });
	await settled(page);
	return { page, lines, close: () => context.close() };
}

const state = (page) => page.evaluate(() => window.__state);
async function settled(page, view) {
	await page.waitForFunction((v) => window.__state && window.__state.loading === false && (!v || window.__state.view === v), view, { timeout: 60_000 });
	await page.waitForFunction(() => document.querySelectorAll(".show.loading, .quiet-state").length === 0, null, { timeout: 60_000 });
}

/** What axe-core finds, by all its rules or by these. */
async function axe(page, rules) {
	if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axeSource);
	const result = await page.evaluate((only) => window.axe.run(document, { resultTypes: ["violations"], ...(only ? { runOnly: only } : {}) }), rules);
	return result.violations.map((v) => `${v.id}: ${v.help} (${v.nodes.map((n) => n.target.join(" ")).slice(0, 3).join("; ")})`);
}

async function shot(page, name) {
	if (shots) await page.screenshot({ path: `${shots}/${name}.png` });
}

/** Waits until the first canvas of a selector shows at least so many colours: until it is drawn. */
const drawn = (page, selector, least) =>
	page.waitForFunction(([s, n]) => {
		const canvas = document.querySelector(s);
		const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
		const seen = new Set();
		for (let i = 0; i < data.length; i += 4 * 97) seen.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
		return seen.size >= n;
	}, [selector, least]);

/** Nothing sticks out of the window, whichever of these is opened. */
async function within(page, popups) {
	for (const title of popups) {
		await page.getByTitle(title, { exact: true }).click();
		await page.locator(".popup-body").waitFor();
		const out = await page.evaluate(() => {
			const box = document.querySelector(".popup-body").getBoundingClientRect();
			return [box.left < 0, box.right > innerWidth, document.documentElement.scrollWidth > innerWidth];
		});
		assert.deepEqual(out, [false, false, false], title);
		await page.keyboard.press("Escape");
	}
}

test("opens on the graph, without a word in the console", async () => {
	const { page, lines, close } = await open();
	const s = await state(page);
	assert.ok(s.total > 0, `total is ${s.total}`);
	assert.ok(s.nodes > 10 && s.rows > 0);
	assert.ok(s.groups > 5, "whose code it is stands above all");
	await page.getByText(/^names: \d/).waitFor();
	assert.match(await page.locator(".line-title").textContent(), /cores by process/);
	await drawn(page, ".graph canvas", 5);
	assert.deepEqual(lines, []);
	await close();
});

test("the first graph is asked for alone: what else there is comes behind it", async () => {
	const context = await browser.newContext();
	const page = await context.newPage();
	/* It waits a second and no longer, which a slow machine may need. */
	await page.addInitScript(() => {
		const later = window.setTimeout.bind(window);
		window.setTimeout = (what, ms) => later(what, ms === 1000 ? 60_000 : ms);
	});
	const steps = [];
	await page.route(/api\/v1\/(flamegraph|status)/, async (route) => {
		const [name] = /flamegraph|status/.exec(route.request().url());
		steps.push(`${name} is asked for`);
		const response = await route.fetch();
		steps.push(`${name} is there`);
		await route.fulfill({ response });
	});
	await page.goto(url);
	await settled(page);
	assert.deepEqual(steps.slice(0, 3), ["flamegraph is asked for", "flamegraph is there", "status is asked for"]);
	await context.close();
});

/** The colours have been changed, and what is drawn was drawn again. */
async function themed(page, theme) {
	await page.waitForFunction((t) => document.documentElement.dataset.theme === t, theme);
	await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

const VIEWS = ["icicle", "flame", "inverted", "diff", "time", "heat", "raw"];

/** What a view has drawn, once it has. */
async function pictured(page, view) {
	if (["icicle", "flame", "inverted", "diff"].includes(view)) await drawn(page, ".graph canvas", 4);
	if (view === "time") await drawn(page, ".chart-box canvas", 6);
	if (view === "heat") await drawn(page, ".heat-box canvas", 2);
	if (view === "raw") assert.ok((await page.locator(".raw .row").count()) > 3);
}

for (const view of VIEWS)
	test(`${view}: drawn, silent, accessible, light and dark, wide and narrow`, async () => {
		const { page, lines, close } = await open(`/?view=${view}`);
		await settled(page, view);
		await pictured(page, view);
		await shot(page, `${view}-1440`);
		assert.deepEqual(await axe(page), []);
		if (view === "icicle") await within(page, ["Export", "Open a file", "Profile type", "Time"]);
		await page.emulateMedia({ colorScheme: "dark" });
		await themed(page, "dark");
		await pictured(page, view);
		await shot(page, `${view}-1440-dark`);
		assert.deepEqual(await axe(page, ["color-contrast"]), [], "dark differs in its colours alone");
		await page.emulateMedia({ colorScheme: "light" });
		await page.setViewportSize({ width: 390, height: 844 });
		await page.waitForFunction(() => [...document.querySelectorAll("canvas")].every((c) => c.getBoundingClientRect().width <= innerWidth));
		await themed(page, "light");
		await pictured(page, view);
		await shot(page, `${view}-390`);
		assert.deepEqual(await axe(page), []);
		assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "no wider than a phone");
		if (view === "icicle") await within(page, ["Grouping, colours, layout", "Export", "Open a file"]);
		assert.deepEqual(lines, []);
		await close();
	});

test("a phone in the dark loads it", async () => {
	const { page, lines, close } = await open("/", { width: 390, height: 844, dark: true });
	await drawn(page, ".graph canvas", 5);
	await themed(page, "dark");
	/* One line that is moved to and fro: every name of the legend can be seen. */
	const legend = page.locator(".timeline-legend");
	const last = await legend.evaluate((e) => e.querySelector("li:last-child").getBoundingClientRect().right);
	assert.ok(last > 390, `${last}: more names than fit`);
	const names = await legend.evaluate((e) => [...e.querySelectorAll("button")].filter((b) => b.getBoundingClientRect().right <= innerWidth).length);
	assert.ok(names > 1, `${names} names are seen at once`);
	await legend.hover({ position: { x: 20, y: 12 } });
	await page.mouse.wheel(5000, 0);
	await page.waitForFunction(() => document.querySelector(".timeline-legend li:last-child").getBoundingClientRect().right <= innerWidth, null, { timeout: 60_000 });
	assert.deepEqual(lines, []);
	await close();
});

test("a click zooms, the crumb and Backspace go back, the URL holds it", async () => {
	const { page, close } = await open();
	const box = await page.locator(".graph").boundingBox();
	await page.mouse.click(box.x + 60, box.y + 18 * 3 + 9);
	await page.waitForFunction(() => window.__state.zoom !== "");
	const { zoom, total } = await state(page);
	assert.ok(page.url().includes(`zoom=${zoom}`));
	await page.reload();
	await settled(page);
	assert.equal((await state(page)).zoom, zoom);
	assert.equal((await state(page)).total, total);
	await page.locator(".graph").focus();
	await page.keyboard.press("Backspace");
	await page.waitForFunction(() => window.__state.zoom === "");
	await close();
});

test("arrow keys walk without a focus and Enter zooms, in place; Backspace undoes step by step and never leaves", async () => {
	const { page, close } = await open();
	const place = await page.locator(".graph").boundingBox();
	const first = page.url();
	const zooms = [];
	for (const keys of [["ArrowDown", "ArrowDown", "Enter"], ["ArrowDown", "Enter"]]) {
		for (const key of keys) await page.keyboard.press(key);
		await page.waitForFunction((z) => !z.includes(window.__state.zoom), ["", ...zooms]);
		zooms.push((await state(page)).zoom);
	}
	assert.deepEqual(await page.locator(".graph").boundingBox(), place, "the graph stays where it is");
	for (const zoom of [zooms[0], ""]) {
		await page.keyboard.press("Backspace");
		await page.waitForFunction((z) => window.__state.zoom === z, zoom);
	}
	await page.keyboard.press("Backspace");
	assert.equal(page.url(), first);
	await close();
});

test("search finds by regular expression and says its share", async () => {
	const { page, close } = await open();
	await page.keyboard.press("/");
	await page.keyboard.type(".");
	await page.waitForFunction(() => document.querySelector(".matched")?.textContent?.includes("100"));
	await page.keyboard.type("(");
	assert.equal(await page.locator(".matched").count(), 0, "a half-typed expression finds nothing and breaks nothing");
	assert.match(await page.locator("#search[aria-invalid=true] + *, #search-broken").last().innerText(), /group/i, "and says what it lacks");
	assert.deepEqual(await axe(page), []);
	await page.locator("#search").fill("MALLOCGC");
	const { matched, total } = await (await page.request.get(`${url}/api/v1/search?search=${encodeURIComponent("(?i)MALLOCGC")}`)).json();
	assert.ok(matched > 0 && total === (await state(page)).total, `${matched} of ${total}`);
	await page.locator(".matched[title^='of all stacks']", { hasText: `${((100 * matched) / total).toFixed(2)} %` }).waitFor();
	const chosen = () => page.locator(".graph").getAttribute("aria-label");
	await page.keyboard.press("Enter");
	await page.locator(".matched", { hasText: "1 of " }).waitFor();
	const one = await chosen();
	assert.match(one, /Selected: runtime\.mallocgc/);
	await page.locator(".graph").focus();
	await page.keyboard.press("n");
	await page.locator(".matched", { hasText: "2 of " }).waitFor();
	await page.keyboard.press("N");
	await page.locator(".matched", { hasText: "1 of " }).waitFor();
	assert.equal(await chosen(), one);
	await close();
});

test("/ finds the search, or says where there is one", async () => {
	const { page, lines, close } = await open("/?layout=table");
	await page.keyboard.press("/");
	await page.waitForFunction(() => document.activeElement?.id === "search");
	for (const view of ["time", "heat", "raw", "source", "sandwich"]) {
		await page.goto(`${url}/?view=${view}`);
		await settled(page, view);
		const kept = await page.evaluate(() => !document.dispatchEvent(new KeyboardEvent("keydown", { key: "f", ctrlKey: true, bubbles: true, cancelable: true })));
		assert.equal(kept, false, `${view}: Ctrl-F is the browser's`);
		await page.keyboard.press("/");
		await page.getByText("Frames are searched in graphs").waitFor();
	}
	await page.keyboard.press("?");
	await page.getByText("search the frames of a graph or sandwich").waitFor();
	assert.deepEqual(lines, []);
	await close();
});

test("an expression that only the program reads marks what the program finds, and nothing else", async () => {
	const { page, lines, close } = await open();
	const search = async (text) => {
		await page.locator("#search").fill(text);
		await page.locator(".matched[title^='of all stacks']").waitFor();
		await page.waitForFunction((t) => new URLSearchParams(location.search).get("search") === t, text);
		const shown = (await page.locator(".matched").textContent()).trim().split(" ")[0];
		return shown;
	};
	const share = async (text) => {
		const { from, to } = await state(page);
		const { matched, total } = await (await page.request.get(`${url}/api/v1/search?from=${from}&to=${to}&search=${encodeURIComponent(`(?i)${text}`)}`)).json();
		return (100 * matched) / total;
	};
	for (const text of ["(?i)main", "[[:digit:]]", "ma++in"]) {
		const shown = Number(await search(text));
		assert.ok(Math.abs(shown - (await share(text))) < 0.06 && shown > 0, `${text}: ${shown}`);
		assert.equal(await page.locator(".warn").count(), 0, text);
	}
	/* As JavaScript reads it, this finds ":]" alone, and would mark none. */
	const { page: other, close: end } = await open(`/?search=${encodeURIComponent("^[[:alpha:]]+$")}`);
	await other.locator("#match-next:not([disabled])").waitFor();
	await end();
	assert.deepEqual(lines, []);
	await close();
});

test("the menu focuses; the chip takes it back", async () => {
	const { page, close } = await open();
	const whole = (await state(page)).total;
	const box = await page.locator(".graph").boundingBox();
	await page.mouse.click(box.x + 60, box.y + 18 * 4 + 9, { button: "right" });
	await page.getByRole("menuitem", { name: /^Focus/ }).click();
	await page.waitForFunction(() => window.__state.transforms.length === 1);
	await settled(page);
	const focused = (await state(page)).total;
	assert.ok(focused > 0 && focused <= whole);
	await page.locator(".chips button").click();
	await page.waitForFunction(() => window.__state.transforms.length === 0);
	await settled(page);
	assert.equal((await state(page)).total, whole);
	await close();
});

test("the menu collapses; Backspace takes it back", async () => {
	const { page, lines, close } = await open();
	const box = await page.locator(".graph").boundingBox();
	await page.mouse.click(box.x + 60, box.y + 18 * 4 + 9, { button: "right" });
	await page.keyboard.press("Escape");
	await page.waitForFunction(() => !document.querySelector(".menu") && document.activeElement.classList.contains("graph"), null); // the focus is where it was
	await page.keyboard.press("Shift+F10");
	await page.getByRole("menuitem", { name: "Its recursion once" }).click();
	await page.waitForFunction(() => window.__state.transforms.some((x) => x.startsWith("recursion:")));
	await settled(page);
	assert.ok((await state(page)).total > 0);
	await page.locator(".graph").focus();
	await page.keyboard.press("Backspace");
	await page.waitForFunction(() => window.__state.transforms.length === 0);
	assert.deepEqual(lines, []);
	await close();
});

test("sandwich of a row: both halves have its total", async () => {
	const { page, lines, close } = await open("/?view=sandwich");
	await page.locator(".top-pane .row").first().click();
	await page.waitForFunction(() => document.querySelectorAll(".sandwich .graph").length === 2, null, { timeout: 60_000 });
	const labels = await page.locator(".sandwich section").evaluateAll((all) => all.map((e) => e.getAttribute("aria-label").split(": ").pop()));
	assert.equal(labels[0], labels[1]);
	const row = await page.locator(".top-pane .row.chosen .cell").allTextContents();
	await page.locator(".middle", { hasText: `total ${labels[0]} · ${row[1]}, self ` }).waitFor();
	assert.ok((await page.locator(".middle").textContent()).endsWith(` · ${row[0]}`), "the function's numbers are those of its row");
	assert.deepEqual(await axe(page), []);
	await shot(page, "sandwich-1440");
	/* A search counts the whole of each half. */
	await page.locator("#search").fill("a");
	const key = new URL(page.url()).searchParams.get("key");
	for (const [i, side] of ["callers", "callees"].entries()) {
		const body = await (await page.request.get(`${url}/api/v1/sandwich?key=${key}&side=${side}&search=${encodeURIComponent("(?i)a")}`)).body();
		const { matched, total } = JSON.parse(body.subarray(8, 8 + body.readUInt32LE(4)).toString());
		const p = (100 * matched[0]) / total[0];
		await page.locator(".sandwich section").nth(i).locator(".matched[title^='of all stacks']", { hasText: `${p.toFixed(p >= 99.95 || p === 0 ? 0 : p < 10 ? 2 : 1)} %` }).waitFor();
	}
	await page.locator("#search").fill("");
	/* Each half zooms by itself: a click on a caller of what many call, then on the function. */
	const label = () => page.locator(".sandwich section").nth(1).getAttribute("aria-label");
	await page.locator(".top-pane .row", { hasText: "libc.so.6+?" }).first().click();
	for (const end = Date.now() + 60_000; !/libc/.test(await label()) || (await label()).endsWith(labels[0]); ) assert.ok(Date.now() < end, await label());
	const crumbs = () => page.locator(".sandwich .crumbs").evaluateAll((all) => all.map((e) => e.querySelectorAll("button").length));
	const before = await page.locator(".sandwich .graph").nth(0).screenshot();
	const box = await page.locator(".sandwich .graph").nth(0).boundingBox();
	await page.mouse.click(box.x + 20, box.y + box.height - 18 * 2 - 9);
	await page.waitForFunction(() => window.__state.zoom !== "");
	assert.deepEqual(await crumbs(), [3, 1], "all, the function, its caller");
	await page.mouse.move(5, 5);
	for (const end = Date.now() + 60_000; Buffer.compare(before, await page.locator(".sandwich .graph").nth(0).screenshot()) === 0; ) assert.ok(Date.now() < end, "the picture is another");
	const other = await page.locator(".sandwich .graph").nth(1).boundingBox();
	await page.mouse.click(other.x + 20, other.y + 18 + 9);
	await page.waitForFunction(() => /^\w+\.\w+$/.test(window.__state.zoom));
	assert.deepEqual(await crumbs(), [3, 2]);
	await page.keyboard.press("Backspace");
	await page.keyboard.press("Backspace");
	await page.waitForFunction(() => window.__state.zoom === "");
	assert.deepEqual(await crumbs(), [1, 1]);
	assert.deepEqual(lines, []);
	await close();
});

test("a sandwich of a function's name alone", async () => {
	const { rows } = await (await fetch(`${url}/api/v1/top?sort=total&limit=40`)).json();
	const [name] = rows[30];
	const key = rows.find((row) => row[0] === name)[9];
	const { page, lines, close } = await open(`/?view=sandwich&name=${encodeURIComponent(name)}`);
	await page.waitForFunction((k) => new URLSearchParams(location.search).get("key") === k && document.querySelectorAll(".sandwich .graph").length === 2, key, { timeout: 60_000 });
	await page.goto(`${url}/?view=sandwich&name=${encodeURIComponent("no(such")}`);
	await page.getByRole("heading", { name: "No function is called no(such here" }).waitFor({ timeout: 60_000 });
	assert.deepEqual(lines, []);
	await close();
});

test("keys switch views; ? lists them and Escape closes", async () => {
	const { page, close } = await open();
	for (const [key, view] of [["f", "flame"], ["i", "icicle"], ["v", "inverted"], ["t", "time"], ["h", "heat"], ["r", "raw"], ["d", "diff"]]) {
		await page.keyboard.press(key);
		await page.waitForFunction((v) => window.__state.view === v, view);
	}
	await page.keyboard.press("?");
	await page.locator("dialog[open]").waitFor();
	assert.deepEqual(await axe(page), []);
	await shot(page, "keys-1440");
	await page.keyboard.press("Escape");
	await page.waitForFunction(() => !document.querySelector("dialog[open]"));
	await close();
});

const sums = (page) => page.evaluate(() => [window.__state.total, window.__state.total2]);

/** What the command that is copied says of both sides, run as it is. */
async function commanded(page) {
	await page.evaluate(() => (navigator.clipboard.writeText = async (text) => void (window.__copied = text)));
	await page.getByRole("button", { name: "copy CI command" }).click();
	const words = await page.evaluate(() => window.__copied);
	assert.match(words, /^flametap diff .* --fail-above 5% /);
	const run = spawnSync("sh", ["-c", `${words} --json`], { encoding: "utf8", env: { ...process.env, PATH: `${dirname(process.env.FLAMETAP_PROGRAM)}:${process.env.PATH}` } });
	assert.ok(run.status === 0 || /^flametap diff: \d+ functions? (is|are) dearer/m.test(run.stderr), `${words}: ${run.stderr}`);
	return JSON.parse(run.stdout).top.total;
}

test("the sides of a diff: both are counted, and two values of a label are compared", async () => {
	const { page, lines, close } = await open();
	const whole = (await state(page)).total;
	const samples = Number((await page.locator("footer span").first().textContent()).replace(/\D/g, ""));
	await page.keyboard.press("d");
	await settled(page, "diff");
	await page.waitForFunction((t) => window.__state.total > 0 && window.__state.total + window.__state.total2 === t, whole);
	const [before, after] = (await page.locator("footer span").first().textContent()).split("→").map((t) => Number(t.replace(/\D/g, "")));
	assert.ok(before > 0 && after > 0 && before + after === samples, `${before} and ${after} of ${samples}`);
	assert.deepEqual(await commanded(page), await sums(page), "the command that is copied asks the same");
	await page.getByRole("button", { name: "compare" }).click();
	assert.deepEqual(await axe(page), []);
	await shot(page, "compare-1440");
	const fill = async (label, value) => page.getByRole("dialog").getByLabel(label, { exact: true }).fill(value);
	await fill("Values of", "thread.name");
	await page.getByRole("dialog").getByLabel("before", { exact: true }).focus();
	await page.waitForFunction(() => [...document.querySelectorAll("dialog, [role=dialog]")].some((d) => [...d.querySelectorAll("datalist")].some((l) => l.options.length > 2 && l.previousElementSibling?.placeholder === "value")));
	const two = await page.evaluate(() => [...[...document.querySelectorAll("[role=dialog] datalist")].find((l) => l.options.length > 2 && l.previousElementSibling?.placeholder === "value").options].slice(0, 2).map((o) => o.value));
	await fill("before", two[0]);
	await fill("after", two[1]);
	await page.getByRole("dialog").getByRole("button", { name: "Compare" }).last().click();
	await page.waitForFunction((v) => new URLSearchParams(location.search).get("query2")?.includes(v), two[1]);
	await settled(page, "diff");
	assert.ok((await state(page)).total > 0 && (await state(page)).total2 > 0);
	assert.deepEqual(await commanded(page), await sums(page), "that of two selectors too");
	assert.equal(await page.locator(".timeline").count(), 2, "each side has its timeline");
	assert.deepEqual(await axe(page), []);
	await shot(page, "compare-values-1440");
	assert.deepEqual(lines, []);
	await close();
});

test("a diff without sides in its URL halves what was measured, says so, and a click on the timeline parts it elsewhere", async () => {
	const { page, lines, close } = await open();
	const whole = (await state(page)).total;
	await page.goto(`${url}/?view=diff`);
	await settled(page, "diff");
	const { total, total2 } = await state(page);
	assert.ok(total > 0 && total2 > 0 && total + total2 === whole, `${total} and ${total2} of ${whole}`);
	const split = new URL(page.url()).searchParams.get("from2");
	assert.equal(new URL(page.url()).searchParams.get("to"), split);
	await page.getByText("as much was measured before").waitFor();
	const box = await page.locator(".timeline .u-over").boundingBox();
	await page.mouse.click(box.x + box.width * 0.25, box.y + 30);
	await page.waitForFunction((t) => new URLSearchParams(location.search).get("from2") !== t, split);
	await settled(page, "diff");
	const after = await state(page);
	assert.ok(after.total !== total && after.total + after.total2 === whole, `${after.total} and ${after.total2} of ${whole}`);
	assert.equal(await page.getByText("as much was measured before").count(), 0, "that is not so any more");
	const sides = new URL(page.url()).search;
	await page.keyboard.press("i");
	await settled(page, "icicle");
	await page.waitForFunction((t) => window.__state.total === t, whole);
	assert.ok(!new URL(page.url()).searchParams.has("from2"), "who leaves it has the whole again");
	await page.keyboard.press("d");
	await settled(page, "diff");
	await page.waitForFunction((t) => window.__state.total + window.__state.total2 === t, whole);
	assert.equal(new URL(page.url()).search, sides, "and finds it as it was left");
	assert.deepEqual(lines, []);
	await close();
});

/** Answers of trees say this too, as those of a store do. */
async function withHeader(page, path, more) {
	await page.route(path, async (route) => {
		const response = await route.fetch();
		const body = await response.body();
		const length = body.readUInt32LE(4);
		const text = JSON.stringify({ ...JSON.parse(body.subarray(8, 8 + length).toString()), ...more });
		const header = Buffer.from(text.padEnd(Math.ceil(text.length / 8) * 8));
		const begin = Buffer.from(body.subarray(0, 8));
		begin.writeUInt32LE(header.length, 4);
		await route.fulfill({ response, body: Buffer.concat([begin, header, body.subarray((8 + length + 7) & ~7)]), headers: { "content-type": response.headers()["content-type"] } });
	});
}

test("the foot of a diff counts a window that is both sides' once", async () => {
	const { page, close } = await open();
	const { from, to } = await state(page);
	await withHeader(page, "**/api/v1/diff?**", { coverage: { sampled: 8000, dropped: 6, "cut.depth": 4 } });
	const lost = page.locator("footer .lost");
	await page.goto(`${url}/?view=diff&from=${from}&to=${to}&query2=${encodeURIComponent('{thread.name="java"}')}`);
	await settled(page, "diff");
	assert.match(await lost.textContent(), /of all 4,000 samples:3 dropped2 cut/);
	const middle = String((BigInt(from) + BigInt(to)) / 2n);
	await page.goto(`${url}/?view=diff&from=${from}&to=${middle}&query2=&from2=${middle}&to2=${to}`);
	await settled(page, "diff");
	assert.match(await lost.textContent(), /of all 8,000 samples:6 dropped4 cut/);
	await close();
});

test("a diff that is loaded again says how it was parted, and gives back the window it took apart", async () => {
	const { page, lines, close } = await open("/?from=now-9999d&to=now&layout=graph");
	const whole = (await state(page)).total;
	await page.keyboard.press("d");
	await settled(page, "diff");
	const parted = page.locator(".parted");
	const said = await parted.textContent();
	assert.match(said, /as much was measured before/);
	await page.reload();
	await settled(page, "diff");
	assert.equal(await parted.textContent(), said);
	await page.keyboard.press("i");
	await settled(page, "icicle");
	const { from, to, total } = await state(page);
	assert.deepEqual([from, to, total], ["now-9999d", "now", whole]);
	assert.deepEqual(lines, []);
	await close();
});

test("the two sides of a diff side by side: one zoom, one hover, one selection", async () => {
	const { page, lines, close } = await open("/?view=diff");
	await page.locator("body").press("d");
	await page.waitForFunction(() => window.__state.pair && document.querySelectorAll(".pair .graph").length === 2);
	assert.match(page.url(), /pair=1/);
	await drawn(page, ".pair figure:last-of-type canvas", 4);
	assert.match(await page.locator(".pair figcaption").first().textContent(), /^before .* s of CPU time /, "it is no window's length");
	await shot(page, "pair-1440");
	const boxes = () => page.locator(".pair .graph").evaluateAll((all) => all.map((e) => e.getBoundingClientRect().toJSON()));
	const [left, right] = await boxes();
	assert.ok(left.top === right.top && left.right <= right.left, "beside each other");
	/* Pixels of both canvases of both sides: what is drawn, and the outlines over it. */
	const pictures = () => page.locator(".pair canvas").evaluateAll((all) => all.map((c) => c.toDataURL()));
	const changed = async (which, before) => {
		for (const i of which) await page.waitForFunction(([k, old]) => document.querySelectorAll(".pair canvas")[k].toDataURL() !== old, [i, before[i]]);
	};
	let before = await pictures();
	await page.mouse.move(left.left + 40, left.top + 18 * 2 + 9);
	await changed([1, 3], before);
	await page.locator(".tooltip", { hasText: "→" }).waitFor();
	assert.deepEqual((await pictures()).filter((_, i) => i % 2 === 0), before.filter((_, i) => i % 2 === 0), "hovering draws outlines only");
	before = await pictures();
	await page.keyboard.down("Control");
	await page.mouse.wheel(0, -400);
	await page.keyboard.up("Control");
	await changed([0, 2], before);
	before = await pictures();
	await page.mouse.click(left.left + 40, left.top + 18 * 2 + 9);
	await page.waitForFunction(() => window.__state.zoom !== "");
	await changed([0, 2], before);
	await page.waitForFunction(() => [...document.querySelectorAll(".pair figcaption")].every((c) => c.textContent.includes("%")));
	const { zoom } = await state(page);
	const named = await page.locator(".pair table tbody th").first().textContent();
	assert.equal(named, await page.locator(".crumbs [aria-current=true]").getAttribute("title"), "the table for a screen reader is that of the zoomed frame");
	await page.reload();
	await settled(page, "diff");
	await drawn(page, ".pair figure:last-of-type canvas", 2);
	assert.deepEqual([(await state(page)).zoom, (await state(page)).pair], [zoom, true], "the URL holds it");
	before = await pictures();
	await page.locator(".pair .graph").last().focus();
	await page.keyboard.press("ArrowDown");
	await changed([1, 3], before);
	assert.deepEqual(await axe(page), []);
	before = await pictures();
	await page.getByLabel("as shares").check();
	await page.waitForFunction(() => location.search.includes("norm=1"));
	await page.locator(".graph").first().focus();
	await page.keyboard.press("Backspace");
	await page.waitForFunction(() => window.__state.zoom === "");
	await page.emulateMedia({ colorScheme: "dark" });
	await page.setViewportSize({ width: 390, height: 844 });
	await page.waitForFunction(() => {
		const [a, b] = [...document.querySelectorAll(".pair .graph")].map((e) => e.getBoundingClientRect());
		return b.top >= a.bottom && a.height > 200 && b.height > 200 && a.width > 300;
	});
	if (shots) await page.screenshot({ path: `${shots}/pair-390-dark.png`, fullPage: true });
	assert.deepEqual(await axe(page), []);
	await page.getByRole("button", { name: "differential" }).click();
	await page.waitForFunction(() => !window.__state.pair && document.querySelectorAll(".graph").length === 1);
	assert.deepEqual(lines, []);
	await close();
});

test("a burst of the heat map stays chosen: in the picture, in the URL and above its flame graph; keys move it, Escape drops it", async () => {
	const { page, lines, close } = await open("/?view=heat");
	await settled(page, "heat");
	await drawn(page, ".heat-box canvas", 2);
	const pixels = () => page.locator(".heat-box canvas").evaluate((c) => c.toDataURL());
	const bare = await pixels();
	const box = await page.locator(".heat-box").boundingBox();
	await page.mouse.move(box.x + box.width * 0.31, box.y + box.height * 0.5);
	await page.mouse.down();
	await page.mouse.move(box.x + box.width * 0.44, box.y + box.height * 0.6, { steps: 4 });
	await page.mouse.up();
	await page.waitForFunction(() => location.search.includes("pick="));
	const pick = () => new URL(page.url()).searchParams.get("pick")?.split("..").map(Number);
	const label = () => page.locator(".flame").getAttribute("aria-label");
	await page.locator(".picked + .show .graph").waitFor();
	await drawn(page, ".picked + .show .graph canvas", 4);
	const [from, to] = pick();
	const whole = (await state(page)).total;
	assert.match(await label(), /^Flame graph of .* s, \d\d:\d\d:\d\d\.\d\d\d to \d\d:\d\d:\d\d\.\d\d\d$/);
	await page.mouse.move(box.x + box.width * 0.7, box.y - 60); // off the map: what is drawn is what is chosen
	await page.waitForFunction((old) => document.querySelector(".heat-box canvas").toDataURL() !== old, bare);
	assert.deepEqual(await axe(page), []);
	await shot(page, "heat-picked-1440");
	const asked = await (await page.request.get(`${url}/api/v1/top?from=${pick()[0]}&to=${pick()[1]}&limit=1`)).json();
	assert.ok(asked.total > 0 && asked.total < whole, `${asked.total} of ${whole}`);
	const before = await label();
	await page.locator(".heat-box").press("ArrowRight");
	await page.waitForFunction((f) => Number(new URLSearchParams(location.search).get("pick").split("..")[0]) > f, from);
	const step = pick()[0] - from;
	assert.ok(Math.abs(pick()[1] - to - step) < 1000 && step >= 1e9 - 1000, `moved by ${step}`);
	await page.waitForFunction((was) => document.querySelector(".flame")?.getAttribute("aria-label") !== was, before);
	await page.locator(".heat-box").press("Shift+ArrowRight");
	await page.waitForFunction((t) => Number(new URLSearchParams(location.search).get("pick").split("..")[1]) > t + 1.5e9, to);
	assert.ok(Math.abs(pick()[0] - from - step) < 1000, "Shift moves its end alone");
	await page.reload();
	await settled(page, "heat");
	await page.locator(".picked + .show .graph").waitFor();
	await drawn(page, ".picked + .show .graph canvas", 4);
	await page.locator(".heat-box").press("Escape");
	await page.waitForFunction(() => !location.search.includes("pick=") && !document.querySelector(".picked"));
	await page.keyboard.press("Backspace");
	assert.deepEqual(lines, []);
	await close();
});

test("the way back from a part that was moved to by wheel or key", async () => {
	const { page, close } = await open();
	await drawn(page, ".graph canvas", 5);
	const pixels = () => page.locator(".graph canvas").first().evaluate((c) => c.toDataURL());
	const whole = await pixels();
	const is = (want) => page.waitForFunction(([old, same]) => (document.querySelector(".graph canvas").toDataURL() === old) === same, [whole, want]);
	for (const back of ["Escape", "Backspace", "click"]) {
		for (const key of ["ArrowDown", "+", "+"]) await page.locator(".graph").press(key);
		await is(false);
		await page.locator("#window-back").waitFor();
		if (back === "click") {
			assert.deepEqual(await axe(page), []);
			await page.locator(".crumbs button").first().click();
		} else await page.locator("body").press(back);
		await is(true);
		assert.equal(await page.locator("#window-back").count(), 0);
	}
	await close();
});

test("raw samples: the newest first, page after page of one state; the order is turned", async () => {
	const { page, lines, close } = await open("/?view=raw");
	await settled(page, "raw");
	const api = async (order) => (await (await page.request.get(`${url}/api/v1/raw?limit=1000&order=${order}&from=2000-01-01T00:00:00Z&to=2100-01-01T00:00:00Z`)).json()).rows.map((r) => r.time_ns);
	const [newest, oldest] = [await api("desc"), await api("asc")];
	assert.ok(BigInt(newest[0]) > BigInt(oldest[0]));
	const top = async () => (await page.locator(".raw .row .cell").first().innerText()).slice(-3);
	const ms = (ns) => ns.slice(-9, -6);
	assert.equal(await top(), ms(newest[0]));
	const [second] = await Promise.all([page.waitForRequest((r) => /after=/.test(r.url())), page.locator(".raw .table").press("End")]);
	const asked = new URL(second.url()).searchParams;
	assert.deepEqual([asked.get("order"), /^\d+$/.test(asked.get("asof"))], ["desc", true]);
	await page.locator(".raw-head", { hasText: "the newest 400" }).waitFor();
	await page.locator(".raw .table").press("Enter");
	await page.locator(".raw .detail").waitFor();
	assert.deepEqual(await axe(page), []);
	await shot(page, "raw-chosen-1440");
	await page.getByRole("button", { name: "oldest first" }).click();
	await page.waitForFunction((t) => document.querySelector(".raw .row .cell")?.textContent.endsWith(t), ms(oldest[0]));
	assert.match(page.url(), /oldest=1/);
	assert.equal(await page.locator(".raw [aria-sort]").getAttribute("aria-sort"), "ascending");
	assert.deepEqual(lines, []);
	await close();
});

test("a burst that is dragged over has its flame graph", async () => {
	const { page, lines, close } = await open("/?view=time");
	await settled(page, "time");
	await drawn(page, ".chart-box canvas", 6);
	const whole = (await state(page)).total;
	const box = await page.locator(".chart-box").boundingBox();
	await page.mouse.move(box.x + box.width * 0.3, box.y + 60);
	await page.mouse.down();
	await page.mouse.move(box.x + box.width * 0.45, box.y + 70, { steps: 4 });
	await page.mouse.up();
	await page.getByRole("button", { name: "Flame graph of it" }).waitFor();
	await shot(page, "time-picked-1440");
	assert.deepEqual(await axe(page), []);
	await page.getByRole("button", { name: "Flame graph of it" }).click();
	await settled(page, "icicle");
	await page.waitForFunction((t) => window.__state.total > 0 && window.__state.total < t, whole);
	assert.deepEqual(lines, []);
	await close();
});

test("a lane opens by click and by key, and the list of threads is there for a screen reader", async () => {
	const { page, close } = await open("/?view=time");
	await settled(page, "time");
	await drawn(page, ".chart-box canvas", 6);
	const pixels = () => page.evaluate(() => document.querySelector(".chart-box canvas").toDataURL().length);
	const low = await pixels();
	await page.locator(".chart-box").focus();
	await page.keyboard.press("Enter");
	await page.waitForFunction((n) => document.querySelector(".chart-box canvas").toDataURL().length !== n, low);
	await shot(page, "time-open-1440");
	await page.waitForFunction(() => new URLSearchParams(location.search).getAll("open").length === 1);
	await page.reload();
	await settled(page, "time");
	await drawn(page, ".chart-box canvas", 6);
	assert.notEqual(await pixels(), low, "the URL holds it");
	await page.locator(".chart-box").focus();
	await page.keyboard.press("Enter");
	await page.waitForFunction(() => !location.search.includes("open="));
	assert.ok((await page.locator(".chart caption + tbody tr").count()) > 3);
	await close();
});

test("every thread can be reached, however many there are", async () => {
	const { page, lines, close } = await open();
	const asked = [];
	await page.route(/v1\/chart/, async (route) => {
		asked.push(new URL(route.request().url()).searchParams.get("skip") ?? "0");
		const all = await (await route.fetch()).json();
		await route.fulfill({ json: { ...all, lanes_total: 450 } });
	});
	await page.keyboard.press("t");
	await settled(page, "time");
	const press = async (name) => {
		const before = asked.length;
		await page.getByRole("button", { name }).click();
		for (const end = Date.now() + 60_000; asked.length === before; await new Promise((done) => setTimeout(done, 20))) assert.ok(Date.now() < end);
		await settled(page, "time");
	};
	for (const name of ["show more", "show more", "show more", /^the next 200$/, /^the next 200$/, "busier ones"]) await press(name);
	assert.deepEqual(asked, ["0", "0", "0", "0", "200", "400", "200"]);
	await page.reload();
	await settled(page, "time");
	assert.equal(asked.at(-1), "200", "the URL holds it");
	assert.deepEqual(lines, []);
	await close();
});

for (const [size, options] of [["1440", {}], ["1440-dark", { dark: true }], ["390", { width: 390, height: 844 }]])
	test(`lines of a function's file at ${size}`, async () => {
		const { page, lines, close } = await open(size === "1440" ? "/?view=source&name=runtime.selectgo" : "/?view=source", options);
		if (size !== "1440") {
			await page.locator(".functions .row").nth(3).waitFor();
			await shot(page, `source-functions-${size}`);
			if (size === "390") assert.deepEqual(await axe(page), []);
			const name = page.locator(".functions .row [role=gridcell]").nth(2);
			const chosen = await name.getAttribute("title");
			await name.click();
			await page.waitForFunction((n) => new URLSearchParams(location.search).get("name") === n, chosen);
		}
		await page.locator(".source tbody tr").first().waitFor({ timeout: 60_000 });
		await shot(page, `source-${size}`);
		assert.deepEqual(await axe(page), []);
		assert.deepEqual(lines, []);
		await close();
	});

test("the values of a label are the first frames; one of them becomes the filter", async () => {
	const { page, lines, close } = await open("/?group=thread.name");
	await drawn(page, ".graph canvas", 5);
	const whole = (await state(page)).total;
	assert.ok((await state(page)).groups > 3);
	await shot(page, "group-1440");
	const box = await page.locator(".graph").boundingBox();
	await page.mouse.click(box.x + 60, box.y + 18 + 9, { button: "right" });
	await page.getByRole("menuitem", { name: "Only this value" }).click();
	await page.waitForFunction(() => window.__state.query.startsWith('{thread.name="'));
	await settled(page);
	await page.waitForFunction((t) => window.__state.total > 0 && window.__state.total < t, whole);
	assert.deepEqual(lines, []);
	await close();
});

/** Drops files with these names and contents. */
const dropOn = (page) => (...of) =>
	page.evaluate((all) => {
		const data = new DataTransfer();
		for (let i = 0; i < all.length; i += 2) data.items.add(new File([all[i + 1]], all[i]));
		for (const type of ["dragover", "drop"]) document.body.dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }));
	}, of);

test("of files that come together each is taken, and what is none is named", async () => {
	const { page, lines, close } = await open();
	const total = (want) => page.waitForFunction((t) => window.__state.total === t && window.__state.loading === false, want, { timeout: 60_000 });
	await dropOn(page)("both_a.folded", "main;both_a 71\n", "both_none.png", "\x89PNG\r\n\x1a\n", "both_b.folded", "main;both_b 72\n", "both_again.folded", "main;both_a 71\n");
	const note = page.getByLabel("Upload", { exact: true });
	await note.getByText("2 files were read").waitFor({ timeout: 60_000 });
	await note.getByText("both_none.png can't be shown.").waitFor();
	await total(71);
	const named = note.locator(".segments button");
	assert.deepEqual(await named.allInnerTexts(), ["both_a.folded", "both_b.folded"]);
	assert.deepEqual(await axe(page), []);
	await shot(page, "upload-two-1440");
	await named.nth(1).click();
	await total(72);
	assert.equal(await named.nth(1).getAttribute("aria-pressed"), "true");
	await note.getByRole("button", { name: "dismiss" }).click();
	await note.waitFor({ state: "detached" });
	const file = (name, text) => ({ name, mimeType: "text/plain", buffer: Buffer.from(text) });
	await page.locator("input[type=file]").setInputFiles([file("both_c.folded", "main;both_c 73\n"), file("both_d.folded", "main;both_d 74\n")]);
	await note.getByText("2 files were read").waitFor({ timeout: 60_000 });
	await total(73);
	assert.deepEqual(lines.filter((l) => !/Failed to load resource/.test(l)), []);
	await close();
});

test("a file that is dropped is looked at; the way back is there", async () => {
	const { page, lines, close } = await open();
	const whole = (await state(page)).total;
	const drop = dropOn(page);
	await drop("calls.folded", "main;work;sum 30\nmain;work;read 12\nmain;\u202erest 8\n");
	await page.waitForFunction(() => window.__state.query.startsWith("{upload.id="));
	await settled(page);
	await page.getByText("calls.folded").first().waitFor();
	assert.equal((await state(page)).total, 50);
	const odd = page.locator(".top-pane .row", { hasText: "\ufffdrest" });
	await odd.waitFor(); // a sign that turns the text around is shown and not obeyed
	await odd.click({ button: "right" });
	await page.getByRole("menuitem", { name: /^Focus/ }).click();
	await page.waitForFunction(() => window.__state.total === 8);
	await page.locator(".chips button").click();
	await page.waitForFunction(() => window.__state.total === 50);
	await shot(page, "upload-1440");
	assert.deepEqual(await axe(page), []);
	assert.deepEqual(lines, []);
	await page.getByRole("button", { name: "back to the store" }).click();
	await page.waitForFunction((t) => window.__state.total === t, whole);
	await drop("picture.png", "\x89PNG\r\n\x1a\n");
	await page.getByText("This file can't be shown.").waitFor();
	await shot(page, "upload-refused-1440");
	assert.equal((await state(page)).total, whole);
	await page.getByRole("button", { name: "Open a file" }).click();
	await page.locator(".popup-body").getByText("calls.folded").waitFor();
	assert.deepEqual(await axe(page), []);
	await close();
});

test("`other` opens on all that is in it; the URL holds it, Backspace and another view leave it", async () => {
	const leaves = 20_000;
	const body = `${Array.from({ length: leaves }, (_, i) => `main;alpha;leaf_${i} 1`).join("\n")}\nmain;beta;x ${leaves}\n`;
	const { query } = await (await fetch(`${url}/api/v1/upload?name=leaves.folded`, { method: "POST", body })).json();
	const { page, lines, close } = await open(`/?layout=graph&query=${encodeURIComponent(query)}`, { width: 790, height: 800 });
	const shown = (total, more) => page.waitForFunction(([t, m]) => window.__state?.total === t && window.__state.loading === false && window.__state.nodes > m, [total, more], { timeout: 60_000 });
	const click = async () => {
		await shown(2 * leaves, 0);
		assert.ok((await state(page)).nodes < leaves, "so narrow that not all is drawn");
		const box = await page.locator(".graph").boundingBox();
		for (const end = Date.now() + 60_000; Date.now() < end; )
			for (let x = 5; x < box.width; x += 30) {
				await page.mouse.move(box.x + x, box.y + 18 * 3 + 9);
				const name = page.locator(".tooltip .name");
				if (!(await name.count()) || (await name.innerText()) !== "other") continue;
				await page.mouse.click(box.x + x, box.y + 18 * 3 + 9);
				return shown(leaves, leaves);
			}
		assert.fail("nothing was merged");
	};
	await click();
	assert.match(page.url(), /root=[0-9a-f.]+/);
	await page.getByText(/One part, opened: 20/).waitFor();
	await page.reload();
	await shown(leaves, leaves);
	await page.keyboard.press("Backspace");
	await shown(2 * leaves, 0);
	assert.ok(!page.url().includes("root="));
	await click();
	await page.keyboard.press("v");
	await settled(page, "inverted");
	await shown(2 * leaves, 0);
	assert.deepEqual(lines, []);
	await close();
});

test("a report is the page in one file, offline", async () => {
	const { page, close } = await open("/?view=diff&search=runtime");
	const s = await state(page);
	const found = page.locator(".matched[title^='of all stacks']", { hasText: "→" });
	await found.waitFor();
	const share = await found.innerText();
	await page.getByRole("button", { name: "Share" }).click();
	const href = await page.getByRole("link", { name: /Download a report/ }).getAttribute("href");
	const got = await page.request.get(url + href);
	assert.equal(got.status(), 200);
	const bytes = await got.body();
	await close();
	assert.ok(bytes.length < 1_000_000, `${bytes.length} bytes`);
	const file = join(mkdtempSync(join(tmpdir(), "flametap-report-")), "report.html");
	writeFileSync(file, bytes);

	for (const [size, options] of [["1440", {}], ["390-dark", { dark: true, width: 390, height: 844 }]]) {
		const context = await browser.newContext({ viewport: { width: 1440, height: 900, ...options }, colorScheme: options.dark ? "dark" : "light", offline: true, reducedMotion: "reduce" });
		const report = await context.newPage();
		const lines = [];
		listen(report, lines);
		report.on("pageerror", (error) => lines.push(`error: ${error.message}`));
		report.on("request", (request) => /^(file|data):/.test(request.url()) || lines.push(`asked: ${request.url()}`));
		await report.goto(`file://${file}`);
		await settled(report, "diff");
		await drawn(report, ".graph canvas", 4);
		assert.deepEqual([(await state(report)).total, (await state(report)).total2, (await state(report)).search], [s.total, s.total2, "runtime"]);
		assert.equal(await report.locator(".matched[title^='of all stacks']").innerText(), share);
		await shot(report, `report-${size}`);
		for (const [key, view] of [["i", "icicle"], ["v", "inverted"], ["t", "time"], ["h", "heat"], ["r", "raw"], ["f", "flame"]]) {
			await report.locator("body").press(key);
			await settled(report, view);
			if (size === "1440") assert.deepEqual(await axe(report), [], view);
		}
		if (size === "1440") {
			await report.locator(".top-pane .row").first().click({ button: "right" });
			await report.getByRole("menuitem", { name: /^Sandwich/ }).click();
			await report.waitForFunction(() => document.querySelectorAll(".sandwich .graph").length === 2);
			const labels = await report.locator(".sandwich section").evaluateAll((all) => all.map((e) => e.getAttribute("aria-label").split(": ").pop()));
			assert.equal(labels[0], labels[1]);
			await shot(report, "report-sandwich-1440");
			await report.goBack();
			await settled(report, "flame");
		}
		assert.deepEqual(lines, []);
		await context.close();
	}
	writeFileSync(file, bytes.subarray(0, bytes.length - 200_000));
	const context = await browser.newContext();
	const broken = await context.newPage();
	await broken.goto(`file://${file}`);
	assert.equal(await broken.locator(".graph").count(), 0, "a report that was cut shows nothing wrong");
	await context.close();
	rmSync(dirname(file), { recursive: true });
});

test("the filter completes names and values, and narrows", async () => {
	const { page, close } = await open();
	const whole = (await state(page)).total;
	let asked = 0;
	page.on("request", (request) => (asked += /v1\/labels/.test(request.url()) ? 1 : 0));
	await page.keyboard.press("g");
	await page.keyboard.type("thread.na");
	await page.locator('[role="option"]').first().waitFor();
	await page.keyboard.press("ArrowDown");
	await page.keyboard.press("Enter");
	await page.locator('[role="option"] .hint', { hasText: "samples" }).first().waitFor();
	await page.keyboard.press("ArrowDown");
	await page.keyboard.press("Enter");
	await page.keyboard.press("Enter");
	await page.waitForFunction(() => window.__state.query.includes("thread.name="));
	await settled(page);
	const narrowed = (await state(page)).total;
	assert.ok(narrowed > 0 && narrowed < whole, `${narrowed} of ${whole}`);
	assert.ok(asked >= 1 && asked <= 3, `labels are asked for once in half a minute, not for each of ten keys: ${asked} times`);
	const samples = (await state(page)).samples;
	assert.equal(await page.locator("footer span").first().textContent(), `${samples.toLocaleString("en-US")} samples`, "of what is selected");
	await shot(page, "filter-1440");
	await close();
});

test("the program looks for a value as it is typed, not at each key", async () => {
	const { page, close } = await open();
	const matches = [];
	page.on("request", (request) => request.url().includes("/label-values?") && matches.push(new URL(request.url()).searchParams.get("match")));
	await page.keyboard.press("g");
	const found = page.waitForRequest((request) => request.url().includes("match=nosuchthread"));
	await page.keyboard.type('thread.name="nosuchthread', { delay: 5 });
	await found;
	assert.equal(matches.at(-1), "nosuchthread");
	assert.ok(matches.length < 6, `asked for ${matches.join(", ")}`);
	await close();
});

test("an error says what and where; the old picture stays", async () => {
	const { page, close } = await open();
	await page.evaluate(() => {
		history.pushState(null, "", '/?query={a="');
		dispatchEvent(new PopStateEvent("popstate"));
	});
	await page.locator(".state.error").first().waitFor();
	assert.ok((await page.locator(".graph canvas").count()) > 0);
	await shot(page, "error-1440");
	await page.goto(`${url}/?from=nonsense`);
	await page.locator(".state.error p").first().waitFor();
	await shot(page, "refused-1440");
	await page.getByRole("button", { name: "The last 15 minutes with data" }).click();
	await page.waitForFunction(() => window.__state?.total > 0);
	await close();
});

test("transforms are seen, asked for and taken away in every view and layout", async () => {
	const { page, lines, close } = await open();
	const whole = (await state(page)).total;
	const name = "runtime.mallocgc";
	const asked = [];
	page.on("request", (request) => /api\/v1\/(flamegraph|diff|top|timeline|chart|heatmap|raw|sandwich|source|search)/.test(request.url()) && asked.push(request.url()));
	for (const path of ["", "view=diff", "view=time", "view=heat", "view=raw", "view=source", `view=source&name=${name}`, "view=sandwich", `view=sandwich&name=${name}`, "layout=table", "view=diff&layout=table"]) {
		await page.goto("about:blank"); // what the page before still asks for is not this one's
		asked.length = 0;
		await page.goto(`${url}/?${path}&x=${encodeURIComponent(`focus:^${name}$`)}`);
		await settled(page);
		const remove = page.getByRole("button", { name: /^Remove: only stacks with/ });
		await remove.waitFor();
		assert.ok(await remove.isVisible(), path);
		if (path === "view=heat" || path === "layout=table") assert.deepEqual(await axe(page), [], path);
		assert.deepEqual(asked.filter((question) => !question.includes("x=focus")), [], `${path}: one selection everywhere`);
		await remove.click();
		await remove.waitFor({ state: "detached" });
		assert.ok(!page.url().includes("x="), path);
	}
	await page.goto(`${url}/`);
	await page.waitForFunction((t) => window.__state?.total === t, whole);
	assert.deepEqual(lines, []);
	await close();
});

test("files without times: nothing is drawn along a time, and a diff is of two files", async () => {
	const { page, lines, close } = await open();
	const names = ["timeless_a.folded", "timeless_b.folded"];
	await dropOn(page)(names[0], "main;work;sum 30\nmain;read 10\n", names[1], "main;work;sum 10\nmain;read 10\n");
	await page.waitForFunction(() => window.__state.total === 40 && window.__state.loading === false, null, { timeout: 60_000 });
	for (const view of ["time", "heat"]) {
		await page.locator("body").press(view[0]);
		await page.getByText("These samples have no times").waitFor();
		assert.equal(await page.locator(".chart, .heat").count(), 0, "no made-up lanes or columns");
		assert.deepEqual(await axe(page), []);
		await shot(page, `timeless-${view}-1440`);
	}
	await page.locator("body").press("i");
	await page.locator(".graph").waitFor();
	await page.locator("body").press("d");
	await page.getByText("No moment parts them").waitFor();
	assert.equal(await page.locator(".graph").count(), 0, "not a whole against nothing");
	assert.deepEqual(await axe(page), []);
	await shot(page, "timeless-diff-1440");
	await page.getByRole("button", { name: `With the file ${names[1]}` }).click();
	await page.waitForFunction(() => window.__state.total === 40 && window.__state.total2 === 20 && window.__state.loading === false, null, { timeout: 60_000 });
	await page.reload();
	await page.waitForFunction(() => window.__state?.total === 40 && window.__state.total2 === 20, null, { timeout: 60_000 });
	assert.deepEqual(lines, []);
	await close();
});

test("[ and ] move both sides of a diff alike, and times of RFC 3339 are times", async () => {
	const { page, lines, close } = await open();
	const { types: [{ first, last }] } = await (await page.request.get(`${url}/api/v1/status`)).json();
	const whole = (await state(page)).total;
	const rfc = (ns) => new Date(Number(ns) / 1e6).toISOString();
	await page.goto(`${url}/?view=diff&from=${rfc(BigInt(first) - 10_000_000_000n)}&to=${rfc(BigInt(last) + 10_000_000_000n)}`);
	await settled(page, "diff");
	const { total, total2 } = await state(page);
	assert.equal(total + total2, whole, "not the window against itself");
	const sides = () => page.evaluate(() => ["from", "to", "from2", "to2"].map((key) => new URLSearchParams(location.search).get(key)));
	const [from, to, from2, to2] = (await sides()).map(BigInt);
	await page.locator("body").press("[");
	await page.waitForFunction((old) => new URLSearchParams(location.search).get("from") !== old, String(from));
	const step = (to - from) / 2n;
	assert.deepEqual((await sides()).map(BigInt), [from, to, from2, to2].map((t) => t - step));
	await page.goto(`${url}/?from=now-90m&to=now-30m`);
	await page.locator(".bar").waitFor();
	await page.locator("body").press("[");
	await page.waitForFunction(() => /from=\d{19}&/.test(location.search));
	const p = new URL(page.url()).searchParams;
	assert.equal(BigInt(p.get("to")) - BigInt(p.get("from")), 3_600_000_000_000n, "as long as it was");
	await page.goto(`${url}/?from=now-15m&to=now`);
	await page.locator(".bar").waitFor();
	await page.locator("body").press("]");
	await page.getByRole("status").getByText("This window ends now").waitFor();
	assert.deepEqual(lines, []);
	await close();
});

test("what copies says so; a clipboard that is refused, too", async () => {
	const { page, lines, close } = await open();
	await page.evaluate(() => Object.defineProperty(navigator.clipboard, "writeText", { configurable: true, value: async (text) => void (window.copied = text) }));
	await page.locator("body").press("y");
	await page.getByRole("status").getByText("Copied: the link").waitFor();
	assert.match(await page.evaluate(() => window.copied), /^http/);
	assert.deepEqual(await axe(page), []);
	await page.evaluate(() => Object.defineProperty(navigator.clipboard, "writeText", { configurable: true, value: () => Promise.reject(new Error("no")) }));
	await page.getByTitle("Share").click();
	await page.getByRole("button", { name: /^Copy the link/ }).click();
	await page.getByText("The browser refused to copy the link").waitFor();
	assert.match(await page.locator(".said code").innerText(), /^http/);
	await shot(page, "refused-copy-1440");
	await page.locator(".said").getByRole("button", { name: "Close" }).click();
	await page.locator(".said").waitFor({ state: "detached" });
	assert.deepEqual(lines, []);
	await close();
});

test("a word in the filter that is no matcher is refused there, with what was meant", async () => {
	const { page, close } = await open();
	const before = await state(page);
	const input = page.getByRole("combobox", { name: "Filter by labels" });
	await page.locator("body").press("g");
	await input.fill("bench");
	await input.press("Enter");
	await page.getByRole("alert").getByText("is no matcher").waitFor();
	assert.equal(await input.getAttribute("aria-invalid"), "true");
	assert.equal(new URL(page.url()).searchParams.get("query"), null, "everything is not shown as if it was filtered");
	assert.deepEqual(await axe(page), []);
	await shot(page, "filter-refused-1440");
	await input.press("ArrowDown");
	await input.press("Enter");
	await page.waitForFunction(() => window.__state.query === '{process.executable.name="bench"}' || window.__state.query === 'process.executable.name="bench"');
	assert.equal(await input.getAttribute("aria-invalid"), "false");
	await input.fill('{a="');
	await input.press("Enter");
	await page.getByRole("alert").getByText("never closes").waitFor();
	await input.fill("");
	await input.press("Enter");
	await page.waitForFunction((t) => window.__state.query === "" && window.__state.total === t, before.total);
	await close();
});

test("on a phone a refused filter and long transforms stay in sight", async () => {
	const { page, close } = await open("/?query=busy_c", { width: 390, height: 844, dark: true });
	await page.getByRole("button", { name: "Without the filter" }).waitFor();
	assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
	assert.equal(await page.getByRole("button", { name: "The last 15 minutes" }).count(), 0, "the time is not to blame");
	assert.deepEqual(await axe(page), []);
	await shot(page, "refused-390-dark");
	await page.goto(`${url}/?view=raw&x=${encodeURIComponent("hide:binary:^/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0$")}`);
	await settled(page, "raw");
	assert.ok(await page.locator(".chips li button").evaluate((b) => b.getBoundingClientRect().right <= innerWidth));
	await shot(page, "chips-390-dark");
	await close();
});

test("rows of the table are said, and have their menu and their sandwich by keys", async () => {
	const { page, lines, close } = await open();
	const table = page.locator(".top-pane .table");
	await table.focus();
	await page.keyboard.press("ArrowDown");
	const row = await table.getAttribute("aria-activedescendant");
	const name = await page.locator(`[id="${row}"] .cell`).last().getAttribute("title");
	assert.ok(name, row);
	await page.keyboard.press("Shift+F10");
	await page.getByRole("menuitem", { name: /^Sandwich/ }).waitFor();
	await page.keyboard.press("Escape");
	assert.deepEqual(await axe(page), []);
	await page.keyboard.press("s");
	await page.waitForFunction((n) => window.__state.view === "sandwich" && new URLSearchParams(location.search).get("name") === n, name.split("\n")[0]);
	assert.deepEqual(lines, []);
	await close();
});

test("what keys walk to and a search finds has its numbers, and keys act on it", async () => {
	const { page, lines, close } = await open();
	await page.keyboard.press("ArrowDown");
	await page.keyboard.press("ArrowDown");
	await page.locator(".tooltip dd").first().waitFor();
	assert.match(await page.locator('.graph [role="status"]').innerText(), /: total .* %; self .* %, level 2/);
	assert.deepEqual(await axe(page), []);
	await shot(page, "walked-1440");
	await page.keyboard.press("/");
	await page.locator(".tooltip").waitFor({ state: "detached" });
	await page.keyboard.type("^runtime\\.mallocgc$");
	await page.keyboard.press("Enter");
	await page.locator(".matched", { hasText: "1 of " }).waitFor();
	await page.locator("#search").evaluate((e) => e.blur());
	await page.keyboard.press("s");
	await page.waitForFunction(() => window.__state.view === "sandwich" && new URLSearchParams(location.search).get("name") === "runtime.mallocgc");
	await page.goBack();
	await settled(page, "icicle");
	await page.keyboard.press("n");
	await page.keyboard.press("Enter");
	await page.waitForFunction(() => window.__state.zoom !== "");
	assert.deepEqual(lines, []);
	await close();
});

test("what has data is said of the window that was asked for", async () => {
	const { page, lines, close } = await open();
	const { types: [{ first, last }] } = await (await page.request.get(`${url}/api/v1/status`)).json();
	const from = String(BigInt(first) - 100_000_000_000n);
	await page.goto(`${url}/?view=time&from=${from}&to=${last}`);
	await settled(page, "time");
	await page.locator(".spells").getByText(/^Only \d\S* s of these 2\.00 min have data/).waitFor();
	assert.deepEqual(lines, []);
	await close();
});

test("a page on an empty store says that its program is gone, and that it is back", async () => {
	const { page, close } = await open();
	let gone = false;
	const status = { version: "x", now_ns: "1795385260000000000", from: "", to: "", asof: "0", types: [], store: { kind: "sqlite", path: "x" }, agent: { running: false, reason: "" } };
	await page.route("**/api/v1/**", (route) => (gone ? route.abort() : /status/.test(route.request().url()) ? route.fulfill({ json: status }) : route.fulfill({ status: 404, json: { error: { what: "nothing", hint: "" } } })));
	await page.goto(`${url}/`);
	await page.getByText("No profile has come yet").waitFor();
	await page.getByText("stop this one (Ctrl-C), then").waitFor();
	await page.getByText("flametap up --demo --listen 127.0.0.1:0 --grpc-address '' --http-address ''", { exact: true }).waitFor(); // its port is this page's
	gone = true;
	await page.getByRole("alert").getByText("flametap does not answer").waitFor();
	gone = false;
	await page.getByText("No profile has come yet").waitFor();
	await close();
});

test("a store that takes nothing is said, and that it takes again", async () => {
	const { page, close } = await open();
	const failing = { since_ns: "1795385260000000000", error: "database or disk is full", refused: 12 };
	let full = true;
	const well = await (await page.request.get(`${url}/api/v1/status`)).json();
	await page.route("**/api/v1/status**", (route) => route.fulfill({ json: { ...well, store: { ...well.store, ...(full ? { failing } : {}) } } }));
	await page.route("**/api/v1/live**", (route) => route.fulfill({ contentType: "text/event-stream", body: `retry: 200\nevent: store\ndata: ${JSON.stringify(full ? { failing } : {})}\n\n` }));
	await page.goto(`${url}/`);
	const said = page.getByRole("alert").getByText("the store takes nothing, database or disk is full (12 requests were refused)");
	await said.waitFor();
	assert.deepEqual(await axe(page), []);
	await shot(page, "store-full-1440");
	await page.locator("body").press("l");
	await page.waitForFunction(() => window.__state.live);
	await said.waitFor();
	assert.equal(await page.locator(".live.on").count(), 0, "the light is off");
	full = false;
	await said.waitFor({ state: "detached" });
	await close();
});

test("pop-ups close as they are left, the page has a name, and Tab a way past the bar", async () => {
	const { page, lines, close } = await open("/?view=heat");
	assert.match(await page.title(), /process_cpu · heat · flametap/);
	assert.ok(await page.locator(".views label", { hasText: "colour" }).isHidden(), "what changes nothing is not there");
	await page.keyboard.press("Tab");
	await page.getByRole("button", { name: "To the picture" }).press("Enter");
	assert.ok(await page.evaluate(() => document.activeElement.matches(".heat-box")));
	await page.getByTitle("Time", { exact: true }).click();
	const popup = page.locator(".popup-body");
	const before = page.url();
	await page.getByRole("button", { name: "Show" }).click();
	await popup.waitFor({ state: "detached" });
	const exact = /from=(\d+)/.exec(page.url())?.[1];
	assert.ok(page.url() === before || !exact || !exact.endsWith("000000000"), "what was not touched is not cut to seconds");
	await page.getByTitle("Profile type", { exact: true }).click();
	await popup.waitFor();
	await page.keyboard.press("r");
	assert.equal((await state(page)).view, "heat", "keys are the pop-up's");
	for (let i = 0; i < 3; i++) await page.keyboard.press("Tab");
	await popup.waitFor({ state: "detached" });
	assert.deepEqual(lines, []);
	await close();
});

test("what the table is sorted by is in the URL", async () => {
	const { page, lines, close } = await open();
	await page.getByRole("columnheader", { name: "total" }).getByRole("button").click();
	const sorted = page.locator('.top-pane [aria-sort="descending"]', { hasText: "total" });
	await sorted.waitFor();
	assert.match(page.url(), /sort=total/);
	await page.reload();
	await settled(page);
	await sorted.waitFor();
	await page.locator("body").press("d");
	await settled(page, "diff");
	await page.locator('.top-pane [aria-sort="descending"]', { hasText: "points" }).waitFor(); // the usual of a diff
	assert.deepEqual(lines, []);
	await close();
});

test("nothing in the selection says what to do next", async () => {
	const { page, close } = await open("/?query=" + encodeURIComponent('{service.name="there is none"}'));
	await page.getByText("Nothing in this selection").first().waitFor();
	await shot(page, "empty-1440");
	await page.getByRole("button", { name: "Without the filter" }).click();
	await page.waitForFunction(() => window.__state.total > 0);
	await close();
});
