// graph.tsx - the flame graph as a part of the page: zoom, walk, hover, search, menu. Two canvases of the size of the
// view: one with the boxes, one over it with the outlines of what is hovered and selected.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { expression } from "../selector";
import { calm, cssColour } from "../theme";
import { diffScale, frameColours, parsePixel, type ColourMode, type Theme } from "./colour";
import { drawTree, nodeAt, outline, ROW, type Palette, type Surface, type View } from "./draw";
import { FLAG_FOUND, FLAG_GROUP, FLAG_OTHER, type Tree } from "./tree";
import { anchorOf, exact, useZoomed, windowIn } from "./window";

export interface GraphProps {
	tree: Tree;
	upwards: boolean;
	colour: ColourMode;
	theme: Theme;
	search: string;
	zoom: string;
	/** What the tree answers: of an answer to the same question, the same part is looked at. */
	question: string;
	dimmed: boolean;
	label: string;
	/** A node and its numbers, in words. */
	says(node: number): string;
	onZoom(hash: string): void;
	onMenu(node: number, x: number, y: number): void;
	onHover(node: number, x: number, y: number): void;
	onOther(node: number): void;
	/** The window is (no more) one that a person moved. */
	onFree(free: boolean): void;
	/** Another number: back to what is zoomed to. */
	home: number;
	/** Outlined as if it was hovered: the same frame in another graph. */
	marked?: number;
	/** Beside others of the same nodes: what is moved in one is moved in all, and one selection is that of all. */
	link?: GraphLink;
	selection?: number;
	onSelection?(node: number): void;
	/** How wide the view is with this node zoomed to, in units of value; absent: as wide as the node. */
	reach?(node: number): number;
	/** The node to go to; another object: go there (again). `near`: so near that it can be seen. */
	target?: { node: number; near: boolean } | null;
}

/** Tells graphs of each other's windows, as parts of what is zoomed to. */
export class GraphLink {
	private all = new Set<(from: number, to: number, scroll: number) => void>();

	on(take: (from: number, to: number, scroll: number) => void): () => void {
		this.all.add(take);
		return () => this.all.delete(take);
	}

