// flame.tsx - the graph with what belongs to it: breadcrumb, search with its share, legend, tooltip, menu.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { againMs, askJSON } from "../api";
import { ANY_HUE, css, diffScale, typeColour, type Theme } from "../flame/colour";
import { Graph, matches, matching } from "../flame/graph";
import type { Tree } from "../flame/tree";
import { exact, useZoomed } from "../flame/window";
import { percent, shorten, value } from "../format";
import { escaped, exactly, namespaceOf } from "../parts/chips";
import { Menu, type MenuItem } from "../parts/menu";
import { copyText } from "../parts/said";
import { frameSays, Tooltip } from "../parts/tooltip";
import { Pair } from "./pair";
import { report } from "../report";
import { ELSEWHERE, expression } from "../selector";
import { selectionParams, type State, type Store } from "../state";

/** A frame as menus and other views know it. */
export interface FrameId {
	name: string;
	binary: string;
	type: string;
	key: string;
	stack: string[] | null;
	/** No code: a value of the label that the selection is grouped by. */
	group?: boolean;
}

export function frameId(tree: Tree, node: number): FrameId {
	return { name: tree.name(node), binary: tree.binary(node), type: tree.type(node), key: tree.key(node), stack: tree.pathNames(node), group: tree.isGroup(node) };
}

export interface FrameActions {
	transform(x: string): void;
	sandwich(frame: FrameId): void;
	source(name: string): void;
	copyLink(): void;
	raw(name: string): void;
	findInTop(name: string): void;
	/** Only samples of this value of the label that is grouped by, or all but those. */
	only(value: string, not: boolean): void;
}

/** The menu of one frame, also of a row of the table (then without a stack). */
export function frameMenu(frame: FrameId, actions: FrameActions): MenuItem[] {
	const { name, binary, type, stack } = frame;
	if (report()) {
		const items: MenuItem[] = [
			{ label: "Sandwich: callers and callees", hint: "s", action: () => actions.sandwich(frame) },
			{ label: "Find in the table", action: () => actions.findInTop(name) },
			{ label: "Copy name", action: () => void copyText(name, "the name") },
		];
		if (stack) items.push({ label: "Copy stack", action: () => void copyText(stack.join("\n"), "the stack") });
		return items;
	}
	if (frame.group)
		return [
			{ label: "Only this value", action: () => actions.only(name, false) },
			{ label: "All but this value", action: () => actions.only(name, true) },
			{ label: "", separator: true },
			{ label: "Copy value", action: () => void copyText(name, "the value") },
			{ label: "Copy link", hint: "y", action: actions.copyLink },
		];
	const items: MenuItem[] = [
		{ label: "Focus: only stacks with it", action: () => actions.transform(`focus:${exactly(name)}`) },
		{ label: "Ignore stacks with it", action: () => actions.transform(`ignore:${exactly(name)}`) },
		{ label: "Start stacks at it", action: () => actions.transform(`show_from:${exactly(name)}`) },
		{ label: "Sandwich: callers and callees", hint: "s", action: () => actions.sandwich(frame) },
		{ label: "Lines of its source", action: () => actions.source(name) },
		{ label: "Its raw samples", action: () => actions.raw(name) },
		{ label: "", separator: true },
		{ label: "Hide: its cost goes to its callers", action: () => actions.transform(`hide:${exactly(name)}`) },
		{ label: "Its recursion once", action: () => actions.transform(`recursion:${exactly(name)}`) },
	];
	const space = namespaceOf(name);
	if (space) items.push({ label: `Collapse ${shorten(space, 28)}`, action: () => actions.transform(`collapse:^${escaped(space)}`) });
	if (binary) {
		const short = shorten(binary.split("/").pop()!, 28);
		items.push(
			{ label: `Only stacks with ${short}`, action: () => actions.transform(`focus:binary:${exactly(binary)}`) },
			{ label: `Collapse ${short}`, action: () => actions.transform(`collapse:binary:${exactly(binary)}`) },
			{ label: `Hide all of ${short}`, action: () => actions.transform(`hide:binary:${exactly(binary)}`) },
		);
	}
	items.push({ label: "", separator: true }, { label: "Copy name", action: () => void copyText(name, "the name") });
	if (stack) items.push({ label: "Copy stack", action: () => void copyText(stack.join("\n"), "the stack") });
	items.push({ label: "Copy link", hint: "y", action: actions.copyLink }, { label: "Find in the table", action: () => actions.findInTop(name) });
	if (type) items.push({ label: `Only stacks with ${type} frames`, action: () => actions.transform(`focus:type:${exactly(type)}`) });
	return items;
}

