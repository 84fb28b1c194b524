// draw.ts - a tree onto a canvas that is never larger than the view. Cost follows the pixels, not the nodes: rows out
// of sight are not visited, and in a row a run of frames narrower than half a pixel is one step of a binary search.

import { shorten } from "../format";
import { diffStep } from "./colour";
import type { Tree } from "./tree";

export const ROW = 18;
const MIN_TEXT = 28;
const MIN_WIDTH = 0.5;

/** Box colours are pixels (colour.ts, pixel), the others CSS. */
export interface Palette {
	frames: Uint32Array;
	diff: Uint32Array;
	merged: number;
	match: number;
	background: number;
	text: string;
	textDim: string;
}

export interface View {
	/** Window of values shown over the canvas's width. */
	x0: number;
	x1: number;
	/** Level at the top row and how many pixels of it are scrolled away. */
	scroll: number;
	/** Root at the top (icicle) or at the bottom (flame). */
	upwards: boolean;
	/** Node zoomed to: its ancestors span the view. */
	zoomed: number;
}

export interface Surface {
	context: CanvasRenderingContext2D;
	/** In CSS pixels; the canvas has `ratio` times as many. */
	width: number;
	height: number;
	ratio: number;
	charWidth: number;
	/** The boxes are drawn here and put onto the canvas in one go; made at the first drawing. */
	image?: { data: ImageData; pixels: Uint32Array };
}

/** First node in [first, last) whose right edge lies beyond x. */
function firstVisible(tree: Tree, first: number, last: number, x: number): number {
	let [lo, hi] = [first, last];
	while (lo < hi) {
		const mid = (lo + hi) >>> 1;
		if (tree.x[mid] + tree.width[mid] > x) hi = mid;
		else lo = mid + 1;
	}
	return lo;
}

export function rowTop(view: View, height: number, level: number): number {
	const y = level * ROW - view.scroll;
	return view.upwards ? height - y - ROW : y;
}

export function levelAt(view: View, height: number, y: number): number {
	return Math.floor(((view.upwards ? height - y : y) + view.scroll) / ROW);
}

function imageOf(surface: Surface): { data: ImageData; pixels: Uint32Array } {
	const width = Math.round(surface.width * surface.ratio);
	const height = Math.round(surface.height * surface.ratio);
	if (!surface.image || surface.image.data.width !== width || surface.image.data.height !== height) {
		const data = new ImageData(width, height);
		surface.image = { data, pixels: new Uint32Array(data.data.buffer) };
	}
	return surface.image;
}

/**
 * Draws what the view shows; `matches` (per frame) dims what a search does not find. Returns boxes drawn.
 *
 * Boxes are spans of pixels: one line per row is filled and copied down, so that 20,000 boxes cost what 20 do.
 */
export function drawTree(surface: Surface, tree: Tree, view: View, palette: Palette, matches: Uint8Array | null): number {
	const { context, height, ratio, charWidth } = surface;
	const { data, pixels } = imageOf(surface);
	const firstLevel = Math.max(0, Math.floor(view.scroll / ROW));
	const lastLevel = Math.min(tree.depth - 1, Math.floor((view.scroll + height) / ROW));
	const texts: Texts = { node: [], x: [], y: [], room: [] };
	const line = new Uint32Array(data.width);
	pixels.fill(palette.background);
	let drawn = 0;
	for (let level = firstLevel; level <= lastLevel; level++) {
		line.fill(palette.background);
		drawn += drawRow(surface, line, tree, view, palette, matches, level, texts);
		const top = Math.round(rowTop(view, height, level) * ratio);
		const bottom = Math.min(data.height, top + Math.round((ROW - 1) * ratio));
		for (let y = Math.max(0, top); y < bottom; y++) pixels.set(line, y * data.width);
	}
	context.putImageData(data, 0, 0);
	context.setTransform(ratio, 0, 0, ratio, 0, 0);
	context.textBaseline = "middle";
	drawTexts(context, tree, palette, matches, texts, charWidth);
	return drawn;
}

interface Texts {
	node: number[];
	x: number[];
	y: number[];
	room: number[];
}

