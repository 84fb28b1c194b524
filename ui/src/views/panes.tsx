// panes.tsx - each view with what it asks for, and the table beside it.

import { useState } from "preact/hooks";
import { askJSON, useAnswer, type Answer, type Raw, type Source, type Status, type Timeline as TimelineData, type Top as TopData } from "../api";
import type { Tree } from "../flame/tree";
import { exactly } from "../parts/chips";
import { value } from "../format";
import { Menu } from "../parts/menu";
import { Nodata } from "../parts/notes";
import { Show } from "../parts/states";
import type { Feed } from "../live";
import { report } from "../report";
import { EVERYTHING, selectionParams, type Store } from "../state";
import { ChartPane, HeatPane } from "./along";
import { FlameView, frameMenu, type FrameActions, type FrameId } from "./flame";
import { RawView } from "./raw";
import { Sandwich } from "./sandwich";
import { Functions, SourceView } from "./source";
import { Top } from "./top";

export function TopPane(props: { store: Store; theme: "light" | "dark"; actions: FrameActions; answer: ReturnType<typeof useAnswer<TopData>>; sort: string; onSort(key: string): void; onSelect(frame: FrameId): void }) {
	const { store, actions } = props;
	const { state } = store;
	const [menu, setMenu] = useState<{ frame: FrameId; x: number; y: number } | null>(null);
	return (
		<div class="pane top-pane">
			<Show answer={props.answer}>
				{(data) => (
					<Top
						data={data}
						theme={props.theme}
						sort={props.sort}
						search={state.search}
						chosen={state.key}
						onSort={props.onSort}
						onChoose={(frame) => {
							const { name, key } = frame;
							if (state.view === "sandwich") store.set({ name, key, zoom: "" });
							else store.set({ name, key, search: state.search === exactly(name) ? "" : exactly(name) }, "replace");
						}}
						onMenu={(frame, x, y) => setMenu({ frame, x, y })}
						onCursor={props.onSelect}
					/>
				)}
			</Show>
			{menu && <Menu label={menu.frame.name} items={frameMenu(menu.frame, actions)} x={menu.x} y={menu.y} onClose={() => setMenu(null)} />}
		</div>
	);
}

export interface PaneProps {
	store: Store;
	status: Status;
	theme: "light" | "dark";
	actions: FrameActions;
	onSelect(frame: FrameId): void;
	follows: boolean;
	feed: Feed | null;
	lost: boolean;
	top: Answer<TopData>;
	/** Undefined: not known yet. */
	line: TimelineData | null | undefined;
	sort: string;
	onSort(key: string): void;
	tree: Answer<Tree>;
	answerKey: string;
	onTime(from: number, to: number): void;
	onOther(hash: string): void;
	opened: string;
}

/** What an `other` is a part of, from the root of everything. */
function rootOf(tree: Tree, node: number, opened: string): string {
	const above = opened === EVERYTHING ? "" : opened;
	return [above, tree.left, ...tree.path(tree.parent[node]).map((i) => tree.key(i))].filter(Boolean).join(".") || EVERYTHING;
}

/** How much of all a part is. */
function PartSaid(props: PaneProps) {
	const header = props.tree.value?.header;
	const all = props.top.value;
	if (!header || props.tree.loading) return <>One part, opened.</>;
	return (
		<>
			One part, opened: {value(header.total[0], header.unit)}
			{all ? ` of ${value(all.total, all.unit)}. The table is of all.` : "."}
		</>
	);
}

export function View(props: PaneProps) {
	const { store, theme, actions, tree } = props;
	const { state } = store;
	switch (state.view) {
		case "sandwich": {
			const header = tree.value?.header;
			return <Sandwich store={store} theme={theme} actions={actions} asof={props.follows ? "" : (header?.asof ?? "")} total={header?.total[0] ?? 0} tree={tree.value} local={report() !== null} follows={props.follows} feed={props.feed} />;
		}
		case "heat":
			return <HeatPane {...props} />;
		case "time":
			return <ChartPane {...props} />;
		case "raw":
			return <RawPane {...props} />;
		case "source":
			return <SourcePane {...props} />;
		default:
			return (
				<>
					{props.opened && (
						<p class="note">
							{props.opened === EVERYTHING ? "All that was too small to be drawn is in it." : <PartSaid {...props} />}{" "}
							<button type="button" class="quiet link" onClick={() => props.onOther("")}>
								back to all
							</button>
						</p>
					)}
					<Show answer={tree}>
						{(drawn) =>
							drawn.header.total.every((t) => t === 0) ? (
								<Nodata store={store} status={props.status} />
							) : (
								<FlameView
									tree={drawn}
									store={store}
									theme={theme}
									actions={actions}
									upwards={state.view === "flame"}
									dimmed={tree.loading || props.lost}
									label={state.view !== "diff" ? "Flame graph" : state.pair ? "Flame graphs of both sides" : "Differential flame graph"}
									onSelect={props.onSelect}
									onOther={(node) => !report() && props.onOther(rootOf(drawn, node, props.opened))}
								/>
							)
						}
					</Show>
				</>
			);
	}
}

function RawPane(props: PaneProps) {
	const { state, set } = props.store;
	const params = selectionParams(state);
	const oldest = state.oldest || report() !== null; // a report holds them so
	if (!oldest) params.set("order", "desc");
	const answer = useAnswer(`raw ${oldest} ${props.answerKey}`, (signal) => askJSON<Raw>("raw", params, signal));
	return (
		<Show answer={answer}>
			{(data) =>
				data.rows.length === 0 ? (
					<Nodata store={props.store} status={props.status} />
				) : (
					<RawView answer={data} params={params} oldest={oldest} onOrder={() => set({ oldest: !state.oldest }, "replace")} />
				)
			}
		</Show>
	);
}

function SourcePane(props: PaneProps) {
	const { name } = props.store.state;
	const params = selectionParams(props.store.state);
	params.set("name", name);
	const answer = useAnswer(name ? `source ${name} ${props.answerKey}` : null, (signal) => askJSON<Source>("source", params, signal));
	if (!name)
		return (
			<Show answer={props.top}>
				{(data) => <Functions data={data} sort={props.sort} onSort={props.onSort} onChoose={(chosen, key) => props.store.set({ name: chosen, key })} />}
			</Show>
		);
	return (
		<Show answer={answer}>
			{(data) => <SourceView data={data} name={name} onBack={() => props.store.set({ name: "", key: "" })} />}
		</Show>
	);
}