function Legend(props: { tree: Tree; theme: Theme; onFilter(type: string): void }) {
	const { tree } = props;
	const whole = tree.header.total.reduce((sum, t) => sum + t, 0);
	const untyped = tree.header.frame_types.every((t) => t === "");
	const present = useMemo(() => {
		const self = new Map<string, number>();
		for (let i = 1; i < tree.count; i++) {
			if (tree.isOther(i) || tree.isGroup(i)) continue;
			const type = tree.type(i) || "unknown";
			self.set(type, (self.get(type) ?? 0) + tree.self[i] + (tree.self2?.[i] ?? 0));
		}
		return [...self].sort((a, b) => b[1] - a[1]).map(([name, v]) => ({ name, v }));
	}, [tree]);
	return (
		<ul class="legend" aria-label="Frame types">
			{present.map((t) => (
				<li key={t.name}>
					<button type="button" class="quiet" title={`self: ${percent(t.v, whole)}${report() ? "" : "; a click shows only stacks with such frames"}`} disabled={!!report() || untyped} onClick={() => props.onFilter(t.name)}>
						<i class="dot" style={{ background: untyped ? ANY_HUE : typeColour(t.name, props.theme) }} />
						{untyped ? "types not said: coloured by function" : t.name}
					</button>
				</li>
			))}
		</ul>
	);
}

function DiffLegend(props: { theme: Theme }) {
	const scale = diffScale(props.theme);
	return (
		<span class="legend dim" role="img" aria-label="Blue: less than before, orange: more">
			gone{" "}
			{[0, 8, 12, 16, 20, 24, 32].map((i) => (
				<i key={i} class="dot" style={{ background: css(scale[i]) }} />
			))}
			new
		</span>
	);
}

/** Of a diff: one graph of the difference, or each side's own. */
function PairSwitch(props: { store: Store }) {
	const { state, set } = props.store;
	return (
		<div class="segments" role="group" aria-label="Graphs of the diff">
			{[false, true].map((pair) => (
				<button key={String(pair)} type="button" title={pair ? "Both sides beside each other (d)" : "One graph of both (d)"} aria-pressed={state.pair === pair} onClick={() => set({ pair }, "replace")}>
					{pair ? "side by side" : "differential"}
				</button>
			))}
		</div>
	);
}

function Breadcrumb(props: { tree: Tree; zoom: string; label: string; free: boolean; onZoom(hash: string): void }) {
	const { tree } = props;
	const node = useZoomed(tree, props.zoom);
	const path = node > 0 ? tree.path(node) : [];
	const box = useRef<HTMLElement>(null);
	useLayoutEffect(() => {
		box.current!.scrollLeft = box.current!.scrollWidth; // its end is what is zoomed to
	}, [props.zoom, tree]);
	const shown = path.length > 6 ? [...path.slice(0, 2), -1, ...path.slice(-3)] : path;
	return (
		<nav ref={box} class="crumbs" aria-label={`Zoom: ${props.label}`}>
			<button type="button" class="quiet" onClick={() => props.onZoom("")}>
				all
			</button>
			{shown.map((i) =>
				i < 0 ? (
					<span key="gap">…</span>
				) : (
					<span key={i}>
						›{" "}
						<button type="button" class="quiet" title={tree.name(i)} aria-current={i === node} onClick={() => props.onZoom(tree.hash(i))}>
							{shorten(tree.name(i), 32)}
						</button>
					</span>
				),
			)}
			{props.free && (
				<button type="button" id="window-back" class="quiet link" title="Only a part is in sight: back to all of it (Backspace, Escape)" onClick={() => props.onZoom(props.zoom)}>
					a part of it ✕
				</button>
			)}
		</nav>
	);
}

interface Matched {
	matched: number;
	total: number;
	/** Of a diff's second side. */
	after?: number;
	unit: string;
}

const SETTLE_MS = 250; // of typing
const UNDER_WAY = -1; // not answered yet

/** What a search finds in all stacks of the selection: the program is asked, the tree here may leave out most of them.
 * Null: not known (yet), or the program reads the expression otherwise. */
