// window.ts - where one looks, told by frames and not by numbers: a window over a tree is found again in a later tree of
// the same stacks, whatever has become wider or changed places there.

import { useMemo, useRef } from "preact/hooks";
import type { Tree } from "./tree";

export interface Anchor {
	/** The path to the frame that is what the window shows, or to the deepest that fills much of it. */
	keys: bigint[];
	/** The window's edges as parts of the width of each frame of the path, the root's first. */
	edges: [number, number][];
}

const MUCH = 0.4;
const ABOUT = 0.02;

export function anchorOf(tree: Tree, x0: number, x1: number): Anchor {
	const seen = (i: number) => Math.min(x1, tree.x[i] + tree.width[i]) - Math.max(x0, tree.x[i]);
	const edge = (i: number): [number, number] => [(x0 - tree.x[i]) / tree.width[i], (x1 - tree.x[i]) / tree.width[i]];
	const fits = (i: number) => Math.abs(tree.x[i] - x0) + Math.abs(tree.x[i] + tree.width[i] - x1) < ABOUT * (x1 - x0);
	const edges = [edge(0)];
	let at = 0;
	for (;;) {
		if (fits(at)) return { keys: tree.keys(at), edges };
		let best = -1;
		for (let i = tree.firstChild[at]; i < tree.firstChild[at] + tree.childCount[at]; i++) if (best < 0 || seen(i) > seen(best)) best = i;
		if (best < 0 || seen(best) < MUCH * (x1 - x0)) return { keys: tree.keys(at), edges };
		at = best;
		edges.push(edge(at));
	}
}

/** By the deepest frame of the path that is there. */
export function windowIn(tree: Tree, anchor: Anchor): [number, number] {
	const node = tree.nearest(anchor.keys);
	const [from, to] = anchor.edges[tree.level[node]];
	return [tree.x[node] + from * tree.width[node], tree.x[node] + to * tree.width[node]];
}

/** The node that the URL's zoom names. Where a later tree lacks it (for now), the nearest of its callers. */
export function useZoomed(tree: Tree, zoom: string): number {
	const kept = useRef<{ zoom: string; keys: bigint[] }>({ zoom: "", keys: [] });
	return useMemo(() => {
		if (!zoom) return 0;
		const node = tree.find(zoom);
		if (node >= 0) kept.current = { zoom, keys: tree.keys(node) };
		return node >= 0 ? node : kept.current.zoom === zoom ? tree.nearest(kept.current.keys) : 0;
	}, [tree, zoom]);
}

/** The node of these keys; -1: it is not there. */
export function exact(tree: Tree, keys: bigint[]): number {
	const node = tree.nearest(keys);
	return tree.level[node] === keys.length ? node : -1;
}
