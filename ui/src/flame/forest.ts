// forest.ts - a tree that others are added to and taken from: how the page follows live without asking for the whole
// window again. The same samples added and taken leave nothing.

import { LIVE_GROUP, LIVE_INLINED, type Part } from "../live";
import { FLAG_GROUP, FLAG_INLINED, FLAG_OTHER, Tree, type Frames, type TreeHeader } from "./tree";

interface Node {
	frame: number;
	self: number;
	total: number;
	children: Map<number, Node>;
}

const leaf = (frame: number): Node => ({ frame, self: 0, total: 0, children: new Map() });

/** Sorts what stands in it from `first` on. */
function heaviestFirst(order: Node[], first: number): void {
	const some = order.slice(first).sort((a, b) => b.total - a.total || a.frame - b.frame);
	for (let i = 0; i < some.length; i++) order[first + i] = some[i];
}

export class Forest {
	private root = leaf(0);
	private strings: string[] = [];
	private stringAt = new Map<string, number>();
	private frameAt = new Map<string, number>();
	private columns = { name: [] as number[], file: [] as number[], binary: [] as number[], line: [] as number[], flags: [] as number[], key: [] as bigint[] };
	private types: string[] = [];

	private string(s: string): number {
		let at = this.stringAt.get(s);
		if (at === undefined) {
			this.stringAt.set(s, (at = this.strings.length));
			this.strings.push(s);
		}
		return at;
	}

	private type(name: string): number {
		const at = this.types.indexOf(name);
		return at >= 0 ? at : this.types.push(name) - 1;
	}

	/** The numbers that the tree's frames have here. */
	private framesOf(tree: Tree): Uint32Array {
		const { frames: f, strings, header } = tree;
		return Uint32Array.from(f.name, (_, i) =>
			this.frame(f.flags[i] & ~255, f.key[i], strings[f.name[i]], strings[f.file[i]], f.line[i], strings[f.binary[i]], header.frame_types[f.flags[i] & 255] ?? ""),
		);
	}

	add(tree: Tree): void {
		const frames = this.framesOf(tree);
		const nodes: Node[] = new Array(tree.count);
		for (let i = 0; i < tree.count; i++) {
			let n = this.root;
			if (i > 0) {
				const children = nodes[tree.parent[i]].children;
				const frame = frames[tree.frame[i]];
				n = children.get(frame) ?? leaf(frame);
				children.set(frame, n);
			}
			n.self += tree.self[i];
			n.total += tree.total[i];
			nodes[i] = n;
		}
	}

	/** The frame's number here, entered when it is new. */
	private frame(flags: number, key: bigint, name: string, file: string, line: number, binary: string, type: string): number {
		const id = `${key}/${flags & (FLAG_OTHER | FLAG_GROUP)}`;
		let at = this.frameAt.get(id);
		if (at === undefined) {
			const c = this.columns;
			at = c.name.push(this.string(name)) - 1;
			c.file.push(this.string(file));
			c.binary.push(this.string(binary));
			c.line.push(line);
			c.flags.push(flags | this.type(type));
			c.key.push(key);
			this.frameAt.set(id, at);
		}
		return at;
	}

	/** Adds (1) or takes (-1) what was pushed. */
	put(part: Part, sign: 1 | -1, inverted: boolean): void {
		const flagsOf = (flags: number) => (flags & LIVE_INLINED ? FLAG_INLINED : 0) | (flags & LIVE_GROUP ? FLAG_GROUP : 0);
		const frames = part.frames.map(([name, file, line, binary, type, flags, key]) => this.frame(flagsOf(flags), BigInt(`0x${key}`), name, file, line, binary, type));
		const other = this.frame(FLAG_OTHER, 0n, "other", "", 0, "", "");
		const path: number[] = [];
		const { nodes } = part;
		for (let i = 0; i < nodes.length; i += 3) {
			const depth = nodes[i];
			const self = nodes[i + 2];
			if (depth > 0) path[depth - 1] = nodes[i + 1];
			path.length = depth;
			if (self === 0) continue;
			const group = inverted && depth > 0 && path[0] >= 0 && part.frames[path[0]][5] & LIVE_GROUP ? 1 : 0;
			const order = inverted ? [...path.slice(0, group), ...path.slice(group).reverse()] : path;
			this.putPath(order.map((f) => (f < 0 ? other : frames[f])), sign * self, other);
		}
	}

	/** What is taken and is not there by itself was too light for a node of its own: it is in `other`. */
	private putPath(path: number[], v: number, other: number): void {
		let n = this.root;
		n.total += v;
		for (const frame of path) {
			let c = n.children.get(frame);
			if (v < 0 && (!c || c.total + v < 0)) {
				const rest = n.children.get(other);
				if (rest) {
					rest.total = Math.max(0, rest.total + v);
					rest.self = Math.max(0, rest.self + v);
				}
				return;
			}
			if (!c) n.children.set(frame, (c = leaf(frame)));
			c.total += v;
			n = c;
		}
		n.self = Math.max(0, n.self + v);
	}

	/** Level by level, the heaviest child first, as the program sends trees; what nothing is left of is not in it. */
	tree(header: TreeHeader): Tree {
		const order: Node[] = [this.root];
		const parent: number[] = [0];
		for (let i = 0; i < order.length; i++) {
			const { children } = order[i];
			if (children.size === 0) continue; // most have none, or one
			const first = order.length;
			for (const [frame, c] of children) {
				if (c.total <= 0) children.delete(frame);
				else order.push(c);
			}
			for (let n = order.length; n > first; n--) parent.push(i);
			if (order.length - first > 1) heaviestFirst(order, first);
		}
		/* Not by from(order, ...), which takes far longer. */
		const [frame, self, total] = [new Uint32Array(order.length), new Float64Array(order.length), new Float64Array(order.length)];
		for (let i = 0; i < order.length; i++) {
			frame[i] = order[i].frame;
			self[i] = order[i].self;
			total[i] = order[i].total;
		}
		const c = this.columns;
		const u32 = (of: number[]) => Uint32Array.from(of);
		const frames: Frames = { name: u32(c.name), file: u32(c.file), binary: u32(c.binary), line: u32(c.line), flags: u32(c.flags), key: BigUint64Array.from(c.key) };
		return new Tree(
			{ ...header, matched: undefined, sides: 1, stacks: NaN, total: [this.root.total], frame_types: [...this.types] }, u32(parent), frame, self, total, null, null, frames, [...this.strings],
		);
	}
}
