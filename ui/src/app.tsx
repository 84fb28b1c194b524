// app.tsx - the page: one selection above, its views below. All state lives in the URL (state.ts).

import { useEffect, useMemo, useState } from "preact/hooks";
import {
	askJSON, askTree, slowestAsk, useAnswer, type Answer, type ApiError, type Chart as ChartData, type Heatmap, type ProfileType, type Raw, type Source, type Status, type Timeline as TimelineData,
	type Top as TopData,
} from "./api";
import type { Tree } from "./flame/tree";
import { Bar, diffState } from "./bar";
import { clock, dateTime, duration } from "./format";
import { useKeys } from "./keys";
import { followTimeline, followTop, followTree, spanOf, useFeed, useFollowed } from "./follow";
import type { Feed } from "./live";
import { Foot } from "./parts/foot";
import { Help } from "./parts/help";
import { exactly } from "./parts/chips";
import { Menu } from "./parts/menu";
import { Command, Empty, ErrorBox, Show } from "./parts/states";
import { Timeline } from "./parts/timeline";
import { report } from "./report";
import { matcher, withMatcher } from "./selector";
import { UploadLayer, UploadNote, uploadOf, useUpload } from "./parts/upload";
import { afterNs, selectionParams, useStore, type State, type Store } from "./state";
import { useTheme } from "./theme";
import { Chart } from "./views/chart";
import { FlameView, frameMenu, type FrameActions, type FrameId } from "./views/flame";
import { Heat } from "./views/heat";
import { RawView } from "./views/raw";
import { Sandwich } from "./views/sandwich";
import { SourceView } from "./views/source";
import { Top } from "./views/top";

/** The state with what the URL left open filled from what the store holds. */
function resolve(state: State, status: Status): State {
	const type = state.type || status.types[0]?.id || "";
	/* A span is looked for at all times: its URL comes from elsewhere and says none. */
	const all = (state.trace || state.span) && status.types.find((t) => t.id === type);
	const from = state.from || (all ? all.first : status.from);
	const to = state.to || (all ? afterNs(all.last) : status.to);
	const right = state.right && { type: state.right.type || type, query: state.right.query, from: state.right.from || from, to: state.right.to || to };
	const filled = { ...state, type, from, to, right };
	const halves = right && right.from === from && right.to === to && right.query === state.query;
	return halves ? { ...filled, ...diffState({ ...filled, right: null }) } : filled;
}

export function typeLabel(type: ProfileType | undefined): string {
	if (!type) return "no profiles";
	if (type.name && type.name !== type.id.split(":")[1]) return type.name;
	const [, sample] = type.id.split(":");
	return sample || type.id;
}

/** What can't be followed by its changes is asked for again so often, or a hundred times as long as it took; what
 * there is at all, once a minute. */
const ASK_ALL_MS = 10_000;
const ASK_STATUS_MS = 60_000;
const ASKED_VIEWS = ["diff", "time", "heat", "raw", "source"];

const FLAMEGRAPH = followTree("flamegraph", false);
const INVERTED = followTree("flamegraph", true);
const GRAPHS = ["icicle", "flame", "inverted", "diff"];

