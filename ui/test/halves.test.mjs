// halves.test.mjs - what the sides of a diff are (ui/src/halves.ts).
import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const resolveDir = join(dirname(fileURLToPath(import.meta.url)), "../src");
const { outputFiles } = await build({ stdin: { contents: 'export * from "./halves"; export * from "./state";', resolveDir }, bundle: true, format: "esm", write: false });
globalThis.document = { getElementById: () => null };
const { diffState, leaving, parseState, stateURL, windowOf } = await import(`data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`);

test("a window that ends now ends now, not when the status came", () => {
	const state = { from: "now-15m", to: "now" };
	const now_ns = "1795376779000000000";
	const age = performance.now() - 40_000;
	const [from, to] = windowOf(state, { now_ns, heard: age });
	assert.ok(to >= Number(now_ns) + 40e9, `${to}`);
	assert.equal(to - from, 900e9);
	assert.deepEqual(windowOf(state, { now_ns }), [Number(now_ns) - 900e9, Number(now_ns)], "a report's time stands still");
	assert.deepEqual(windowOf({ from: "17", to: "18" }, { now_ns, heard: age }), [17, 18]);
});

test("a diff that comes from a URL gives back what it took apart, and is found again as it was left", () => {
	const status = { now_ns: "1795376779000000000", types: [] };
	const again = (state) => parseState(new URL(stateURL(state), "http://page"));
	const whole = parseState(new URL('/?type=t&query={a="b%26c"}&from=now-5m&to=now&live=1', "http://page"));
	const diff = again({ ...whole, ...diffState(whole, status) });
	assert.deepEqual([diff.view, diff.live, diff.right.query], ["diff", false, whole.query]);
	const left = again({ ...diff, view: "icicle", ...leaving(diff, { view: "icicle" }) });
	assert.deepEqual([left.type, left.query, left.from, left.to, left.live, left.right], ["t", whole.query, "now-5m", "now", true, null]);
	const found = again({ ...left, ...diffState(left, status) });
	assert.deepEqual([found.from, found.to, found.right, found.whole], [diff.from, diff.to, diff.right, diff.whole]);
});
