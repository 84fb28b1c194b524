// tree.ts - a merged tree of stacks as typed arrays, in level order, as the program sends it (docs/api.md, "The tree").
//
// Nothing here is an object per node: 200,000 nodes are a few megabytes, and drawing walks arrays.

import { straight } from "../format";

const MAGIC = 0x31545446; // "FTT1"
export const FLAG_INLINED = 1 << 8;
export const FLAG_OTHER = 1 << 9;
export const FLAG_GROUP = 1 << 10;
export const FLAG_FOUND = 1 << 11;

export interface Coverage {
	[reason: string]: number | null;
}

export interface TreeHeader {
	unit: string;
	sides: 1 | 2;
	type: string;
	from: string;
	to: string;
	asof: string;
	total: number[];
	seconds: number[];
	/** NaN: not known, as of a tree that was added up here. */
	stacks: number;
	pruned: number;
	/** Where the program says it: samples in the window, processes they are of, what was lost. */
	samples?: number;
	processes?: number;
	/** Of a diff's second side; what was lost is that of both. */
	samples2?: number;
	processes2?: number;
	coverage?: Coverage;
	/** Of a search: what all stacks with a match cost, drawn or not; the paths to the heaviest are in the tree. */
	matched?: number[];
	/** What was searched for, as it was typed. */
	searched?: string;
	partial: string;
	frame_types: string[];
	arrays: [string, "u8" | "u32" | "u64" | "f64", number][];
}

export interface Frames {
	name: Uint32Array;
	file: Uint32Array;
	binary: Uint32Array;
	line: Uint32Array;
	flags: Uint32Array;
	key: BigUint64Array;
}

export class Tree {
	readonly count: number;
	/** First node of each level, and one past the last node at the end. */
	readonly levels: Uint32Array;
	/** Left edge and width of each node in units of value; a parent's children begin at its left edge. */
	readonly x: Float64Array;
	readonly width: Float64Array;
	readonly firstChild: Uint32Array;
	readonly childCount: Uint32Array;
	readonly level: Uint16Array;
	/** Key of the group's frame that was left out, which the program needs to find a node by its path. */
	left = "";
	private hashes: Float64Array | undefined;
	private frameHashes: Uint32Array | undefined;

	constructor(
		readonly header: TreeHeader,
		readonly parent: Uint32Array,
		readonly frame: Uint32Array,
		readonly self: Float64Array,
		readonly total: Float64Array,
		readonly self2: Float64Array | null,
		readonly total2: Float64Array | null,
		readonly frames: Frames,
		readonly strings: string[],
		shares = false,
	) {
		const n = parent.length;
		this.count = n;
		this.firstChild = new Uint32Array(n);
		this.childCount = new Uint32Array(n);
		this.level = new Uint16Array(n);
		const levels = [0];
		for (let i = 1; i < n; i++) {
			const p = parent[i];
			if (p >= i) throw new Error(`node ${i} has parent ${p}: not in level order`);
			if (this.childCount[p]++ === 0) this.firstChild[p] = i;
			this.level[i] = this.level[p] + 1;
			if (this.level[i] !== this.level[i - 1]) levels.push(i);
		}
		levels.push(n);
		this.levels = Uint32Array.from(levels);
		this.width = this.widths(shares);
		this.x = new Float64Array(n);
		for (let i = 1; i < n; i++) {
			const p = parent[i];
			this.x[i] = i === this.firstChild[p] ? this.x[p] : this.x[i - 1] + this.width[i - 1];
		}
	}

	/** One side: the total. Two sides: the larger one, and at least what its children need; as shares, the larger share. */
	private widths(shares: boolean): Float64Array {
		if (!this.total2 || !this.self2) return this.total;
		const width = new Float64Array(this.count);
		const [a, b] = this.header.total;
		const scale = shares && a > 0 && b > 0 ? a / b : 1;
		for (let i = this.count - 1; i >= 0; i--) {
			const own = Math.max(this.total[i], scale * this.total2[i]);
			width[i] = Math.max(own, width[i] + Math.max(this.self[i], scale * this.self2[i]));
			if (i > 0) width[this.parent[i]] += width[i];
		}
		return width;
	}