export function App() {
	const [theme, switchTheme] = useTheme();
	const store = useStore();
	const [help, setHelp] = useState(false);
	const [selected, setSelected] = useState<FrameId | null>(null);
	const [tick, setTick] = useState(0);
	const uploading = useUpload(store);
	const upload = uploadOf(store.state.query);
	const statusParams = new URLSearchParams(upload ? { query: `{upload.id="${upload}"}` } : {});
	const status = useAnswer(`status ${statusParams} ${tick}`, async (signal) => ({ upload, is: await askJSON<Status>("status", statusParams, signal) }));
	/* What another source said is no answer. */
	const known = status.value?.upload === upload ? status.value.is : null;
	const state = known ? resolve(store.state, known) : store.state;
	const filled: Store = { ...store, state };

	const type = known?.types.find((t) => t.id === state.type);
	/* Averages do not add up. */
	const follows = !!type && !type.gauge && state.to === "now" && !state.asof && state.view !== "diff" && spanOf(state.from) !== null;
	const isLive = store.state.live && known !== null && !report();
	const feed = useFeed(isLive ? (follows ? selectionParams(state) : new URLSearchParams()) : null);
	const askAll = !follows || ASKED_VIEWS.includes(state.view);
	useEffect(() => {
		if (!feed) return;
		let asked = Date.now();
		return feed.on(() => {
			if (Date.now() - asked < (askAll ? Math.max(ASK_ALL_MS, 100 * slowestAsk()) : ASK_STATUS_MS)) return;
			asked = Date.now();
			setTick((n) => n + 1);
		});
	}, [feed, askAll]);

	const actions: FrameActions = {
		transform: (x) => store.set({ transforms: [...store.state.transforms, x], zoom: "" }),
		sandwich: (frame) => store.set({ view: "sandwich", name: frame.name, key: frame.key }),
		source: (name) => store.set({ view: "source", name }),
		raw: (name) => store.set({ view: "raw", transforms: [...store.state.transforms, `focus:${exactly(name)}`], zoom: "" }),
		only: (value, not) => {
			const one = matcher(state.group, not ? "!=" : "=", value === "(none)" ? "" : value);
			store.set({ query: withMatcher(state.query, one), zoom: "", group: not ? state.group : "" });
		},
		findInTop: (name) => store.set({ layout: state.layout === "graph" ? "both" : state.layout, search: exactly(name) }),
	};
	useKeys(filled, { help: () => setHelp(true), theme: switchTheme, selected });

	if (status.error && !known)
		return (
			<main class="alone">
				<ErrorBox error={status.error} />
				{upload && (
					<p class="state">
						<a href="/">Back to the store</a>
					</p>
				)}
				<UploadLayer uploading={uploading} />
			</main>
		);
	if (!known) return <main class="alone dim">Reading…</main>;
	return (
		<>
			<Bar store={filled} status={known} theme={theme} onTheme={switchTheme} onHelp={() => setHelp(true)} uploading={uploading} />
			<UploadLayer uploading={uploading} />
			<UploadNote store={store} />
			<SpanNote store={store} />
			<ReportNote />
			{known.types.length === 0 ? (
				<Nothing status={known} />
			) : (
				<Body store={filled} status={known} theme={theme} actions={actions} selected={selected} onSelect={setSelected} tick={tick} follows={isLive && follows} feed={isLive && follows ? feed : null} />
			)}
			{help && <Help onClose={() => setHelp(false)} />}
		</>
	);
}

/** Above a view of one span's samples: whose they are, and the way back. */
function SpanNote(props: { store: Store }) {
	const { trace, span } = props.store.state;
	if (!trace && !span) return null;
	return (
		<aside class="note" aria-label="One span is shown">
			Only samples of {span && <>span <b>{span}</b></>}
			{span && trace && " of "}
			{trace && <>trace <b>{trace}</b></>}.{" "}
			{!report() && (
				<button type="button" class="quiet link" onClick={() => props.store.set({ trace: "", span: "", from: "", to: "", zoom: "" })}>
					all samples
				</button>
			)}
		</aside>
	);
}

function Nothing(props: { status: Status }) {
	const agent = props.status.agent ?? { running: false, reason: "" };
	return (
		<main class="alone">
			<Empty what="No profile has come yet">
				{agent.running ? (
					<p>The agent is running: its first report comes within seconds.</p>
				) : (
					<>
						<p>{agent.reason ? `The agent does not run here: ${agent.reason}.` : "Send OTLP profiles to port 4317 (gRPC) or 4318 (HTTP), or profile this machine:"}</p>
						<Command text="sudo flametap up" />
						<p>Or look at recorded ones, or drop a file of profiles onto this page:</p>
						<Command text="flametap up --demo" />
					</>
				)}
			</Empty>
		</main>
	);
}

/** A report says what it is, of when, and what it can't do. */
function ReportNote() {
	const r = report();
	if (!r) return null;
	return (
		<aside class="note" aria-label="A report is shown">
			A report of flametap {r.version}, made {dateTime(Number(r.made))}: one selection, in this file alone.
		</aside>
	);
}

interface BodyProps {
	store: Store;
	status: Status;
	theme: "light" | "dark";
	actions: FrameActions;
	selected: FrameId | null;
	onSelect(frame: FrameId): void;
	tick: number;
	/** The window is followed by its changes; by what, once it is there. */
	follows: boolean;
	feed: Feed | null;
}

