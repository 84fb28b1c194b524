// sandwich.ts - callers and callees of one function, made from a tree that is here: what a report has instead of asking.

import { Tree } from "./tree";

interface Node {
	frame: number;
	self: number;
	total: number;
	children: Map<number, Node>;
}

const node = (frame: number): Node => ({ frame, self: 0, total: 0, children: new Map() });

function child(of: Node, frame: number): Node {
	let one = of.children.get(frame);
	if (!one) of.children.set(frame, (one = node(frame)));
	return one;
}

/** Nodes of the function that stand below no other of it: each stack counts once. */
function outermost(tree: Tree, key: string): number[] {
	const within = new Uint8Array(tree.count);
	const found: number[] = [];
	const whole = key.padStart(16, "0"); // links of older pages leave zeros out
	for (let i = 1; i < tree.count; i++) {
		if (within[tree.parent[i]]) within[i] = 1;
		else if (tree.key(i) === whole) {
			within[i] = 1;
			found.push(i);
		}
	}
	return found;
}

function addCallees(tree: Tree, from: number, to: Node): void {
	const todo: [number, Node][] = [[from, to]];
	for (let one = todo.pop(); one; one = todo.pop()) {
		const [i, n] = one;
		n.total += tree.total[i];
		n.self += tree.self[i];
		for (let k = 0; k < tree.childCount[i]; k++) {
			const c = tree.firstChild[i] + k;
			todo.push([c, child(n, tree.frame[c])]);
		}
	}
}

function addCallers(tree: Tree, from: number, to: Node): void {
	const v = tree.total[from];
	let n = to;
	n.total += v;
	for (let i = tree.parent[from]; i !== 0; i = tree.parent[i]) {
		n = child(n, tree.frame[i]);
		n.total += v;
	}
	n.self += v;
}

/** Level by level, the heaviest child first, as the program sends trees. */
function flatten(tree: Tree, root: Node): Tree {
	const order: Node[] = [root];
	const parent: number[] = [0];
	for (let i = 0; i < order.length; i++)
		for (const c of [...order[i].children.values()].sort((a, b) => b.total - a.total)) {
			order.push(c);
			parent.push(i);
		}
	const numbers = (of: (n: Node) => number) => Float64Array.from(order, of);
	return new Tree(
		{ ...tree.header, sides: 1, total: [root.total] }, Uint32Array.from(parent), Uint32Array.from(order, (n) => n.frame),
		numbers((n) => n.self), numbers((n) => n.total), null, null, tree.frames, tree.strings,
	);
}

export function sandwichOf(tree: Tree, key: string, side: "callers" | "callees"): Tree {
	const root = node(0);
	for (const i of outermost(tree, key)) {
		const middle = child(root, tree.frame[i]);
		if (side === "callers") addCallers(tree, i, middle);
		else addCallees(tree, i, middle);
		root.total += tree.total[i];
	}
	return flatten(tree, root);
}