	/** Of two sides one alone, its nodes having the numbers that they have here: those that it lacks are 0 wide. */
	side(which: 0 | 1): Tree {
		const { header, self, total, self2, total2 } = this;
		const [mine, its] = which === 0 ? [self, total] : [self2!, total2!];
		const own = { ...header, sides: 1 as const, total: [header.total[which]], matched: header.matched && [header.matched[which]], seconds: [header.seconds[which]] };
		return new Tree(own, this.parent, this.frame, mine, its, null, null, this.frames, this.strings);
	}

	/** Two sides by their shares. */
	shares(): Tree {
		return new Tree(this.header, this.parent, this.frame, this.self, this.total, this.self2, this.total2, this.frames, this.strings, true);
	}

	/** Where no sample has the label that is grouped by: without its one frame, which says nothing. */
	withoutGroup(): Tree {
		if (this.levels.length < 3 || this.levels[2] !== 2 || !this.isGroup(1) || this.strings[this.frames.name[this.frame[1]]] !== "(none)") return this;
		const drop = <T extends Float64Array | null>(of: T): T => {
			if (!of) return of;
			const rest = of.slice(1);
			rest[0] = of[0] + (of === this.self || of === this.self2 ? of[1] : 0);
			return rest as T;
		};
		const parent = this.parent.slice(1).map((p) => Math.max(0, p - 1));
		const frame = this.frame.slice(1);
		frame[0] = this.frame[0];
		const rest = new Tree(this.header, parent, frame, drop(this.self), drop(this.total), drop(this.self2), drop(this.total2), this.frames, this.strings);
		rest.left = this.key(1);
		return rest;
	}

	get depth(): number {
		return this.levels.length - 1;
	}

	name(node: number): string {
		return node === 0 ? "all" : this.strings[this.frames.name[this.frame[node]]];
	}

	file(node: number): string {
		return this.strings[this.frames.file[this.frame[node]]];
	}

	binary(node: number): string {
		return this.strings[this.frames.binary[this.frame[node]]];
	}

	line(node: number): number {
		return this.frames.line[this.frame[node]];
	}

	type(node: number): string {
		return this.header.frame_types[this.frames.flags[this.frame[node]] & 255] ?? "";
	}

	isOther(node: number): boolean {
		return node !== 0 && (this.frames.flags[this.frame[node]] & FLAG_OTHER) !== 0;
	}

	/** No code: a value of the label that the selection is grouped by. */
	isGroup(node: number): boolean {
		return (this.frames.flags[this.frame[node]] & FLAG_GROUP) !== 0;
	}

	/** Value of all frames, and of those that have a function's name; what was merged into `other` is not known. */
	naming(): [named: number, all: number] {
		const unnamed = Uint8Array.from(this.frames.name, (s) => (/\+(\?|0x[0-9a-f]+)$/.test(this.strings[s]) ? 1 : 0));
		let [named, all] = [0, 0];
		for (let i = 1; i < this.count; i++) {
			if (this.frames.flags[this.frame[i]] & (FLAG_OTHER | FLAG_GROUP)) continue;
			const v = this.total[i] + (this.total2?.[i] ?? 0);
			all += v;
			if (!unnamed[this.frame[i]]) named += v;
		}
		return [named, all];
	}

	isInlined(node: number): boolean {
		return (this.frames.flags[this.frame[node]] & FLAG_INLINED) !== 0;
	}

	/** From the root's child down to the node. */
	path(node: number): number[] {
		const path: number[] = [];
		for (let i = node; i !== 0; i = this.parent[i]) path.push(i);
		return path.reverse();
	}

	pathNames(node: number): string[] {
		return this.path(node).map((i) => this.name(i));
	}

	isAncestor(ancestor: number, node: number): boolean {
		let i = node;
		while (this.level[i] > this.level[ancestor]) i = this.parent[i];
		return i === ancestor;
	}

	/** The program's own name of the node's frame. */
	key(node: number): string {
		return this.frames.key[this.frame[node]].toString(16).padStart(16, "0");
	}

	/** The keys on its path: what finds it again in another answer. */
	keys(node: number): bigint[] {
		return this.path(node).map((i) => this.frames.key[this.frame[i]]);
	}