	tell(me: unknown, from: number, to: number, scroll: number): void {
		for (const take of this.all) if (take !== me) take(from, to, scroll);
	}
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

/** Frames whose names a search finds: as the program says, once it does; null without a search, with a broken one, and with
 * one that only the program reads. */
export function matching(tree: Tree, search: string): Uint8Array | null {
	if (search === "") return null;
	const { name, flags } = tree.frames;
	const said = tree.header.matched !== undefined && tree.header.searched === search;
	const regex = said ? null : expression(search);
	if (!said && !(regex instanceof RegExp)) return null;
	const strings = regex instanceof RegExp ? tree.strings.map((s) => (regex.test(s) ? 1 : 0)) : [];
	const found = new Uint8Array(name.length);
	for (let i = 0; i < found.length; i++) found[i] = flags[i] & (FLAG_OTHER | FLAG_GROUP) ? 0 : said ? Number((flags[i] & FLAG_FOUND) !== 0) : strings[name[i]];
	return found;
}

/** What the search found of what is drawn: the nodes of it that are in no other, the heaviest first, and their value. */
export function matches(tree: Tree, found: Uint8Array, total = tree.total): { nodes: number[]; value: number } {
	const nodes: number[] = [];
	let sum = 0;
	const inside = new Uint8Array(tree.count);
	for (let i = 1; i < tree.count; i++) {
		if (inside[tree.parent[i]]) inside[i] = 1;
		else if (found[tree.frame[i]]) {
			inside[i] = 1;
			sum += total[i];
			nodes.push(i);
		}
	}
	return { nodes: nodes.sort((a, b) => tree.width[b] - tree.width[a] || a - b), value: sum };
}


export function Graph(props: GraphProps) {
	const { tree, upwards, theme, colour } = props;
	const box = useRef<HTMLDivElement>(null);
	const base = useRef<HTMLCanvasElement>(null);
	const over = useRef<HTMLCanvasElement>(null);
	const surfaces = useRef<{ base: Surface; over: Surface } | null>(null);
	const view = useRef<View>({ x0: 0, x1: 1, scroll: 0, upwards, zoomed: 0 });
	const hovered = useRef(-1);
	const pointer = useRef<MouseEvent | null>(null); // over the graph
	const [own, setOwn] = useState<{ tree: Tree; node: number; keys: bigint[] }>({ tree, node: 0, keys: [] });
	const selected = props.selection ?? (own.tree === tree ? own.node : tree.nearest(own.keys));
	const free = useRef(false); // a person moved the window: it is not what is zoomed to
	const setFree = (is: boolean) => {
		if (free.current !== is) props.onFree(is);
		free.current = is;
	};
	const setSelected = (node: number) => {
		setOwn({ tree, node, keys: tree.keys(node) });
		if (node !== props.selection) props.onSelection?.(node);
	};
	const [size, setSize] = useState({ width: 0, height: 0 });
	const [walked, setWalked] = useState(""); // to by keys: said once, not with each number that comes
	const frame = useRef(0);

	const colours = useMemo(() => palette(tree, colour, theme), [tree, colour, theme]);
	const found = useMemo(() => matching(tree, props.search), [tree, props.search]);
	const last = useRef<{ tree: Tree; zoom: string; upwards: boolean; question: string } | null>(null);
	const zoomed = useZoomed(tree, props.zoom);
	const whole = props.reach?.(0) ?? tree.width[0];
	const span = (node: number): [number, number] => [tree.x[node], tree.x[node] + Math.max(props.reach?.(node) ?? tree.width[node], 1e-9)];
	/** What of it is here: a node that this side lacks has a caller that it has. */
	const shown = (node: number): number => {
		let i = node;
		while (i > 0 && tree.width[i] <= 0) i = tree.parent[i];
		return i;
	};

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
		const over = hovered.current > 0 ? hovered.current : (props.marked ?? -1);
		if (over > 0 && over < tree.count) outline(s.over, tree, view.current, over, cssColour("--ink"));
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
		const was = last.current;
		const same = was !== null && was.zoom === props.zoom && was.upwards === upwards;
		last.current = { tree, zoom: props.zoom, upwards, question: props.question };
		if (!same || was.question !== props.question) setFree(false);
		const [x0, x1] = was && free.current ? within(windowIn(tree, anchorOf(was.tree, v.x0, v.x1))) : span(shown(zoomed));
		const scroll = zoomed === 0 ? 0 : Math.min(maxScroll(), Math.max(0, (tree.level[zoomed] - 2) * ROW));
		const from = { ...v };
		/* Other numbers are no motion. */
		const still = same || calm() || v.zoomed >= tree.count || from.x1 > tree.x[0] + whole || from.x1 <= from.x0;
		v.zoomed = zoomed;
		v.upwards = upwards;
		if (!same) setSelected(zoomed);
		const began = performance.now();
		let handle = 0;
		const step = () => {
			const t = still ? 1 : Math.min(1, (performance.now() - began) / ZOOM_MS);
			const e = 1 - (1 - t) ** 3;
			v.x0 = from.x0 + (x0 - from.x0) * e;
			v.x1 = from.x1 + (x1 - from.x1) * e;
			v.scroll = same ? Math.min(maxScroll(), from.scroll) : from.scroll + (scroll - from.scroll) * e;
			paint();
			if (t < 1) handle = requestAnimationFrame(step);
			else lookAgain();
		};
		step();
		/* A drag goes on from here. */
		const d = drag.current;
		if (d && pointer.current) Object.assign(d, { x: pointer.current.clientX, y: pointer.current.clientY, x0: v.x0, x1: v.x1, scroll: v.scroll });
		return () => cancelAnimationFrame(handle);
	}, [tree, zoomed, upwards, whole, props.question]);

	const take = useRef((_from: number, _to: number, _scroll: number) => {});
	take.current = (from, to, scroll) => {
		const [x0, x1] = span(shown(zoomed));
		moveWindow(x0 + from * (x1 - x0), x0 + to * (x1 - x0));
		view.current.scroll = Math.min(maxScroll(), scroll);
		paint();
	};
	const taking = useRef((from: number, to: number, scroll: number) => take.current(from, to, scroll));
	useEffect(() => props.link?.on(taking.current), [props.link]);
	/* A window that a person moved, in the others too. */
	const moved = () => {
		paint();
		if (!props.link) return;
		const { x0, x1, scroll } = view.current;
		const [s0, s1] = span(shown(zoomed));
		props.link.tell(taking.current, (x0 - s0) / (s1 - s0), (x1 - s0) / (s1 - s0), scroll);
	};

	useEffect(paint, [tree, colours, found, size, upwards]);
	useEffect(paintOver, [selected, props.marked]);

	const local = (event: MouseEvent): [number, number] => {
		const rect = base.current!.getBoundingClientRect();
		return [event.clientX - rect.left, event.clientY - rect.top];
	};
	const under = (event: MouseEvent) => {
		const s = surfaces.current;
		return s ? nodeAt(s.base, tree, view.current, ...local(event)) : -1;
	};

	const hover = (event: MouseEvent) => {
		pointer.current = event;
		if (drag.current) return;
		const node = under(event);
		if (node !== hovered.current) {
			hovered.current = node;
			paintOver();
		}
		props.onHover(node, event.clientX, event.clientY);
	};
	/* What is under a pointer that keeps still is another when the picture changes. */
	const lookAgain = () => {
		hovered.current = -1;
		if (pointer.current) hover(pointer.current);
	};
	const leave = () => {
		pointer.current = null;
		hovered.current = -1;
		paintOver();
		props.onHover(-1, 0, 0);
	};
	const zoomTo = (node: number) => {
		if (node < 0) return;
		if (tree.isOther(node)) props.onOther(node);
		else props.onZoom(node === 0 ? "" : tree.hash(node));
	};

	const home = useRef(props.home);
	useEffect(() => {
		if (home.current === props.home) return;
		home.current = props.home;
		moveWindow(...span(shown(zoomed)));
		view.current.scroll = zoomed === 0 ? 0 : Math.min(maxScroll(), Math.max(0, (tree.level[zoomed] - 2) * ROW));
		paint();
		lookAgain();
	}, [props.home]);
	const drag = useRef<{ x: number; y: number; x0: number; x1: number; scroll: number; moved: boolean; on: bigint[] | null } | null>(null);
	const press = (event: PointerEvent) => {
		if (event.button !== 0) return;
		const v = view.current;
		const node = under(event);
		drag.current = { x: event.clientX, y: event.clientY, x0: v.x0, x1: v.x1, scroll: v.scroll, moved: false, on: node < 0 ? null : tree.keys(node) };
		box.current!.setPointerCapture(event.pointerId);
	};
	const moveTo = (event: PointerEvent) => {
		const d = drag.current;
		if (!d) return hover(event);
		pointer.current = event;
		const dx = event.clientX - d.x;
		const dy = event.clientY - d.y;
		if (!d.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
		d.moved = true;
		const v = view.current;
		const shift = (-dx / size.width) * (d.x1 - d.x0);
		moveWindow(d.x0 + shift, d.x1 + shift);
		v.scroll = Math.min(maxScroll(), Math.max(0, d.scroll + (v.upwards ? dy : -dy)));
		moved();
	};
	const release = () => {
		const d = drag.current;
		drag.current = null;
		if (d && !d.moved && d.on) zoomTo(exact(tree, d.on)); // what was there when it was pressed
	};
	const within = ([x0, x1]: [number, number]): [number, number] => {
		const width = Math.min(x1 - x0, whole);
		const from = Math.max(tree.x[0], Math.min(x0, tree.x[0] + whole - width));
		return [from, from + width];
	};
	const moveWindow = (x0: number, x1: number) => {
		const v = view.current;
		[v.x0, v.x1] = within([x0, x1]);
		const [s0, s1] = span(shown(zoomed));
		setFree(Math.abs(v.x0 - s0) + Math.abs(v.x1 - s1) > 1e-9 * (s1 - s0));
	};
	/** Closer (below 1) or wider, `at` keeping its place. */
	const scale = (at: number, factor: number) => {
		const { x0, x1 } = view.current;
		const f = Math.max(factor, (whole * 1e-9) / (x1 - x0));
		moveWindow(at - (at - x0) * f, at + (x1 - at) * f);
	};
	const wheel = (event: WheelEvent) => {
		const v = view.current;
		event.preventDefault();
		if (event.ctrlKey || event.metaKey) {
			scale(v.x0 + (local(event)[0] / size.width) * (v.x1 - v.x0), Math.exp(event.deltaY * 0.002));
		} else {
			v.scroll = Math.min(maxScroll(), Math.max(0, v.scroll + (v.upwards ? -event.deltaY : event.deltaY)));
			if (event.deltaX) {
				const shift = (event.deltaX / size.width) * (v.x1 - v.x0);
				moveWindow(v.x0 + shift, v.x1 + shift);
			}
		}
		moved();
		lookAgain();
	};
	useEffect(() => {
		const element = box.current!;
		element.addEventListener("wheel", wheel, { passive: false });
		return () => element.removeEventListener("wheel", wheel);
	});

	/* At once: the next key is for what was gone to. */
	useLayoutEffect(() => {
		const node = props.target?.node ?? -1;
		if (node < 0 || node >= tree.count) return;
		select(node);
		/* Too narrow to be seen: its surroundings. */
		const v = view.current;
		if (props.target!.near && (tree.width[node] / (v.x1 - v.x0)) * size.width < 4) {
			const width = Math.max(tree.width[node], tree.width[0] * 1e-9) * 20;
			moveWindow(tree.x[node] + tree.width[node] / 2 - width / 2, tree.x[node] + tree.width[node] / 2 + width / 2);
		}
		moved();
	}, [props.target]);

	const select = (node: number) => {
		setSelected(node);
		const v = view.current;
		const y = tree.level[node] * ROW;
		if (y < v.scroll) v.scroll = y;
		else if (y + ROW > v.scroll + size.height) v.scroll = Math.min(maxScroll(), y + ROW - size.height);
		if (tree.x[node] + tree.width[node] <= v.x0 || tree.x[node] >= v.x1) {
			const [x0, x1] = span(shown(tree.parent[node]));
			moveWindow(x0, x1);
		}
		moved();
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
		else if (event.key === "+" || event.key === "-") {
			event.preventDefault();
			const { x0, x1 } = view.current;
			scale(Math.max(x0, Math.min(x1, tree.x[at] + tree.width[at] / 2)), event.key === "+" ? 0.5 : 2);
			return moved();
		} else if (event.key === "Enter") return event.preventDefault(), leaveByKeys(), zoomTo(at);
		else if (event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey)) {
			event.preventDefault();
			const rect = box.current!.getBoundingClientRect();
			return props.onMenu(at, rect.left + 40, rect.top + 40);
		} else return;
		event.preventDefault();
		event.stopPropagation();
		select(next);
		setWalked(`${props.says(next)}, level ${tree.level[next]}`);
		const rect = box.current!.getBoundingClientRect();
		const { x0, x1, scroll } = view.current;
		const x = ((tree.x[next] - x0) / (x1 - x0)) * size.width;
		const y = tree.level[next] * ROW - scroll;
		props.onHover(next, rect.left + Math.max(0, Math.min(size.width - 24, x)), rect.top + (upwards ? size.height - y - ROW : y));
	};
	const leaveByKeys = () => {
		setWalked("");
		props.onHover(-1, 0, 0);
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
			onBlur={() => walked && leaveByKeys()}
		>
			<div class="visually-hidden" role="status">
				{walked}
			</div>
			<canvas ref={base} aria-hidden="true" />
			<canvas ref={over} aria-hidden="true" />
		</div>
	);
}
