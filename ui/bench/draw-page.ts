// draw-page.ts - what bench/draw.mjs runs in Chromium: random trees, and frames drawn with a zoom and offset that
// change every time. Raster is forced by reading a pixel back.
import { diffScale, frameColours, parsePixel } from "../src/flame/colour";
import { drawTree, type Surface, type View } from "../src/flame/draw";
import { Tree, type TreeHeader } from "../src/flame/tree";

function random(seed: number): () => number {
	return () => {
		seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
		return seed / 4294967296;
	};
}

/** A tree of `count` nodes and `depth` levels, level by level; widths split unevenly, as real profiles are. */
export function makeTree(count: number, depth: number, seed: number): Tree {
	const rand = random(seed);
	const parent = new Uint32Array(count);
	const frame = new Uint32Array(count);
	const self = new Float64Array(count);
	const total = new Float64Array(count);
	const names = 4000;
	total[0] = 1e12;
	let first = 0;
	let last = 1; // the level above
	let made = 1;
	for (let level = 1; level < depth && made < count; level++) {
		const wanted = Math.max(1, Math.min(count - made, Math.round((count - made) / (depth - level))));
		const begin = made;
		for (let p = first; p < last && made < count; p++) {
			const share = Math.round((wanted * (p - first + 1)) / (last - first)) - Math.round((wanted * (p - first)) / (last - first));
			const children = p === first ? Math.max(1, share) : share;
			let rest = total[p] * (0.9 + 0.1 * rand());
			for (let c = 0; c < children && made < count; c++) {
				const v = c === children - 1 ? rest : (rest / (children - c)) * (0.2 + 1.6 * rand());
				rest -= v;
				parent[made] = p;
				frame[made] = Math.floor(rand() * names);
				total[made] = v;
				made++;
			}
			self[p] = total[p] - (children ? total[p] - rest : 0);
		}
		first = begin;
		last = made;
	}
	const strings = Array.from({ length: names }, (_, i) => `crate${i % 37}::module${i % 211}::Type<u${i % 64}>::function_${i}`);
	const index = new Uint32Array(names).map((_, i) => i);
	const flags = new Uint32Array(names).map((_, i) => i % 6);
	const header: TreeHeader = {
		type: "", unit: "nanoseconds", sides: 1, from: "0", to: "1", asof: "", total: [total[0]], seconds: [1], stacks: 1, pruned: 0, partial: "",
		frame_types: ["native", "kernel", "go", "jvm", "cpython", "v8js"], arrays: [],
	};
	return new Tree(header, parent.subarray(0, made), frame.subarray(0, made), self.subarray(0, made), total.subarray(0, made), null, null,
		{ name: index, file: index, binary: index, line: new Uint32Array(names), flags, key: new BigUint64Array(names) }, strings);
}

export interface Result {
	nodes: number;
	depth: number;
	frames: number;
	p50: number;
	p90: number;
	p99: number;
	max: number;
	boxes: number;
}

export function run(count: number, depth: number, frames: number): Result {
	const tree = makeTree(count, depth, 7);
	const canvas = document.createElement("canvas");
	canvas.width = 1600;
	canvas.height = 900;
	document.body.append(canvas);
	const context = canvas.getContext("2d", { alpha: false })!;
	context.font = "12px monospace";
	const surface: Surface = { context, width: 1600, height: 900, ratio: 1, charWidth: context.measureText("m").width };
	const palette = { frames: frameColours(tree, "type", "light"), diff: diffScale("light"), text: "#111", textDim: "#444", background: parsePixel("#fff"), merged: parsePixel("#ddd"), match: parsePixel("#fa0") };
	const rand = random(3);
	const whole = tree.width[0];
	const times: number[] = [];
	let boxes = 0;
	for (let i = 0; i < frames; i++) {
		const zoom = i % 3 === 0 ? 1 : Math.exp(rand() * Math.log(2000));
		const x0 = rand() * (whole - whole / zoom);
		const view: View = { x0, x1: x0 + whole / zoom, scroll: rand() * Math.max(0, tree.depth * 18 - 900), upwards: i % 2 === 0, zoomed: 0 };
		if (i % 5 === 0) view.scroll = 0;
		const began = performance.now();
		boxes += drawTree(surface, tree, view, palette, null);
		context.getImageData(800, 450, 1, 1);
		times.push(performance.now() - began);
	}
	times.sort((a, b) => a - b);
	const at = (q: number) => +times[Math.min(times.length - 1, Math.floor(q * times.length))].toFixed(2);
	return { nodes: tree.count, depth: tree.depth, frames, p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1), boxes: Math.round(boxes / frames) };
}

Object.assign(window, { run });
