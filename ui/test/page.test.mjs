// page.test.mjs - drives the page in a real Chromium: FLAMETAP_URL=http://127.0.0.1:4040 [SHOTS=folder]
// node --test test/. Every view is looked at: its state, its console, its accessibility, and a screenshot of it.
import assert from "node:assert/strict";
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

async function axe(page) {
	await page.evaluate(axeSource);
	const result = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
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

test("opens on the graph, without a word in the console", async () => {
	const { page, lines, close } = await open();
	const s = await state(page);
	assert.ok(s.total > 0, `total is ${s.total}`);
	assert.ok(s.nodes > 10 && s.rows > 0);
	await drawn(page, ".graph canvas", 5);
	assert.deepEqual(lines, []);
	await close();
});

for (const view of ["icicle", "flame", "inverted", "diff", "time", "heat", "raw"])
	for (const [size, options] of [["1440", {}], ["1440-dark", { dark: true }], ["390", { width: 390, height: 844 }]])
		test(`${view} at ${size}: drawn, silent, accessible`, async () => {
			const { page, lines, close } = await open(`/?view=${view}`, options);
			await settled(page, view);
			if (["icicle", "flame", "inverted", "diff"].includes(view)) await drawn(page, ".graph canvas", 4);
			if (view === "time") await drawn(page, ".chart-box canvas", 6);
			if (view === "heat") await drawn(page, ".heat-box canvas", 2);
			if (view === "raw") assert.ok((await page.locator(".raw .row").count()) > 3);
			await shot(page, `${view}-${size}`);
			assert.deepEqual(await axe(page), []);
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

test("arrow keys walk and Enter zooms", async () => {
	const { page, close } = await open();
	await page.locator(".graph").focus();
	for (const key of ["ArrowDown", "ArrowDown", "ArrowDown", "Enter"]) await page.keyboard.press(key);
	await page.waitForFunction(() => window.__state.zoom !== "");
	await close();
});

test("search finds by regular expression and says its share", async () => {
	const { page, close } = await open();
	await page.keyboard.press("/");
	await page.keyboard.type(".");
	await page.waitForFunction(() => document.querySelector(".matched")?.textContent?.includes("100"));
	await page.keyboard.type("(");
	assert.equal(await page.locator(".matched").count(), 0, "a half-typed expression finds nothing and breaks nothing");
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
	assert.deepEqual(await axe(page), []);
	await shot(page, "sandwich-1440");
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

test("the sides of a diff: both are counted, and two values of a label are compared", async () => {
	const { page, lines, close } = await open();
	const whole = (await state(page)).total;
	const samples = Number((await page.locator("footer span").first().textContent()).replace(/\D/g, ""));
	await page.keyboard.press("d");
	await settled(page, "diff");
	await page.waitForFunction((t) => window.__state.total > 0 && window.__state.total + window.__state.total2 === t, whole);
	const [before, after] = (await page.locator("footer span").first().textContent()).split("→").map((t) => Number(t.replace(/\D/g, "")));
	assert.ok(before > 0 && after > 0 && before + after === samples, `${before} and ${after} of ${samples}`);
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
	assert.equal(await page.locator(".timeline").count(), 2, "each side has its timeline");
	assert.deepEqual(await axe(page), []);
	await shot(page, "compare-values-1440");
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
	assert.ok((await page.locator(".chart caption + tbody tr").count()) > 3);
	await close();
});

for (const [size, options] of [["1440", {}], ["1440-dark", { dark: true }], ["390", { width: 390, height: 844 }]])
	test(`lines of a function's file at ${size}`, async () => {
		const { page, lines, close } = await open("/?view=source&name=runtime.selectgo", options);
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

test("a file that is dropped is looked at; the way back is there", async () => {
	const { page, lines, close } = await open();
	const whole = (await state(page)).total;
	const drop = (name, text) =>
		page.evaluate(([n, t]) => {
			const data = new DataTransfer();
			data.items.add(new File([t], n));
			for (const type of ["dragover", "drop"]) document.body.dispatchEvent(new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true }));
		}, [name, text]);
	await drop("calls.folded", "main;work;sum 30\nmain;work;read 12\nmain;rest 8\n");
	await page.waitForFunction(() => window.__state.query.startsWith("{upload.id="));
	await settled(page);
	await page.getByText("calls.folded").first().waitFor();
	assert.equal((await state(page)).total, 50);
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

test("a report is the page in one file, offline", async () => {
	const { page, close } = await open("/?view=diff&search=runtime");
	const s = await state(page);
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
		await shot(report, `report-${size}`);
		for (const [key, view] of [["i", "icicle"], ["v", "inverted"], ["t", "time"], ["h", "heat"], ["r", "raw"], ["f", "flame"]]) {
			await report.locator("body").press(key);
			await settled(report, view);
			assert.deepEqual(await axe(report), [], view);
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
	await shot(page, "filter-1440");
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
