// sandwich.tsx - one function in the middle: who calls it above, whom it calls below; both halves have the same total.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { againMs, askJSON, askTree, INSENSITIVE, NODES_MOST, useAnswer, type ApiError, type Top } from "../api";
import type { Theme } from "../flame/colour";
import { percent, straight, value } from "../format";
import { exactly } from "../parts/chips";
import { Empty, ErrorBox, Show } from "../parts/states";
import { sandwichOf } from "../flame/sandwich";
import type { Tree } from "../flame/tree";
import { windowOf } from "../follow";
import type { Feed, LiveState } from "../live";
import { useSearched } from "../searched";
import { selectionParams, type Store } from "../state";
import { FlameView, type FrameActions } from "./flame";

type Side = "callers" | "callees";

/** Of a window that moves, a moment that is asked about: the next one after a while, the longer the longer answers take. */
function useMoment(feed: Feed | null, took: { current: number }): LiveState | null {
	const [at, setAt] = useState<LiveState | null>(feed?.state ?? null);
	useEffect(() => {
		let asked = Date.now();
		setAt(feed?.state ?? null);
		return feed?.on(({ kind }) => {
			if (kind !== "state" && (kind !== "show" || Date.now() - asked < againMs(took.current))) return;
			asked = Date.now();
			setAt(feed.state);
		});
	}, [feed]);
	return feed && at;
}

/** What each half is zoomed to: both in one, as "callers.callees". */
function zooms(zoom: string): Record<Side, string> {
	const [callers, callees] = zoom.includes(".") ? zoom.split(".") : ["", ""];
	return { callers, callees };
}

/** What the function costs itself, as its callees' half has it: a recursion's too. */
function ownCost(callees: Tree, key: string): number {
	let sum = 0;
	for (let i = 1; i < callees.count; i++) if (callees.key(i) === key) sum += callees.self[i];
	return sum;
}

/** The function's numbers, of a half that is of it. */
function Numbers(props: { callees: Tree | null; of: string; total: number }) {
	const { callees, of } = props;
	const self = useMemo(() => (callees ? ownCost(callees, of) : 0), [callees, of]);
	if (!callees || callees.count < 2 || callees.key(1) !== of) return null; // of the function before
	const { unit, total } = callees.header;
	const part = (v: number) => `${value(v, unit)}${props.total > 0 ? ` · ${percent(v, props.total)}` : ""}`;
	return (
		<span class="dim">
			total {part(total[0])}, self {part(self)}
		</span>
	);
}

function Half(props: SandwichProps & { side: Side; at: LiveState | null; took: { current: number }; onTree?(tree: Tree | null): void }) {
	const { side, at, took } = props;
	const { state } = props.store;
	const [all, setAll] = useState(""); // the question of which nothing is merged into `other`
	const zoom = zooms(state.zoom);
	const own = selectionParams(state);
	own.set("key", state.key);
	own.set("side", side);
	const question = own.toString();
	if (props.asof) own.set("asof", props.asof);
	if (all === question) own.set("max_nodes", String(NODES_MOST));
	const params = at ? windowOf(own, at) : own;
	const asked = useAnswer(props.local || (props.follows && !at) ? null : params.toString(), async (signal) => {
		const began = performance.now();
		const tree = await askTree("sandwich", params, signal);
		took.current = performance.now() - began;
		return tree;
	});
	/* With a search: what it finds is in the half however little it is, and its share is of all stacks of the half. */
	const search = useSearched(state.search);
	const searching = new URLSearchParams(params);
	searching.set("search", INSENSITIVE + search);
	const searched = useAnswer(search && !props.local && asked.value && !asked.loading ? searching.toString() : null, (signal) => askTree("sandwich", searching, signal));
	const found = search && !searched.loading && !searched.error && searched.value?.header.searched === state.search ? searched.value : null;
	const made = useMemo(() => (props.local && props.tree ? sandwichOf(props.tree, state.key, side) : null), [props.local, props.tree, state.key, side]);
	const answer = props.local ? { value: made, error: null, loading: false } : found ? { ...asked, value: found } : asked;
	useEffect(() => props.onTree?.(answer.value), [answer.value]);
	const set: Store["set"] = (change, how) => {
		const both = change.zoom === undefined ? null : { ...zoom, [side]: change.zoom };
		props.store.set(both ? { ...change, zoom: both.callers || both.callees ? `${both.callers}.${both.callees}` : "" } : change, how);
	};
	return (
		<Show answer={answer}>
			{(tree) => (
				<FlameView
					tree={tree}
					store={{ state: { ...state, zoom: zoom[side] }, set }}
					theme={props.theme}
					actions={props.actions}
					upwards={side === "callers"}
					dimmed={answer.loading}
					label={`${side === "callers" ? "Callers" : "Callees"} of ${state.name}: ${value(tree.header.total[0], tree.header.unit)}`}
					onSelect={() => {}}
					onOther={() => !props.local && setAll(question)}
					search={side === "callers"}
				/>
			)}
		</Show>
	);
}

