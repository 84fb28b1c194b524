// follow.test.mjs - a window that is followed: what is shown is what the whole would be, whenever that is asked for anew
// (ui/src/follow.ts).
import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const source = (name) => join(dirname(fileURLToPath(import.meta.url)), "../src", name);
const contents = `export { Follower, followTop, followTree } from "${source("follow.ts")}"; export { Tree } from "${source("flame/tree.ts")}";`;
const { outputFiles } = await build({ stdin: { contents, resolveDir: "." }, bundle: true, format: "esm", write: false });
const { Follower, followTop, followTree, Tree } = await import(`data:text/javascript,${encodeURIComponent(outputFiles[0].text)}`);

const SECOND = 1000;
const MINUTE = 60 * SECOND;

/** A window whose value is a number, a feed of it, and a page that follows it. */
function followed(t) {
	t.mock.timers.enable({ apis: ["Date"], now: 1e12 });
	const asked = []; // {value when it was asked for, give, fail}
	const shown = [];
	const listeners = new Set();
	const feed = { state: { value: 100 }, on: (l) => (listeners.add(l), () => listeners.delete(l)) };
	const tell = (event) => listeners.forEach((l) => l(event));
	const is = { full: () => false };
	const how = {
		ask: (_, at) => new Promise((give, fail) => asked.push({ give: () => give(at.value), fail: () => fail(new Error("busy")) })),
		keep(whole) {
			let v = whole;
			return { value: () => v, apply: (delta) => void (v += delta), full: (ms) => is.full(ms) };
		},
	};
	new Follower(feed, new URLSearchParams(), how, (value, error) => shown.push(error ? error.message : value));
	return {
		asked, shown, is,
		come(delta) {
			feed.state = { value: feed.state.value + delta };
			tell({ kind: "delta", delta });
			tell({ kind: "show" });
		},
		begin(value) {
			feed.state = { value };
			tell({ kind: "state" });
			tell({ kind: "show" });
		},
		settle: () => new Promise(setImmediate),
		later: (ms) => t.mock.timers.setTime(Date.now() + ms),
	};
}

test("what came while the whole was on its way is in it; so it is when the whole is asked for anew", async (t) => {
	const f = followed(t);
	f.come(1);
	assert.deepEqual([f.asked.length, f.shown], [1, []], "nothing to show yet");
	f.asked[0].give();
	await f.settle();
	f.come(2);
	assert.deepEqual(f.shown, [101, 103]);
	f.is.full = () => true;
	f.later(MINUTE);
	f.come(4);
	assert.equal(f.asked.length, 2);
	f.come(8);
	assert.deepEqual(f.shown.slice(2), [107, 115], "it goes on meanwhile");
	f.is.full = () => false;
	f.asked[1].give();
	await f.settle();
	f.come(16);
	assert.deepEqual(f.shown.slice(4), [115, 131]);
	f.later(31 * MINUTE);
	f.come(1);
	assert.equal(f.asked.length, 3, "and once in half an hour");
});

test("where the whole does not come anew, what is there goes on; it is not asked for with each change", async (t) => {
	const f = followed(t);
	f.asked[0].give();
	await f.settle();
	f.is.full = () => true;
	f.later(MINUTE);
	f.come(1);
	f.asked[1].fail();
	await f.settle();
	f.come(2);
	assert.deepEqual([f.asked.length, f.shown], [2, [100, 101, 103]]);
	f.later(11 * SECOND);
	f.come(4);
	assert.equal(f.asked.length, 3);
	f.begin(7); // a window that has nothing to do with it
	assert.deepEqual([f.asked.length, f.shown.slice(3)], [4, [107]], "the old one is shown no more");
	f.asked[2].give();
	await f.settle();
	assert.equal(f.shown.length, 4, "nor is what was asked for of it");
	f.asked[3].fail();
	await f.settle();
	f.come(1);
	assert.deepEqual([f.asked.length, f.shown.slice(4)], [4, ["busy"]]);
	f.later(11 * SECOND);
	f.come(1);
	f.asked[4].give();
	await f.settle();
	assert.equal(f.shown.at(-1), 9);
});

test("twice the nodes that were asked for are too many after five minutes, 300,000 at once", () => {
	const header = { sides: 1, total: [0], seconds: [0], frame_types: [], arrays: [] };
	const none = new Uint32Array(0);
	const frames = { name: none, file: none, binary: none, line: none, flags: none, key: new BigUint64Array(0) };
	const empty = () => new Tree(header, new Uint32Array(1), new Uint32Array(1), new Float64Array(1), new Float64Array(1), null, null, frames, []);
	const after = (asked, leaves) => {
		const one = followTree("flamegraph", false).keep(empty(), {}, new URLSearchParams(asked ? { max_nodes: asked } : {}));
		const nodes = [0, -1, 0];
		for (let i = 0; i < leaves; i++) nodes.push(1, i, 1);
		const list = Array.from({ length: leaves }, (_, i) => ["f", "", 0, "", "", 0, (i + 1).toString(16)]);
		one.apply({ asof: "1", from: "0", add: { total: leaves, samples: leaves, stacks: leaves, seconds: 1, frames: list, nodes } });
		assert.equal(one.value().count, leaves + 1);
		return [one.full(0), one.full(5 * MINUTE), one.full(5 * MINUTE + 1)];
	};
	assert.deepEqual(after(100, 199), [false, false, false]);
	assert.deepEqual(after(100, 200), [false, false, true]);
	assert.deepEqual(after(0, 32_767), [false, false, false]);
	assert.deepEqual(after(0, 32_768), [false, false, true]);
	assert.deepEqual(after(200_000, 300_000), [true, true, true]);
});

test("a table that holds the heaviest functions alone says how many there are, and makes up no row of another", () => {
	const row = (key, value) => [key, "", 0, "", "", value, value, 0, 0, key];
	const frame = (key) => [key, "", 0, "", "", 0, key];
	const part = (values) => ({ total: 0, samples: 0, stacks: 0, seconds: 1, frames: Object.keys(values).map(frame), nodes: [0, -1, 0, ...Object.values(values).flatMap((v, i) => [1, i, v])] });
	const after = (count) => {
		const one = followTop.keep({ count, total: 30, rows: [row("a", 20), row("b", 10)] });
		one.apply({ asof: "1", from: "0", add: part({ a: 5, c: 1 }), drop: part({ b: 10 }) });
		const { rows, count: now } = one.value();
		return [rows.map((r) => [r[0], r[5]]), now, one.full(5 * MINUTE), one.full(5 * MINUTE + 1)];
	};
	assert.deepEqual(after(2), [[["a", 25], ["c", 1]], 2, false, false]);
	assert.deepEqual(after(9), [[["a", 25]], 8, false, true], "c was there before, nobody knows how heavy");
});