function useMatched(search: string, state: State, asof: string): Matched | null {
	const [answer, setAnswer] = useState<{ key: string; is: Matched } | null>(null);
	const asked = useRef({ key: "", asof: "", at: 0, took: 0 });
	const params = selectionParams(state, "left");
	params.delete("group");
	const key = search && `${params} ${search}`;
	useEffect(() => {
		const last = asked.current;
		if (!key || report()) return;
		if (last.key === key && (last.asof === asof || last.took === UNDER_WAY)) return;
		const wait = last.key === key ? Math.max(SETTLE_MS, last.at + againMs(last.took) - Date.now()) : SETTLE_MS;
		const timer = setTimeout(() => {
			const mine = (asked.current = { key, asof, at: Date.now(), took: UNDER_WAY });
			const done = (is: Matched | null) => {
				mine.took = Date.now() - mine.at;
				if (asked.current === mine) setAnswer(is && { key, is });
			};
			params.set("asof", asof);
			params.set("search", `(?i)${search}`);
			askJSON<Matched>("search", params).then(done, () => done(null));
		}, wait);
		return () => clearTimeout(timer);
	}, [key, asof, answer]);
	return answer?.key === key ? answer.is : null;
}

/** How much a search finds, and the way to it. */
function Found(props: { tree: Tree; drawn: number; whole: Matched | null; found: Uint8Array; count: number; at: number; onStep(by: number): void; onFocus(): void }) {
	const { tree, drawn, whole, count, at } = props;
	const here = useMemo(() => (tree.total2 ? matches(tree, props.found, tree.total2).value : null), [tree, props.found]);
	const after = here === null ? null : (whole?.after ?? here);
	const [part, all] = whole ? [whole.matched, whole.total] : [drawn, tree.header.total[0]];
	const hidden = whole !== null && whole.matched > 0 && drawn / Math.max(1, tree.header.total[0]) < 0.9 * (whole.matched / Math.max(1, whole.total));
	return (
		<>
			<button type="button" id="match-before" class="icon quiet" title="Match before (N)" aria-label="Match before" disabled={count === 0} onClick={() => props.onStep(-1)}>
				‹
			</button>
			<button type="button" id="match-next" class="icon quiet" title="Next match, the widest first (n, or Enter in the search)" aria-label="Next match" disabled={count === 0} onClick={() => props.onStep(1)}>
				›
			</button>
			<output class="matched" title={whole ? "of all stacks, each counted once" : "of what is drawn"}>
				{percent(part, all)} <span class="dim">{after === null ? value(part, tree.header.unit) : `→ ${percent(after, tree.header.total[1])}`}{at >= 0 && ` · ${at + 1} of ${count}`}</span>
			</output>
			{hidden && !report() && (
				<button type="button" class="quiet link" title="Most of what is found is too small to be drawn: show only stacks with it" onClick={props.onFocus}>
					focus
				</button>
			)}
		</>
	);
}

