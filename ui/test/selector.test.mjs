// selector.test.mjs - selectors as text (ui/src/selector.ts), and in the page on labels with odd names: FLAMETAP_ODD=http://127.0.0.1:4040 of a
// `flametap view` on such a file (tests/test_page.py makes it).
import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { chromium } from "playwright-core";

const source = join(dirname(fileURLToPath(import.meta.url)), "../src/selector.ts");
const { outputFiles } = await build({ entryPoints: [source], bundle: true, format: "esm", write: false });
const { matcher, withMatcher, cursorContext, cursorEnd } = await import(`data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`);

test("names and values survive", () => {
	for (const [name, value, want] of [
		["thread.name", "w 1", 'thread.name="w 1"'],
		["k8s.io/name-x", "", 'k8s.io/name-x=""'],
		["odd name", "x", '"odd name"="x"'],
		['q"uo', "b\\s", '"q\\"uo"="b\\\\s"'],
		["größe", "1", '"größe"="1"'],
		["a=b,c{}", "}\n,", '"a=b,c{}"="}\\n,"'],
		["2x", "1", '"2x"="1"'],
	])
		assert.equal(matcher(name, "=", value), want);
});

test("a matcher is added to whatever stands there", () => {
	for (const [before, want] of [
		["", '{x="1"}'],
		["{}", '{x="1"}'],
		['{a="b"}', '{a="b", x="1"}'],
		['{a="b",}', '{a="b", x="1"}'],
		['a="b"', '{a="b", x="1"}'],
		['{a="}"}', '{a="}", x="1"}'],
		['{"a{"=~"{.*}"}', '{"a{"=~"{.*}", x="1"}'],
		["cpu", 'cpu{x="1"}'],
		['process_cpu:cpu:nanoseconds:cpu:nanoseconds{a="b"} ', 'process_cpu:cpu:nanoseconds:cpu:nanoseconds{a="b", x="1"}'],
		['{a="\\"}"', '{a="\\"}", x="1"}'],
	])
		assert.equal(withMatcher(before, 'x="1"'), want, before);
});

test("what is typed at the cursor", () => {
	for (const [text, kind, name, typed, from] of [
		["", "name", "", "", 0],
		["{thr", "name", "", "thr", 1],
		['{a="b", se', "name", "", "se", 8],
		['{a="', "value", "a", "", 3],
		["{a=", "value", "a", "", 3],
		['{a=~"x\\"y', "value", "a", 'x"y', 4],
		['{"odd \\"name"="v', "value", 'odd "name', "v", 14],
		['{"odd na', "name", "", "odd na", 1],
		['{a="b,c", d!="e', "value", "d", "e", 13],
	]) {
		assert.deepEqual(cursorContext(text, text.length), { kind, name, typed, from }, text);
	}
	assert.equal(cursorEnd('{a="b c", d="e"}', 3, 5), 8);
	assert.equal(cursorEnd("{abc=", 1, 2), 4);
});

const url = process.env.FLAMETAP_ODD;

test("each value of a label with an odd name becomes the filter", { skip: !url && "FLAMETAP_ODD is not set" }, async () => {
	const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
	try {
		const names = (await (await fetch(`${url}/api/v1/labels?from=0`)).json()).map((l) => l.name).filter((n) => /[^\w.]/.test(n));
		assert.equal(names.length, 5, names.join(" "));
		const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce" })).newPage();
		const lines = [];
		page.on("console", (message) => lines.push(message.text()));
		page.on("pageerror", (error) => lines.push(error.message));
		const settled = () => page.waitForFunction(() => window.__state?.loading === false && window.__state.total !== null && !document.querySelector(".show.loading"), null, { timeout: 60_000 });
		for (const name of names) {
			const { values } = await (await fetch(`${url}/api/v1/label-values?${new URLSearchParams({ from: "0", name })}`)).json();
			await page.goto(`${url}/?${new URLSearchParams({ group: name })}`);
			await settled();
			const box = await page.locator(".graph").boundingBox();
			await page.mouse.click(box.x + 60, box.y + 18 + 9, { button: "right" });
			await page.getByRole("menuitem", { name: "Only this value" }).click();
			await page.waitForFunction(() => window.__state.query !== "");
			await settled();
			const { total, query } = await page.evaluate(() => window.__state);
			assert.equal(total, Math.max(...values.map((v) => v.sum)), `${name}: ${query}`);
			assert.equal(await page.locator(".state.error").count(), 0);
			if (process.env.SHOTS && name === names[0]) await page.screenshot({ path: `${process.env.SHOTS}/odd-labels-1440.png` });
		}
		assert.deepEqual(lines, []);

		/* The filter's completion quotes them as well. */
		await page.goto(url);
		await settled();
		await page.keyboard.press("g");
		await page.keyboard.type("quoted");
		await page.locator('[role="option"]').first().waitFor();
		await page.keyboard.press("ArrowDown");
		await page.keyboard.press("Enter");
		await page.locator('[role="option"] .hint', { hasText: "samples" }).first().waitFor();
		await page.keyboard.press("ArrowDown");
		await page.keyboard.press("Enter");
		await page.keyboard.press("Enter");
		await page.waitForFunction(() => window.__state.query !== "");
		await settled();
		assert.ok((await page.evaluate(() => window.__state.total)) > 0);
	} finally {
		await browser.close();
	}
});