/** Fills one line of device pixels with the boxes of a level, and notes the names that have room. */
function drawRow(
	surface: Surface, line: Uint32Array, tree: Tree, view: View, palette: Palette, matches: Uint8Array | null, level: number, texts: Texts,
): number {
	const { width, height, ratio } = surface;
	const { x, width: widths, levels } = tree;
	const last = levels[level + 1];
	const scale = line.length / (view.x1 - view.x0);
	const minText = MIN_TEXT * ratio;
	const y = rowTop(view, height, level) + ROW / 2;
	let drawn = 0;
	for (let i = firstVisible(tree, levels[level], last, view.x0); i < last && x[i] < view.x1; i++) {
		const left = Math.max(0, (x[i] - view.x0) * scale);
		const right = Math.min(line.length, (x[i] + widths[i] - view.x0) * scale);
		const from = Math.round(left);
		drawn++;
		if (right - left < MIN_WIDTH) {
			// all that end within the next half pixel are one step, and one grey pixel
			const began = x[i];
			i = firstVisible(tree, i + 1, last, view.x0 + (left + MIN_WIDTH) / scale) - 1;
			if (from < line.length && x[i] + widths[i] > began) line[from] = palette.merged;
			continue;
		}
		const end = Math.max(from + 1, Math.round(right) - (right - left > 2 ? 1 : 0));
		const colour = nodeColour(tree, i, palette, matches);
		if (end - from > 8) line.fill(colour, from, end);
		else for (let k = from; k < end; k++) line[k] = colour;
		if (right - left > minText) {
			texts.node.push(i);
			texts.x.push(left / ratio + 4);
			texts.y.push(y);
			texts.room.push(Math.min(right / ratio, width) - left / ratio - 8);
		}
	}
	return drawn;
}

function nodeColour(tree: Tree, node: number, palette: Palette, matches: Uint8Array | null): number {
	if (matches) return node !== 0 && matches[tree.frame[node]] ? palette.match : palette.merged;
	if (tree.total2) {
		const [a, b] = tree.header.total;
		return palette.diff[diffStep(a ? tree.total[node] / a : 0, b ? tree.total2[node] / b : 0)];
	}
	return node === 0 ? palette.merged : palette.frames[tree.frame[node]];
}

function drawTexts(
	context: CanvasRenderingContext2D, tree: Tree, palette: Palette, matches: Uint8Array | null, texts: Texts, charWidth: number,
): void {
	const plain = matches ? palette.textDim : palette.text;
	let style = "";
	for (let k = 0; k < texts.node.length; k++) {
		const node = texts.node[k];
		const text = shorten(tree.name(node), Math.floor(texts.room[k] / charWidth));
		if (text === "") continue;
		const next = node === 0 || (matches && !matches[tree.frame[node]]) ? palette.textDim : matches ? palette.text : plain;
		if (next !== style) context.fillStyle = style = next;
		context.fillText(text, texts.x[k], texts.y[k]);
	}
}

/** The node under a point, or -1. */
export function nodeAt(surface: Surface, tree: Tree, view: View, x: number, y: number): number {
	const level = levelAt(view, surface.height, y);
	if (level < 0 || level >= tree.depth) return -1;
	const at = view.x0 + (x / surface.width) * (view.x1 - view.x0);
	const first = tree.levels[level];
	const last = tree.levels[level + 1];
	const i = firstVisible(tree, first, last, at);
	return i < last && tree.x[i] <= at ? i : -1;
}

/** Outlines one node: the hovered or the selected one, on a canvas that lies over the other. */
export function outline(surface: Surface, tree: Tree, view: View, node: number, colour: string): void {
	const { context, width, height, ratio } = surface;
	context.setTransform(ratio, 0, 0, ratio, 0, 0);
	const scale = width / (view.x1 - view.x0);
	const left = Math.max(-2, (tree.x[node] - view.x0) * scale);
	const right = Math.min(width + 2, (tree.x[node] + tree.width[node] - view.x0) * scale);
	context.strokeStyle = colour;
	context.lineWidth = 2;
	context.strokeRect(left + 1, rowTop(view, height, tree.level[node]) + 1, Math.max(1, right - left - 2), ROW - 3);
}