export function FlameView(props: {
	tree: Tree;
	store: Store;
	theme: Theme;
	actions: FrameActions;
	upwards: boolean;
	dimmed: boolean;
	label: string;
	onSelect(frame: FrameId): void;
	onOther(node: number): void;
	search?: boolean;
}) {
	const { tree, store } = props;
	const state: State = store.state;
	const [hover, setHover] = useState({ tree, node: -1, x: 0, y: 0 });
	const [menu, setMenu] = useState<{ frame: FrameId; items: MenuItem[]; x: number; y: number } | null>(null);
	const found = useMemo(() => matching(tree, state.search), [tree, state.search]);
	const wrong = state.search && expression(state.search);
	const broken = typeof wrong === "string" ? wrong : "";
	const unread = !found && wrong === ELSEWHERE;
	const diff = tree.total2 !== null;
	const pair = diff && state.pair;
	const drawn = useMemo(() => (found ? matches(tree, found) : { nodes: [], value: 0 }), [tree, found]);
	const ofAll = props.search !== false && state.view !== "sandwich" && !diff;
	const { matched, searched, total, unit } = tree.header;
	const said = matched && searched === state.search ? matched : null;
	const asked = useMatched(ofAll && (found || unread) && !said ? state.search : "", state, tree.header.asof);
	const whole: Matched | null = said ? { matched: said[0], total: total[0], after: said[1], unit } : asked;
	const [match, setMatch] = useState<{ search: string; keys: bigint[]; node: number; near: boolean } | null>(null);
	const at = useMemo(() => (match?.near && match.search === state.search ? drawn.nodes.indexOf(exact(tree, match.keys)) : -1), [match, drawn, state.search]);
	const goTo = (node: number, near: boolean) => {
		setMatch({ search: state.search, keys: tree.keys(node), node, near });
		if (!tree.isGroup(node)) props.onSelect(frameId(tree, node)); // keys act on it
	};
	const stepTo = (by: number) => {
		const count = drawn.nodes.length;
		if (count === 0) return;
		const next = at < 0 ? (by > 0 ? 0 : count - 1) : (at + by + count) % count;
		goTo(drawn.nodes[next], true);
	};
	/* What was searched for is in sight, without a step: the widest of it. */
	const widest = useRef(() => {});
	widest.current = () => drawn.nodes.length > 0 && !(match?.near && match.search === state.search) && goTo(drawn.nodes[0], false);
	useEffect(() => {
		if (!state.search || props.search === false) return;
		const timer = setTimeout(() => widest.current(), SETTLE_MS);
		return () => clearTimeout(timer);
	}, [state.search]);
	const [free, setFree] = useState(false);
	const [home, setHome] = useState(0);
	const zoomTo = (hash: string) => (hash === state.zoom ? setHome((n) => n + 1) : store.set({ zoom: hash }));
	const graph = {
		tree,
		upwards: props.upwards,
		colour: state.colour,
		theme: props.theme,
		search: state.search,
		zoom: state.zoom,
		question: `${selectionParams(state, "both")} ${state.view} ${state.view === "sandwich" ? state.key : ""}`,
		dimmed: props.dimmed,
		label: props.label,
		says: (node: number) => frameSays(tree, node),
		target: match,
		onFree: setFree,
		home,
		onZoom: zoomTo,
		onHover: (node: number, x: number, y: number) => {
			if (node > 0 && !tree.isGroup(node)) props.onSelect(frameId(tree, node));
			setHover({ tree, node: x < 0 && !pair ? -1 : node, x, y });
		},
		onMenu: (node: number, x: number, y: number) => {
			if (node <= 0) return;
			const frame = frameId(tree, node);
			/* It is no function: it can only be opened. */
			const items = tree.isOther(node) ? [{ label: "Open: what is too small to be sent", action: () => props.onOther(node) }] : frameMenu(frame, props.actions);
			setMenu({ frame, items, x, y });
		},
		onOther: props.onOther,
	};
	/* Until the graph has looked again, the same frame in the new tree. */
	let hovered = hover.node;
	if (hovered > 0 && hover.tree !== tree) hovered = exact(tree, hover.tree.keys(hovered));
	return (
		<section class="flame" aria-label={props.label}>
			<div class="flame-head">
				<Breadcrumb tree={tree} zoom={state.zoom} label={props.label} free={free} onZoom={zoomTo} />
				{props.search !== false && (
					<label class="search">
						<span class="visually-hidden">Search frames</span>
						<input
							id="search"
							type="search"
							placeholder="search  /"
							spellcheck={false}
							value={state.search}
							aria-invalid={broken !== ""}
							aria-describedby={broken && "search-broken"}
							onInput={(event) => store.set({ search: event.currentTarget.value }, "replace")}
							onKeyDown={(event) => {
								event.stopPropagation();
								if (event.key === "Escape") {
									store.set({ search: "" }, "replace");
									event.currentTarget.blur();
								} else if (event.key === "Enter") {
									event.preventDefault();
									stepTo(event.shiftKey ? -1 : 1);
								}
							}}
						/>
					</label>
				)}
				{broken && props.search !== false && (
					<output id="search-broken" class="warn" title="What is searched for is a regular expression: a \ before ( ) [ ] . * + ? | makes it an ordinary sign">
						{broken}
					</output>
				)}
				{found && props.search !== false && (
					<Found tree={tree} drawn={drawn.value} whole={whole} found={found} count={drawn.nodes.length} at={at} onStep={stepTo} onFocus={() => props.actions.transform(`focus:(?i)${state.search}`)} />
				)}
				{unread && (
					<output class="matched">
						{asked && `${percent(asked.matched, asked.total)} `}
						<span class="dim">not marked: only the program reads this expression</span>
					</output>
				)}
				{found && props.search === false && (
					<output class="matched" title={said ? "of all stacks, each counted once" : "of what is drawn"}>
						{percent(said ? said[0] : drawn.value, total[0])}
					</output>
				)}
				{diff && !pair && <DiffLegend theme={props.theme} />}
				{diff && <PairSwitch store={store} />}
				{(!diff || pair) && <Legend tree={tree} theme={props.theme} onFilter={(type) => props.actions.transform(`focus:type:${exactly(type)}`)} />}
			</div>
			{pair ? <Pair {...graph} shares={state.normalised} hovered={hovered} found={found} /> : <Graph {...graph} />}
			{hovered >= 0 && hover.x >= 0 && !menu && <Tooltip tree={tree} node={hovered} x={hover.x} y={hover.y} />}
			{menu && (
				<Menu
					label={menu.frame.name}
					items={menu.items}
					x={menu.x}
					y={menu.y}
					onClose={() => setMenu(null)}
				/>
			)}
		</section>
	);
}
