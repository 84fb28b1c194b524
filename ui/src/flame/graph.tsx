// graph.tsx - the flame graph as a part of the page: zoom, walk, hover, search, menu. Two canvases of the size of the
// view: one with the boxes, one over it with the outlines of what is hovered and selected.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { calm, cssColour } from "../theme";
import { diffScale, frameColours, parsePixel, type ColourMode, type Theme } from "./colour";
import { drawTree, nodeAt, outline, ROW, type Palette, type Surface, type View } from "./draw";
import type { Tree } from "./tree";

export interface GraphProps {
	tree: Tree;
	upwards: boolean;
	colour: ColourMode;
	theme: Theme;
	search: string;
	zoom: string;
	dimmed: boolean;
	label: string;
	onZoom(hash: string): void;
	onMenu(node: number, x: number, y: number): void;
	onHover(node: number, x: number, y: number): void;
	onOther(node: number): void;
}

const ZOOM_MS = 120;

function palette(tree: Tree, colour: ColourMode, theme: Theme): Palette {
	return {
		frames: frameColours(tree, colour, theme),
		diff: diffScale(theme),
		text: cssColour("--frame-text"),
		textDim: cssColour("--ink"),
		background: parsePixel(cssColour("--paper")),
		merged: parsePixel(cssColour("--merged")),
		match: parsePixel(cssColour("--match")),
	};
}

/** Frames whose names a search finds; null without a search or with a broken one. */
export function matching(tree: Tree, search: string): Uint8Array | null {
	if (search === "") return null;
	let regex: RegExp;
	try {
		regex = new RegExp(search, "i");
	} catch {
		return null;
	}
	const strings = tree.strings.map((s) => (regex.test(s) ? 1 : 0));
	const found = new Uint8Array(tree.frames.name.length);
	for (let i = 0; i < found.length; i++) found[i] = strings[tree.frames.name[i]];
	return found;
}

/** What the search found: value of all stacks that hold a match, each counted once. */
export function matchedShare(tree: Tree, found: Uint8Array): number {
	let sum = 0;
	const inside = new Uint8Array(tree.count);
	for (let i = 1; i < tree.count; i++) {
		if (inside[tree.parent[i]]) inside[i] = 1;
		else if (found[tree.frame[i]]) {
			inside[i] = 1;
			sum += tree.total[i];
		}
	}
	return sum;
}

function span(tree: Tree, node: number): [number, number] {
	return [tree.x[node], tree.x[node] + Math.max(tree.width[node], 1e-9)];
}