	/** The node of these keys, or the nearest above it that is there. */
	nearest(keys: bigint[]): number {
		let at = 0;
		for (const key of keys) {
			const first = this.firstChild[at];
			const past = first + this.childCount[at];
			let child = first;
			while (child < past && this.frames.key[this.frame[child]] !== key) child++;
			if (child === past) break;
			at = child;
		}
		return at;
	}

	/** Names a node by what is on its path: the same in another answer, and short enough for a URL. */
	hash(node: number): string {
		return Math.floor(this.pathHashes()[node]).toString(36);
	}

	find(hash: string): number {
		const want = parseInt(hash, 36);
		const hashes = this.pathHashes();
		for (let i = 0; i < this.count; i++) if (hashes[i] === want) return i;
		return -1;
	}

	private pathHashes(): Float64Array {
		if (this.hashes) return this.hashes;
		const names = this.frameHash();
		const hashes = new Float64Array(this.count);
		for (let i = 1; i < this.count; i++) {
			// 52 bits: exact in a double; two rounds of 32-bit mixing
			const p = hashes[this.parent[i]];
			const a = Math.imul((p >>> 0) ^ names[this.frame[i]], 0x9e3779b1) >>> 0;
			const b = Math.imul(((p / 4294967296) >>> 0) + a + this.level[i], 0x85ebca6b) >>> 0;
			hashes[i] = (b & 0xfffff) * 4294967296 + a;
		}
		this.hashes = hashes;
		return hashes;
	}

	/** FNV-1a of a frame's name and binary, per frame. */
	frameHash(): Uint32Array {
		if (this.frameHashes) return this.frameHashes;
		const strings = this.strings.map(fnv);
		const { name, binary } = this.frames;
		this.frameHashes = name.map((s, i) => Math.imul(strings[s] ^ (strings[binary[i]] >>> 3), 0x01000193) >>> 0);
		return this.frameHashes;
	}
}

export function fnv(s: string): number {
	let h = 0x811c9dc5;
	for (let i = 0; i < s.length; i++) h = Math.imul(h ^ s.charCodeAt(i), 0x01000193);
	return h >>> 0;
}

const SIZES = { u8: 1, u32: 4, u64: 8, f64: 8 };

/** Throws an Error that says where, if the bytes are not a tree. */
export function decodeTree(bytes: ArrayBuffer): Tree {
	const view = new DataView(bytes);
	if (bytes.byteLength < 8 || view.getUint32(0, true) !== MAGIC) throw new Error("not a flametap tree");
	const headerLength = view.getUint32(4, true);
	if (headerLength > bytes.byteLength - 8) throw new Error(`header of ${headerLength} bytes in ${bytes.byteLength}`);
	const header: TreeHeader = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 8, headerLength)));
	const arrays: Record<string, Uint8Array | Uint32Array | BigUint64Array | Float64Array> = {};
	let at = (8 + headerLength + 7) & ~7;
	for (const [name, type, length] of header.arrays) {
		const size = SIZES[type] * length;
		if (size > bytes.byteLength - at) throw new Error(`array ${name}: ${size} bytes at ${at} of ${bytes.byteLength}`);
		const make = { u8: Uint8Array, u32: Uint32Array, u64: BigUint64Array, f64: Float64Array }[type];
		arrays[name] = new make(bytes, at, length);
		at = (at + size + 7) & ~7;
	}
	const u32 = (name: string) => arrays[name] as Uint32Array;
	const f64 = (name: string) => (arrays[name] as Float64Array) ?? null;
	const offsets = u32("string_offset");
	const text = arrays.string_bytes as Uint8Array;
	const utf8 = new TextDecoder();
	const strings: string[] = new Array(offsets.length - 1);
	for (let i = 0; i < strings.length; i++) strings[i] = straight(utf8.decode(text.subarray(offsets[i], offsets[i + 1])));
	return new Tree(header, u32("parent"), u32("frame"), f64("self"), f64("total"), f64("self2"), f64("total2"), {
		name: u32("name"),
		file: u32("file"),
		binary: u32("binary"),
		line: u32("line"),
		flags: u32("flags"),
		key: arrays.key as BigUint64Array,
	}, strings);
}
