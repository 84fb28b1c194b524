// flame.tsx - the graph with what belongs to it: breadcrumb, search with its share, legend, tooltip, menu.

import { useMemo, useState } from "preact/hooks";
import { css, diffScale, typeColour, type Theme } from "../flame/colour";
import { Graph, matchedShare, matching } from "../flame/graph";
import type { Tree } from "../flame/tree";
import { percent, shorten, value } from "../format";
import { Chips, escaped, exactly, namespaceOf } from "../parts/chips";
import { Menu, type MenuItem } from "../parts/menu";
import { copyText } from "../parts/states";
import { Tooltip } from "../parts/tooltip";
import { report } from "../report";
import type { State, Store } from "../state";

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
			{ label: "Copy name", action: () => void copyText(name) },
		];
		if (stack) items.push({ label: "Copy stack", action: () => void copyText(stack.join("\n")) });
		return items;
	}
	if (frame.group)
		return [
			{ label: "Only this value", action: () => actions.only(name, false) },
			{ label: "All but this value", action: () => actions.only(name, true) },
			{ label: "", separator: true },
			{ label: "Copy value", action: () => void copyText(name) },
			{ label: "Copy link", hint: "y", action: () => void copyText(location.href) },
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
	items.push({ label: "", separator: true }, { label: "Copy name", action: () => void copyText(name) });
	if (stack) items.push({ label: "Copy stack", action: () => void copyText(stack.join("\n")) });
	items.push({ label: "Copy link", hint: "y", action: () => void copyText(location.href) }, { label: "Find in the table", action: () => actions.findInTop(name) });
	if (type) items.push({ label: `Only ${type} frames`, action: () => actions.transform(`focus:type:${exactly(type)}`) });
	return items;
}

export function Legend(props: { tree: Tree; theme: Theme; onFilter(type: string): void }) {
	const { tree } = props;
	const present = useMemo(() => {
		const self = new Map<string, number>();
		for (let i = 1; i < tree.count; i++) {
			if (tree.isOther(i) || tree.isGroup(i)) continue;
			const type = tree.type(i) || "unknown";
			self.set(type, (self.get(type) ?? 0) + tree.self[i]);
		}
		return [...self].sort((a, b) => b[1] - a[1]).map(([name, v]) => ({ name, v }));
	}, [tree]);
	return (
		<ul class="legend" aria-label="Frame types">
			{present.map((t) => (
				<li key={t.name}>
					<button type="button" class="quiet" title={`self: ${percent(t.v, tree.header.total[0])}${report() ? "" : "; a click shows only stacks with such frames"}`} disabled={!!report()} onClick={() => props.onFilter(t.name)}>
						<i class="dot" style={{ background: typeColour(t.name, props.theme) }} />
						{t.name}
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

function Breadcrumb(props: { tree: Tree; zoom: string; label: string; onZoom(hash: string): void }) {
	const { tree } = props;
	const node = props.zoom ? tree.find(props.zoom) : 0;
	const path = node > 0 ? tree.path(node) : [];
	const shown = path.length > 6 ? [...path.slice(0, 2), -1, ...path.slice(-3)] : path;
	return (
		<nav class="crumbs" aria-label={`Zoom: ${props.label}`}>
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
		</nav>
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
	const [hover, setHover] = useState({ node: -1, x: 0, y: 0 });
	const [menu, setMenu] = useState<{ node: number; x: number; y: number } | null>(null);
	const found = useMemo(() => matching(tree, state.search), [tree, state.search]);
	const share = useMemo(() => (found ? matchedShare(tree, found) : 0), [tree, found]);
	const zoomTo = (hash: string) => store.set({ zoom: hash });
	const valid = hover.node >= 0 && hover.node < tree.count;
	return (
		<section class="flame" aria-label={props.label}>
			<div class="flame-head">
				<Breadcrumb tree={tree} zoom={state.zoom} label={props.label} onZoom={zoomTo} />
				<span class="grow" />
				{props.search !== false && (
					<label class="search">
						<span class="visually-hidden">Search frames</span>
						<input
							id="search"
							type="search"
							placeholder="search  /"
							spellcheck={false}
							value={state.search}
							onInput={(event) => store.set({ search: event.currentTarget.value }, "replace")}
							onKeyDown={(event) => {
								event.stopPropagation();
								if (event.key === "Escape") {
									store.set({ search: "" }, "replace");
									event.currentTarget.blur();
								} else if (event.key === "Enter") event.currentTarget.blur();
							}}
						/>
					</label>
				)}
				{found && (
					<output class="matched">
						{percent(share, tree.header.total[0])} <span class="dim">{value(share, tree.header.unit)}</span>
					</output>
				)}
				{state.view === "diff" && <DiffLegend theme={props.theme} />}
				{state.view !== "diff" && <Legend tree={tree} theme={props.theme} onFilter={(type) => props.actions.transform(`focus:type:${exactly(type)}`)} />}
			</div>
			<Chips transforms={state.transforms} onRemove={(i) => store.set({ transforms: state.transforms.filter((_, k) => k !== i) })} />
			<Graph
				tree={tree}
				upwards={props.upwards}
				colour={state.colour}
				theme={props.theme}
				search={state.search}
				zoom={state.zoom}
				dimmed={props.dimmed}
				label={props.label}
				onZoom={zoomTo}
				onHover={(node, x, y) => {
					if (node > 0 && !tree.isGroup(node)) props.onSelect(frameId(tree, node));
					setHover({ node: x < 0 ? -1 : node, x, y });
				}}
				onMenu={(node, x, y) => node > 0 && setMenu({ node, x, y })}
				onOther={props.onOther}
			/>
			{valid && !menu && <Tooltip tree={tree} node={hover.node} x={hover.x} y={hover.y} />}
			{menu && (
				<Menu
					label={tree.name(menu.node)}
					items={frameMenu(frameId(tree, menu.node), props.actions)}
					x={menu.x}
					y={menu.y}
					onClose={() => setMenu(null)}
				/>
			)}
		</section>
	);
}