export function Graph(props: GraphProps) {
	const { tree, upwards, theme, colour } = props;
	const box = useRef<HTMLDivElement>(null);
	const base = useRef<HTMLCanvasElement>(null);
	const over = useRef<HTMLCanvasElement>(null);
	const surfaces = useRef<{ base: Surface; over: Surface } | null>(null);
	const view = useRef<View>({ x0: 0, x1: 1, scroll: 0, upwards, zoomed: 0 });
	const hovered = useRef(-1);
	const [selected, setSelected] = useState(0);
	const [size, setSize] = useState({ width: 0, height: 0 });
	const frame = useRef(0);

	const colours = useMemo(() => palette(tree, colour, theme), [tree, colour, theme]);
	const found = useMemo(() => matching(tree, props.search), [tree, props.search]);
	const zoomed = useMemo(() => Math.max(0, props.zoom ? tree.find(props.zoom) : 0), [tree, props.zoom]);

	const maxScroll = () => Math.max(0, tree.depth * ROW - size.height + ROW);

	const paint = () => {
		cancelAnimationFrame(frame.current);
		frame.current = requestAnimationFrame(() => {
			const s = surfaces.current;
			if (!s) return;
			const began = performance.now();
			const boxes = drawTree(s.base, tree, view.current, colours, found);
			paintOver();
			window.__draw = { ms: performance.now() - began, boxes };
		});
	};
	const paintOver = () => {
		const s = surfaces.current;
		if (!s) return;
		s.over.context.setTransform(1, 0, 0, 1, 0, 0);
		s.over.context.clearRect(0, 0, s.over.width * s.over.ratio, s.over.height * s.over.ratio);
		if (selected > 0 && selected < tree.count) outline(s.over, tree, view.current, selected, cssColour("--focus"));
		if (hovered.current > 0) outline(s.over, tree, view.current, hovered.current, cssColour("--ink"));
		paintPlace(s.over);
	};
	/* There is more than is seen: a thin bar says where this is of it. */
	const paintPlace = (over: Surface) => {
		const most = maxScroll();
		if (most <= 0) return;
		const { scroll, upwards: up } = view.current;
		const length = Math.max(24, (over.height * over.height) / (over.height + most));
		const at = (over.height - length) * (scroll / most);
		over.context.setTransform(over.ratio, 0, 0, over.ratio, 0, 0);
		over.context.fillStyle = cssColour("--dim");
		over.context.globalAlpha = 0.6;
		over.context.fillRect(over.width - 4, up ? over.height - length - at : at, 3, length);
		over.context.globalAlpha = 1;
	};

	useLayoutEffect(() => {
		const observer = new ResizeObserver(([entry]) => {
			const { width, height } = entry.contentRect;
			setSize({ width: Math.floor(width), height: Math.floor(height) });
		});
		observer.observe(box.current!);
		return () => observer.disconnect();
	}, []);

	useLayoutEffect(() => {
		if (size.width === 0 || size.height === 0) return;
		const ratio = Math.min(devicePixelRatio || 1, 3);
		const prepare = (canvas: HTMLCanvasElement): Surface => {
			canvas.width = Math.round(size.width * ratio);
			canvas.height = Math.round(size.height * ratio);
			const context = canvas.getContext("2d", { alpha: canvas === over.current })!;
			context.font = `12px ${cssColour("--mono")}`;
			return { context, width: size.width, height: size.height, ratio, charWidth: context.measureText("m").width };
		};
		surfaces.current = { base: prepare(base.current!), over: prepare(over.current!) };
	}, [size.width, size.height]);

	// A new zoom: the window moves there, in ZOOM_MS unless motion is unwelcome.
	useEffect(() => {
		const v = view.current;
		const [x0, x1] = span(tree, zoomed);
		const scroll = zoomed === 0 ? 0 : Math.min(maxScroll(), Math.max(0, (tree.level[zoomed] - 2) * ROW));
		const from = { ...v };
		const still = calm() || v.zoomed >= tree.count || from.x1 > tree.x[0] + tree.width[0] || from.x1 <= from.x0;
		v.zoomed = zoomed;
		v.upwards = upwards;
		setSelected(zoomed);
		const began = performance.now();
		let handle = 0;
		const step = () => {
			const t = still ? 1 : Math.min(1, (performance.now() - began) / ZOOM_MS);
			const e = 1 - (1 - t) ** 3;
			v.x0 = from.x0 + (x0 - from.x0) * e;
			v.x1 = from.x1 + (x1 - from.x1) * e;
			v.scroll = from.scroll + (scroll - from.scroll) * e;
			paint();
			if (t < 1) handle = requestAnimationFrame(step);
		};
		step();
		return () => cancelAnimationFrame(handle);
	}, [tree, zoomed, upwards]);

	useEffect(paint, [tree, colours, found, size, upwards]);
	useEffect(paintOver, [selected]);

	const local = (event: MouseEvent): [number, number] => {
		const rect = base.current!.getBoundingClientRect();
		return [event.clientX - rect.left, event.clientY - rect.top];
	};
	const under = (event: MouseEvent) => {
		const s = surfaces.current;
		return s ? nodeAt(s.base, tree, view.current, ...local(event)) : -1;
	};

	const hover = (event: MouseEvent) => {
		if (drag.current) return;
		const node = under(event);
		if (node !== hovered.current) {
			hovered.current = node;
			paintOver();
		}
		props.onHover(node, event.clientX, event.clientY);
	};
	const leave = () => {
		hovered.current = -1;
		paintOver();
		props.onHover(-1, 0, 0);
	};
	const zoomTo = (node: number) => {
		if (node < 0) return;
		if (tree.isOther(node)) props.onOther(node);
		else props.onZoom(node === 0 ? "" : tree.hash(node));
	};

	const drag = useRef<{ x: number; y: number; x0: number; x1: number; scroll: number; moved: boolean } | null>(null);
	const press = (event: PointerEvent) => {
		if (event.button !== 0) return;
		const v = view.current;
		drag.current = { x: event.clientX, y: event.clientY, x0: v.x0, x1: v.x1, scroll: v.scroll, moved: false };
		box.current!.setPointerCapture(event.pointerId);
	};
	const moveTo = (event: PointerEvent) => {
		const d = drag.current;
		if (!d) return hover(event);
		const dx = event.clientX - d.x;
		const dy = event.clientY - d.y;
		if (!d.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
		d.moved = true;
		const v = view.current;
		const shift = (-dx / size.width) * (d.x1 - d.x0);
		moveWindow(d.x0 + shift, d.x1 + shift);
		v.scroll = Math.min(maxScroll(), Math.max(0, d.scroll + (v.upwards ? dy : -dy)));
		paint();
	};
	const release = (event: PointerEvent) => {
		const d = drag.current;
		drag.current = null;
		if (d && !d.moved) zoomTo(under(event));
	};
	const moveWindow = (x0: number, x1: number) => {
		const v = view.current;
		const width = Math.min(x1 - x0, tree.width[0]);
		v.x0 = Math.max(tree.x[0], Math.min(x0, tree.x[0] + tree.width[0] - width));
		v.x1 = v.x0 + width;
	};
	const wheel = (event: WheelEvent) => {
		const v = view.current;
		event.preventDefault();
		if (event.ctrlKey || event.metaKey) {
			const at = v.x0 + (local(event)[0] / size.width) * (v.x1 - v.x0);
			const factor = Math.exp(event.deltaY * 0.002);
			const width = Math.max((v.x1 - v.x0) * factor, tree.width[0] * 1e-9);
			moveWindow(at - (at - v.x0) * (width / (v.x1 - v.x0)), at - (at - v.x0) * (width / (v.x1 - v.x0)) + width);
		} else {
			v.scroll = Math.min(maxScroll(), Math.max(0, v.scroll + (v.upwards ? -event.deltaY : event.deltaY)));
			if (event.deltaX) {
				const shift = (event.deltaX / size.width) * (v.x1 - v.x0);
				moveWindow(v.x0 + shift, v.x1 + shift);
			}
		}
		paint();
	};
	useEffect(() => {
		const element = box.current!;
		element.addEventListener("wheel", wheel, { passive: false });
		return () => element.removeEventListener("wheel", wheel);
	});

	const select = (node: number) => {
		setSelected(node);
		const v = view.current;
		const y = tree.level[node] * ROW;
		if (y < v.scroll) v.scroll = y;
		else if (y + ROW > v.scroll + size.height) v.scroll = Math.min(maxScroll(), y + ROW - size.height);
		if (tree.x[node] + tree.width[node] <= v.x0 || tree.x[node] >= v.x1) {
			const [x0, x1] = span(tree, tree.parent[node]);
			moveWindow(x0, x1);
		}
		paint();
	};
	const walk = (event: KeyboardEvent) => {
		if (event.ctrlKey || event.metaKey || event.altKey) return;
		const inward = upwards ? "ArrowUp" : "ArrowDown";
		const outward = upwards ? "ArrowDown" : "ArrowUp";
		const at = selected < tree.count ? selected : 0;
		let next = at;
		if (event.key === inward) next = tree.childCount[at] ? tree.firstChild[at] : at;
		else if (event.key === outward) next = tree.parent[at];
		else if (event.key === "ArrowRight") next = at + 1 < tree.count && tree.level[at + 1] === tree.level[at] ? at + 1 : at;
		else if (event.key === "ArrowLeft") next = at > 0 && tree.level[at - 1] === tree.level[at] ? at - 1 : at;
		else if (event.key === "Home") next = 0;
		else if (event.key === "Enter") return event.preventDefault(), zoomTo(at);
		else if (event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey)) {
			event.preventDefault();
			const rect = box.current!.getBoundingClientRect();
			return props.onMenu(at, rect.left + 40, rect.top + 40);
		} else return;
		event.preventDefault();
		event.stopPropagation();
		select(next);
		props.onHover(next, -1, -1);
	};

	const describe = selected < tree.count ? `${tree.name(selected)}, level ${tree.level[selected]}` : "";
	return (
		<div
			ref={box}
			class={props.dimmed ? "graph dimmed" : "graph"}
			tabIndex={0}
			role="application"
			aria-roledescription="flame graph"
			aria-label={`${props.label}. Arrow keys walk the frames, Enter zooms. Selected: ${describe}. The table beside it holds the same numbers.`}
			onPointerDown={press}
			onPointerMove={moveTo}
			onPointerUp={release}
			onPointerCancel={() => (drag.current = null)}
			onPointerLeave={leave}
			onContextMenu={(event) => {
				event.preventDefault();
				const node = under(event);
				if (node >= 0) {
					setSelected(node);
					props.onMenu(node, event.clientX, event.clientY);
				}
			}}
			onKeyDown={walk}
		>
			<canvas ref={base} aria-hidden="true" />
			<canvas ref={over} aria-hidden="true" />
		</div>
	);
}
