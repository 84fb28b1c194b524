// times.test.mjs - instants as URLs have them (ui/src/times.ts).
import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const source = join(dirname(fileURLToPath(import.meta.url)), "../src/times.ts");
const { outputFiles } = await build({ entryPoints: [source], bundle: true, format: "esm", write: false });
const { digits, shifted, stepOf } = await import(`data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`);

test("RFC 3339 is read as the program reads it, to the nanosecond", () => {
	assert.equal(digits("2026-11-22T22:07:40Z"), "1795385260000000000");
	assert.equal(digits("2026-11-22 22:07:40.123456789"), "1795385260123456789");
	assert.equal(digits("2026-11-22T23:07:40.5+01:00"), "1795385260500000000");
	assert.equal(digits("2026-11-22"), "1795305600000000000");
	for (const other of ["", "now", "now-15m", "1795385260000000000", "nonsense", "2026-99-99T00:00:00Z"]) assert.equal(digits(other), other);
});

test("a window moves with both of its ends", () => {
	const now = 10_000_000_000_000n;
	const by = stepOf("now-90m", "now-30m", now);
	assert.equal(by, 1_800_000_000_000n);
	assert.deepEqual(shifted("now-90m", "now-30m", -by, now), { from: String(now - 7_200_000_000_000n), to: String(now - 3_600_000_000_000n) });
	assert.deepEqual(shifted("1795385260123456789", "1795385260123456799", 5n, now), { from: "1795385260123456794", to: "1795385260123456804" });
	assert.equal(shifted("now-15m", "now", 1n, now), null);
	assert.equal(stepOf("nonsense", "now", now), null);
});