/** A table that was put together here is sorted here; the program sorts its own. */
function sortRows(top: TopData, by: string): TopData["rows"] {
	const share = (v: number, whole: number | undefined) => (whole ? v / whole : 0);
	const weigh = (r: TopData["rows"][number]) =>
		by === "total" ? r[6] : by === "total2" ? r[8] : by === "change" ? Math.abs(share(r[8], top.total2) - share(r[6], top.total)) : r[5];
	return [...top.rows].sort((a, b) => weigh(b) - weigh(a) || b[6] - a[6]);
}

/** What every question was answered alike: said once, with a way back. */
function Refused(props: { store: Store; error: ApiError }) {
	const { state, set } = props.store;
	return (
		<main class="alone">
			<ErrorBox error={props.error} />
			<div class="row state">
				{state.query && (
					<button type="button" onClick={() => set({ query: "" })}>
						Without the filter
					</button>
				)}
				{state.transforms.length > 0 && (
					<button type="button" onClick={() => set({ transforms: [] })}>
						Without the transforms
					</button>
				)}
			</div>
		</main>
	);
}

function treePath(state: State): string {
	return state.view === "diff" ? "diff" : "flamegraph";
}

function Body(props: BodyProps) {
	const { store, status, theme, actions, tick } = props;
	const { state } = store;
	const [sort, setSort] = useState(state.view === "diff" ? "change" : "self");
	const [opened, setOpened] = useState("");
	const params = selectionParams(state, state.view === "diff" ? "both" : "left");
	const key = `${params} ${tick}`;
	const type = status.types.find((t) => t.id === state.type);
	/* A part that was opened is not followed. */
	const followed = props.follows && !opened;
	const feed = followed ? props.feed : null;

	const treeParams = new URLSearchParams(params);
	if (state.view === "inverted") treeParams.set("inverted", "1");
	if (opened) treeParams.set("root", opened);
	const askedTree = useAnswer(!followed ? `${treePath(state)} ${treeParams} ${tick}` : null, (signal) => askTree(treePath(state), treeParams, signal));
	const followedTree = useFollowed(feed, treeParams, state.view === "inverted" ? INVERTED : FLAMEGRAPH);
	const tree = !followed ? askedTree : followedTree;

	const topParams = new URLSearchParams(params);
	topParams.set("sort", sort);
	const tabled = state.layout !== "graph";
	const followedTop = useFollowed(tabled ? feed : null, params, followTop);
	const askedTop = useAnswer(tabled && !followed ? `${topParams} ${state.view === "diff"} ${tick}` : null, (signal) => askJSON<TopData>("top", topParams, signal));

	const lineParams = new URLSearchParams(selectionParams(state));
	lineParams.set("width", String(Math.min(1000, Math.max(60, Math.floor(innerWidth / 3)))));
	const top = !followed ? askedTop : followedTop;
	const askedLine = useAnswer(!followed ? `${lineParams} ${tick}` : null, (signal) => askJSON<TimelineData>("timeline", lineParams, signal));
	const followedLine = useFollowed(feed, params, followTimeline);
	const timeline = !followed ? askedLine : followedLine;

	const selectTime = (from: number, to: number) => !report() && store.set({ from: String(Math.round(from)), to: String(Math.round(to)), zoom: "", live: false });
	const sorted = useMemo(() => (top.value && (report() || followed) ? { ...top.value, rows: sortRows(top.value, sort) } : top.value), [top.value, sort, followed]);
	usePublishedState(state, tree.value, top.value, status, tree.loading || top.loading || timeline.loading);

	const error = tree.error && top.error && tree.error.message === top.error.message ? tree.error : null;
	if (error && !tree.value && !top.value) return <Refused store={store} error={error} />;
	const once = <T,>(answer: Answer<T>): Answer<T> => (error ? { ...answer, error: null } : answer);

	const withTable = state.layout !== "graph" && !["raw", "heat", "time", "source"].includes(state.view);
	const withGraph = state.layout !== "table" || !GRAPHS.includes(state.view);
	return (
		<>
			<section class="timeline-row" aria-label="Timeline" hidden={Number(state.to) < 1e12}>
				{error && <ErrorBox error={error} />}
				<Show answer={once(timeline)}>
					{(data) => <Timeline data={data} theme={theme} selected={null} onSelect={selectTime} label={typeLabel(type)} />}
				</Show>
			</section>
			<main class={`panes${withTable && withGraph ? " two" : ""}`} aria-label="Views" key={state.view === "diff" ? "diff" : "one"}>
				{withTable && (
					<TopPane store={store} theme={theme} actions={actions} answer={{ ...once(top), value: sorted }} sort={sort} onSort={setSort} />
				)}
				{withGraph && (
					<div class="pane">
						<View {...props} tree={once(tree)} answerKey={key} onTime={selectTime} onOther={(hash) => setOpened(hash)} opened={opened} />
					</div>
				)}
			</main>
			{tree.value && <Foot header={tree.value.header} source={uploadOf(state.query) ? "a file that was dropped here" : `${status.store.kind} ${status.store.path}`} />}
		</>
	);
}

