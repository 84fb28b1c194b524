// format.test.mjs - names shortened as people read them (ui/src/format.ts).
import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const source = join(dirname(fileURLToPath(import.meta.url)), "../src/format.ts");
const { outputFiles } = await build({ entryPoints: [source], bundle: true, format: "esm", write: false });
const { shorten } = await import(`data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`);

const LONG = "com::example::Engine<long, std::less<int>>::level7(const std::map<int,int>&, unsigned long)";
const CASES = [
	[LONG, 100, LONG],
	[LONG, 60, "com::example::Engine<long, std::less<int>>::level7(…)"],
	[LONG, 34, "com::example::Engine<…>::level7(…)"],
	[LONG, 30, "…::Engine<…>::level7(…)"],
	[LONG, 12, "…::level7(…)"],
	[LONG, 9, "…::level7"],
	[LONG, 3, ""],
	["(anonymous namespace)::parse(char const*)", 30, "(…)::parse(…)"],
	["github.com/some/where/deep/package.(*Server).handleRequest", 40, "…/deep/package.(*Server).handleRequest"],
	["java.util.concurrent.ThreadPoolExecutor.runWorker", 30, "….ThreadPoolExecutor.runWorker"],
	["libsomething_long.so.6+?", 16, "libsomet….so.6+?"],
	["a_name_without_any_parts_that_is_long", 20, "a_name_wit…t_is_long"],
	["plain(struct some *thing, int flags)", 12, "plain(…)"],
];

test("a name keeps what its function does", () => {
	for (const [name, width, want] of CASES) {
		assert.equal(shorten(name, width), want);
		assert.ok(shorten(name, width).length <= width || want === name);
	}
	for (let width = 4; width < LONG.length; width++) for (const name of [LONG, "<a<b<c", "x".repeat(200), "::::", ">>>((", "a.b.cc/".repeat(30)]) assert.ok(shorten(name, width).length <= width, `${name} ${width}: ${shorten(name, width)}`);
});
