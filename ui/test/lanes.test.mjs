// lanes.test.mjs - each lane of the flame chart has a name of its own (ui/src/views/lanes.ts).
import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const source = join(dirname(fileURLToPath(import.meta.url)), "../src/views/lanes.ts");
const { outputFiles } = await build({ entryPoints: [source], bundle: true, format: "esm", write: false });
const { laneNames } = await import(`data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`);

const lane = (process, pid, thread, thread_id, container = "", host = "h") => ({ process, pid, thread, thread_id, container, host });
const CASES = [
	[[], []],
	[[lane("java", "7", "gc", "9"), lane("java", "7", "gc", "10")], ["java 7  ·  gc 9  ·  h", "java 7  ·  gc 10  ·  h"]],
	[[lane("", "", "", "", "", "")], ["(not said)"]],
	[[lane("app", "", "", ""), lane("other", "", "", ""), lane("app", "", "", "")], ["app  ·  h  ·  (1)", "other  ·  h", "app  ·  h  ·  (2)"]],
	[[lane("sh", "1", "sh", "1", "0123456789abcdef"), lane("sh", "1", "sh", "1", "fedcba9876543210")], ["sh 1  ·  sh 1  ·  h  ·  0123456789ab", "sh 1  ·  sh 1  ·  h  ·  fedcba987654"]],
	[[lane("sh", "1", "sh", "1", "0123456789abcdef"), lane("sh", "1", "sh", "1")], ["sh 1  ·  sh 1  ·  h  ·  0123456789ab", "sh 1  ·  sh 1  ·  h"]],
	[[lane("sh", "1", "", "", "same"), lane("sh", "1", "", "", "same")], ["sh 1  ·  h  ·  (1)", "sh 1  ·  h  ·  (2)"]],
];

test("lanes that would be called the same are told apart", () => {
	for (const [lanes, want] of CASES) assert.deepEqual(laneNames(lanes), want);
});
