// forest.ts - a tree that others are added to and taken from: how the page follows live without asking for the whole
// window again. The same samples added and taken leave nothing.

import { FLAG_GROUP, FLAG_OTHER, Tree, type Frames, type TreeHeader } from "./tree";

interface Node {
	frame: number;
	self: number;
	total: number;
	children: Map<number, Node>;
}

const leaf = (frame: number): Node => ({ frame, self: 0, total: 0, children: new Map() });

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
		const types = header.frame_types.map((t) => this.type(t));
		return Uint32Array.from(f.name, (_, i) => {
			const id = i === 0 ? "root" : `${f.key[i]}/${f.flags[i] & (FLAG_OTHER | FLAG_GROUP)}`;
			let at = this.frameAt.get(id);
			if (at === undefined) {
				const c = this.columns;
				at = c.name.push(this.string(strings[f.name[i]])) - 1;
				c.file.push(this.string(strings[f.file[i]]));
				c.binary.push(this.string(strings[f.binary[i]]));
				c.line.push(f.line[i]);
				c.flags.push((f.flags[i] & ~255) | (types[f.flags[i] & 255] ?? 0));
				c.key.push(f.key[i]);
				this.frameAt.set(id, at);
			}
			return at;
		});
	}

	/** sign 1 adds, -1 takes. */
	add(tree: Tree, sign: 1 | -1): void {
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
			n.self += sign * tree.self[i];
			n.total += sign * tree.total[i];
			nodes[i] = n;
		}
	}

	/** Level by level, the heaviest child first, as the program sends trees; what nothing is left of is not in it. */
	tree(header: TreeHeader): Tree {
		const order: Node[] = [this.root];
		const parent: number[] = [0];
		for (let i = 0; i < order.length; i++) {
			for (const [frame, c] of order[i].children) if (c.total <= 0) order[i].children.delete(frame);
			for (const c of [...order[i].children.values()].sort((a, b) => b.total - a.total || a.frame - b.frame)) {
				order.push(c);
				parent.push(i);
			}
		}
		const c = this.columns;
		const u32 = (of: number[]) => Uint32Array.from(of);
		const frames: Frames = { name: u32(c.name), file: u32(c.file), binary: u32(c.binary), line: u32(c.line), flags: u32(c.flags), key: BigUint64Array.from(c.key) };
		return new Tree(
			{ ...header, sides: 1, total: [this.root.total], frame_types: [...this.types] }, u32(parent), Uint32Array.from(order, (n) => n.frame),
			Float64Array.from(order, (n) => n.self), Float64Array.from(order, (n) => n.total), null, null, frames, [...this.strings],
		);
	}
}