interface SandwichProps {
	store: Store;
	theme: Theme;
	actions: FrameActions;
	asof: string;
	/** Of all functions. */
	total: number;
	tree: Tree | null;
	/** Made from the tree that is here: a report asks nobody. */
	local: boolean;
	/** Of a window that moves: the program is asked now and then, what is drawn live lacks what was too small. */
	follows: boolean;
	feed: Feed | null;
}

/** The heaviest function of a name, as a tree has it: its key; "": there is none. */
function keyIn(tree: Tree, name: string): string {
	const totals = new Map<string, number>();
	for (let i = 1; i < tree.count; i++) if (tree.name(i) === name && !tree.isOther(i) && !tree.isGroup(i)) totals.set(tree.key(i), (totals.get(tree.key(i)) ?? 0) + tree.total[i]);
	return [...totals].sort((a, b) => b[1] - a[1])[0]?.[0] ?? "";
}

/** A URL written by hand says the function's name alone: its key is looked for, and put into the URL. Null: not known yet; "": there is none. */
function useKey(props: SandwichProps): { key: string | null; error: ApiError | null } {
	const { store, local, tree } = props;
	const { state } = store;
	const name = straight(state.name);
	const open = !state.key && name !== "";
	const params = selectionParams(state);
	params.append("x", `focus:${exactly(state.name)}`);
	params.set("sort", "total");
	const asked = useAnswer(open && !local ? `key ${params}` : null, async (signal) => {
		const { rows } = await askJSON<Top>("top", params, signal);
		return rows.find((row) => row[0] === name)?.[9] ?? "";
	});
	const found = !open ? null : local ? tree && keyIn(tree, name) : asked.loading || asked.error ? null : asked.value;
	useEffect(() => {
		if (found) store.set({ key: found }, "replace");
	}, [found]);
	return { key: open ? found : state.key, error: open ? asked.error : null };
}

export function Sandwich(props: SandwichProps) {
	const { state } = props.store;
	const took = useRef(0);
	const at = useMoment(props.feed, took);
	const { key, error } = useKey(props);
	const [callees, setCallees] = useState<Tree | null>(null);
	if (error) return <ErrorBox error={error} />;
	if (state.name && key === "")
		return (
			<Empty what={`No function is called ${state.name} here`}>
				<p>It may be at another time, or under another filter; or it is in the table under another name: a click on a row shows its callers and callees.</p>
			</Empty>
		);
	if (key !== state.key) return <div class="state quiet-state">Reading…</div>;
	if (!state.key || (props.local && !props.tree))
		return (
			<Empty what="Choose a function">
				<p>A click on a row of the table, or S over a frame of the graph, shows its callers and callees here.</p>
			</Empty>
		);
	return (
		<div class="sandwich">
			<Half {...props} side="callers" at={at} took={took} />
			<h2 class="middle">
				{state.name} <Numbers callees={callees} of={state.key} total={props.total} />
			</h2>
			<Half {...props} side="callees" at={at} took={took} onTree={setCallees} />
		</div>
	);
}
