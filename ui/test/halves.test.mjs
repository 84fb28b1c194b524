// halves.test.mjs - what the sides of a diff are (ui/src/halves.ts).
import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const source = join(dirname(fileURLToPath(import.meta.url)), "../src/halves.ts");
const { outputFiles } = await build({ entryPoints: [source], bundle: true, format: "esm", write: false });
const { windowOf } = await import(`data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`);

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
