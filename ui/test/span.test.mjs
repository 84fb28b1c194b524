// span.test.mjs - the page of one span: FLAMETAP_SPANS=http://127.0.0.1:4040 of a `flametap view` on samples that have links.
import assert from "node:assert/strict";
import { test } from "node:test";
import { chromium } from "playwright-core";

const url = process.env.FLAMETAP_SPANS;

test("a sample's link opens its span; what is no id is said", { skip: !url && "FLAMETAP_SPANS is not set" }, async () => {
	const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
	const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 }, reducedMotion: "reduce" })).newPage();
	const lines = [];
	page.on("console", (message) => lines.push(message.text()));
	page.on("pageerror", (error) => lines.push(error.message));
	const shown = () => page.waitForFunction(() => window.__state?.loading === false && window.__state.total !== null, null, { timeout: 60_000 });
	try {
		const { types } = await (await fetch(`${url}/api/v1/status`)).json();
		let linked = null;
		let type = null;
		for (const t of types) {
			const { rows } = await (await fetch(`${url}/api/v1/raw?${new URLSearchParams({ type: t.id, from: "0" })}`)).json();
			linked ??= rows.find((row) => ((type = t.id), row.link))?.link;
			if (linked) break;
		}
		assert.ok(linked, "a sample with a link");
		const path = `/span/${linked.trace_id}/${linked.span_id}`;
		const want = await (await fetch(`${url}/api/v1/top?${new URLSearchParams({ type, from: "0", trace: linked.trace_id, span: linked.span_id })}`)).json();
		assert.ok(want.total > 0);
		await page.goto(`${url}${path}?type=${encodeURIComponent(type)}`);
		await shown();
		assert.equal(await page.evaluate(() => window.__state.total), want.total);
		await page.getByText(linked.span_id).first().waitFor();
		assert.deepEqual(lines, []);
		if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/span-1440.png` });

		/* From the raw samples: the link keeps the type. */
		await page.goto(`${url}${path}?view=raw&type=${encodeURIComponent(type)}`);
		await page.locator(".raw .row").first().click();
		const href = await page.locator(".detail a").getAttribute("href");
		assert.equal(href, `${path}?${new URLSearchParams({ type })}`);
		await page.getByRole("button", { name: "all samples" }).click();
		await page.waitForFunction(() => !document.querySelector('aside[aria-label="One span is shown"]'));
		assert.deepEqual(lines, []);

		await page.goto(`${url}/span/abc/def`);
		await page.locator(".state.error").first().waitFor({ timeout: 60_000 });
	} finally {
		await browser.close();
	}
});