function TopPane(props: { store: Store; theme: "light" | "dark"; actions: FrameActions; answer: ReturnType<typeof useAnswer<TopData>>; sort: string; onSort(key: string): void }) {
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
							if (state.view === "sandwich") store.set({ name, key });
							else store.set({ name, key, search: state.search === exactly(name) ? "" : exactly(name) }, "replace");
						}}
						onMenu={(frame, x, y) => setMenu({ frame, x, y })}
					/>
				)}
			</Show>
			{menu && <Menu label={menu.frame.name} items={frameMenu(menu.frame, actions)} x={menu.x} y={menu.y} onClose={() => setMenu(null)} />}
		</div>
	);
}

function View(
	props: BodyProps & { tree: ReturnType<typeof useAnswer<Tree>>; answerKey: string; onTime(from: number, to: number): void; onOther(hash: string): void; opened: string },
) {
	const { store, theme, actions, tree } = props;
	const { state } = store;
	switch (state.view) {
		case "sandwich": {
			const header = tree.value?.header;
			return <Sandwich store={store} theme={theme} actions={actions} asof={header?.asof ?? ""} total={header?.total[0] ?? 0} unit={header?.unit ?? ""} own={null} tree={tree.value} local={report() !== null || props.follows} />;
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
				<Show answer={tree}>
					{(value) =>
						value.header.total.every((t) => t === 0) ? (
							<Nodata store={store} status={props.status} />
						) : (
							<>
								{props.opened && (
									<p class="note">
										One part, opened.{" "}
										<button type="button" class="quiet link" onClick={() => props.onOther("")}>
											back to all
										</button>
									</p>
								)}
								<FlameView
									tree={value}
									store={store}
									theme={theme}
									actions={actions}
									upwards={state.view === "flame"}
									dimmed={tree.loading}
									label={state.view === "diff" ? "Differential flame graph" : "Flame graph"}
									onSelect={props.onSelect}
									onOther={(node) => !report() && props.onOther(value.path(value.parent[node]).map((i) => value.key(i)).join("."))}
								/>
							</>
						)
					}
				</Show>
			);
	}
}

function Nodata(props: { store: Store; status: Status }) {
	const { store, status } = props;
	const { state } = store;
	const type = status.types.find((t) => t.id === state.type);
	return (
		<Empty what="Nothing in this selection">
			<div class="row">
				{state.query && (
					<button type="button" onClick={() => store.set({ query: "" })}>
						Without the filter
					</button>
				)}
				{state.transforms.length > 0 && (
					<button type="button" onClick={() => store.set({ transforms: [] })}>
						Without the transforms
					</button>
				)}
				{type && (
					<button type="button" onClick={() => store.set({ from: type.first, to: afterNs(type.last) })}>
						All time that has data
					</button>
				)}
			</div>
		</Empty>
	);
}

type PaneProps = Parameters<typeof View>[0];

/** A burst that was chosen: its flame graph, or a closer look at it. */
function Picked(props: { store: Store; range: [number, number]; onDrop(): void }) {
	const [from, to] = props.range;
	const change = { from: String(from), to: String(to), zoom: "", live: false };
	if (report()) return null;
	return (
		<div class="picked row" role="status">
			<span>
				{duration(to - from)} from {clock(from)}
			</span>
			<button type="button" onClick={() => props.store.set({ ...change, view: "icicle" })}>
				Flame graph of it
			</button>
			<button type="button" onClick={() => props.store.set(change)}>
				Zoom in
			</button>
			<button type="button" class="quiet" aria-label="Drop the selection" onClick={props.onDrop}>
				✕
			</button>
		</div>
	);
}

