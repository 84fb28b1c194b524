// sandwich.tsx - one function in the middle: who calls it above, whom it calls below; both halves have the same total.

import { useMemo } from "preact/hooks";
import { useAnswer, askTree } from "../api";
import type { Theme } from "../flame/colour";
import { percent, value } from "../format";
import { Empty, Show } from "../parts/states";
import { sandwichOf } from "../flame/sandwich";
import type { Tree } from "../flame/tree";
import { selectionParams, type Store } from "../state";
import { FlameView, type FrameActions } from "./flame";

function Half(props: { side: "callers" | "callees"; store: Store; theme: Theme; actions: FrameActions; asof: string; tree: Tree | null; local: boolean }) {
	const { state } = props.store;
	const params = selectionParams(state);
	params.set("key", state.key);
	params.set("side", props.side);
	if (props.asof) params.set("asof", props.asof);
	const asked = useAnswer(props.local ? null : params.toString(), (signal) => askTree("sandwich", params, signal));
	const made = useMemo(() => (props.local && props.tree ? sandwichOf(props.tree, state.key, props.side) : null), [props.local, props.tree, state.key, props.side]);
	const answer = props.local ? { value: made, error: null, loading: false } : asked;
	return (
		<Show answer={answer}>
			{(tree) => (
				<FlameView
					tree={tree}
					store={{ ...props.store, state: { ...state, zoom: "", transforms: [] } }}
					theme={props.theme}
					actions={props.actions}
					upwards={props.side === "callers"}
					dimmed={answer.loading}
					label={`${props.side === "callers" ? "Callers" : "Callees"} of ${state.name}: ${value(tree.header.total[0], tree.header.unit)}`}
					onSelect={() => {}}
					onOther={() => {}}
					search={props.side === "callers"}
				/>
			)}
		</Show>
	);
}

export function Sandwich(props: { store: Store; theme: Theme; actions: FrameActions; asof: string; total: number; unit: string; own: number | null; tree: Tree | null; local: boolean }) {
	const { state } = props.store;
	if (!state.key || (props.local && !props.tree))
		return (
			<Empty what="Choose a function">
				<p>A click on a row of the table, or S over a frame of the graph, shows its callers and callees here.</p>
			</Empty>
		);
	return (
		<div class="sandwich">
			<Half {...props} side="callers" />
			<h2 class="middle">
				{state.name}
				{props.own !== null && (
					<span class="dim">
						{" "}
						{value(props.own, props.unit)} · {percent(props.own, props.total)}
					</span>
				)}
			</h2>
			<Half {...props} side="callees" />
		</div>
	);
}