function usePicked(props: PaneProps): [[number, number] | null, (range: [number, number] | null) => void] {
	const [picked, setPicked] = useState<[number, number] | null>(null);
	const { from, to } = props.store.state;
	useEffect(() => setPicked(null), [from, to]);
	return [picked, setPicked];
}

function HeatPane(props: PaneProps) {
	const [picked, setPicked] = usePicked(props);
	const params = selectionParams(props.store.state);
	params.set("width", "600");
	const answer = useAnswer(`heat ${props.answerKey}`, (signal) => askJSON<Heatmap>("heatmap", params, signal));
	return (
		<Show answer={answer}>
			{(data) =>
				data.columns === 0 ? (
					<Nodata store={props.store} status={props.status} />
				) : (
					<>
						<Heat data={data} theme={props.theme} onSelect={(from, to) => setPicked([from, to])} />
						{picked && <Picked store={props.store} range={picked} onDrop={() => setPicked(null)} />}
					</>
				)
			}
		</Show>
	);
}

function ChartPane(props: PaneProps) {
	const [picked, setPicked] = usePicked(props);
	const [lanes, setLanes] = useState(50);
	const params = selectionParams(props.store.state);
	params.set("width", String(Math.min(2000, Math.max(300, innerWidth))));
	params.set("lanes", String(lanes));
	const answer = useAnswer(`chart ${lanes} ${props.answerKey}`, (signal) => askJSON<ChartData>("chart", params, signal));
	return (
		<Show answer={answer}>
			{(data) =>
				data.lanes.length === 0 ? (
					<Nodata store={props.store} status={props.status} />
				) : (
					<>
						<Chart data={data} theme={props.theme} picked={picked} onPick={(from, to) => setPicked([from, to])} onMore={() => setLanes(Math.min(200, lanes + 50))} />
						{picked && <Picked store={props.store} range={picked} onDrop={() => setPicked(null)} />}
					</>
				)
			}
		</Show>
	);
}

function RawPane(props: PaneProps) {
	const params = selectionParams(props.store.state);
	const answer = useAnswer(`raw ${props.answerKey}`, (signal) => askJSON<Raw>("raw", params, signal));
	return <Show answer={answer}>{(data) => (data.rows.length === 0 ? <Nodata store={props.store} status={props.status} /> : <RawView first={data} params={params} />)}</Show>;
}

function SourcePane(props: PaneProps) {
	const { name } = props.store.state;
	const params = selectionParams(props.store.state);
	params.set("name", name);
	const answer = useAnswer(name ? `source ${name} ${props.answerKey}` : null, (signal) => askJSON<Source>("source", params, signal));
	if (!name) return <Empty what="Choose a function: its menu has “Lines of its source”." />;
	return <Show answer={answer}>{(data) => <SourceView data={data} name={name} />}</Show>;
}

function groupsOf(tree: Tree): number {
	let n = 0;
	for (let i = tree.levels[1]; i < tree.levels[2]; i++) n += tree.isGroup(i) ? 1 : 0;
	return n;
}

/** What tests read: numbers and states, no pixels. */
function usePublishedState(state: State, tree: Tree | null, top: TopData | null, status: Status, loading: boolean): void {
	useMemo(() => {
		window.__state = {
			view: state.view, type: state.type, query: state.query, from: state.from, to: state.to, zoom: state.zoom, transforms: state.transforms,
			search: state.search, live: state.live, theme: document.documentElement.dataset.theme, loading,
			total: tree?.header.total[0] ?? null, total2: tree?.header.total[1] ?? null, unit: tree?.header.unit ?? null,
			nodes: tree?.count ?? 0, groups: tree ? groupsOf(tree) : 0, depth: tree?.depth ?? 0, samples: tree?.header.samples ?? null, rows: top?.rows.length ?? 0, types: status.types.length,
		};
	}, [state, tree, top, status, loading]);
}

