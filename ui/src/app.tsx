// app.tsx - the page: one selection above, its views below. All state lives in the URL (state.ts).

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import {
	askJSON, askTree, earlyTree, slowestAsk, useAnswer, type Answer, type ApiError, type Chart as ChartData, type Heatmap, type ProfileType, type Raw, type Source, type Status, type Timeline as TimelineData,
	type Top as TopData,
} from "./api";
import type { Tree } from "./flame/tree";
import { Bar } from "./bar";
import { diffState, noteTimeline } from "./halves";
import { clock, dateTime, duration } from "./format";
import { useKeys } from "./keys";
import { followTimeline, followTop, followTree, spanOf, useFeed, useFollowed } from "./follow";
import type { Feed } from "./live";
import { Foot } from "./parts/foot";
import { Help } from "./parts/help";
import { exactly } from "./parts/chips";
import { Menu } from "./parts/menu";
import { Command, Empty, ErrorBox, Show } from "./parts/states";
import { Timeline, type Band } from "./parts/timeline";
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
	return halves ? { ...filled, ...diffState({ ...filled, right: null }, status, false) } : filled;
}

/** A store that grows is followed from the start, where the URL says no time. */
const FRESH_NS = 60e9;

function opensLive(state: State, status: Status): boolean {
	const { from, to, asof, trace, span, live, view } = state;
	return !(from || to || asof || trace || span || live || report()) && view !== "diff" && status.store.kind === "sqlite" && !uploadOf(state.query) && Number(status.now_ns) - Number(status.to) < FRESH_NS;
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
/** As long as there is nothing. */
const ASK_EMPTY_MS = 1000;
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
	const first = known !== null && opensLive(store.state, known);
	const said: State = first ? { ...store.state, from: "now-15m", to: "now", live: true } : store.state;
	useEffect(() => {
		if (first) store.set({ from: "now-15m", to: "now", live: true }, "replace");
	}, [first]);
	const state = known ? resolve(said, known) : said;
	const filled: Store = { ...store, state };
	const empty = known?.types.length === 0;
	useEffect(() => {
		if (!empty || report()) return;
		const timer = setTimeout(() => setTick((n) => n + 1), ASK_EMPTY_MS);
		return () => clearTimeout(timer);
	}, [empty, tick]);

	const type = known?.types.find((t) => t.id === state.type);
	/* Averages do not add up. */
	const follows = !!type && !type.gauge && state.to === "now" && !state.asof && state.view !== "diff" && spanOf(state.from) !== null;
	const isLive = state.live && known !== null && !report();
	const feed = useFeed(isLive ? (follows ? timelineParams(state) : new URLSearchParams()) : null);
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
	useKeys(filled, { help: () => setHelp(true), theme: switchTheme, selected, status: known });

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

/** Without a label to group by, the timeline tells processes apart. */
const LINE_GROUP = "process.executable.name";

function timelineParams(state: State): URLSearchParams {
	const params = selectionParams(state);
	params.set("timeline_group", state.group || LINE_GROUP);
	return params;
}

/** Nanoseconds since 1970; NaN: neither a time nor one before now. */
function instant(text: string): number {
	const before = spanOf(text);
	if (before !== null) return Date.now() * 1e6 - Number(before);
	return text === "now" ? Date.now() * 1e6 : Number(text);
}

/** A step of a second says what the machine did; much below, it would say when it was sampled. */
function stepsOf(from: number, to: number): number {
	const most = Math.min(1000, Math.max(60, Math.floor(innerWidth / 3)));
	const seconds = (to - from) / 1e9;
	return seconds >= 10 ? Math.min(most, Math.ceil(seconds < 60 ? 2 * seconds : seconds)) : most;
}

/** Of a diff: both sides' time, that each can be seen in its place. */
function lineQuestion(state: State, side: "left" | "right"): URLSearchParams {
	const { right } = state;
	const params = selectionParams(side === "right" && right ? { ...state, query: right.query } : state);
	let [from, to] = [instant(state.from), instant(state.to)];
	if (state.view === "diff" && right) {
		const [from2, to2] = [instant(right.from), instant(right.to)];
		if (Number.isFinite(from2 - to2 + from - to)) {
			params.set("from", from <= from2 ? state.from : right.from);
			params.set("to", to >= to2 ? state.to : right.to);
			[from, to] = [Math.min(from, from2), Math.max(to, to2)];
		}
	}
	if (!report()) params.set("group", state.group || LINE_GROUP);
	params.set("width", String(stepsOf(from, to)));
	return params;
}

function bandsOf(state: State, side?: "left" | "right"): Band[] {
	if (state.view !== "diff" || !state.right) return [];
	const bands: Band[] = [
		{ name: "before", from: instant(state.from), to: instant(state.to) },
		{ name: "after", from: instant(state.right.from), to: instant(state.right.to) },
	];
	return bands.filter((b) => Number.isFinite(b.from + b.to) && (!side || (side === "left") === (b.name === "before")));
}

function treePath(state: State): string {
	return state.view === "diff" ? "diff" : "flamegraph";
}

function Body(props: BodyProps) {
	const { store, status, theme, actions, tick } = props;
	const { state } = store;
	const of = state.view === "diff" ? "diff" : "one"; // what it makes sense to sort by
	const [sorts, setSorts] = useState({ diff: "change", one: "self" });
	const sort = sorts[of];
	const setSort = (by: string) => setSorts((old) => ({ ...old, [of]: by }));
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
	const firstTree = useAnswer(followed ? "first" : null, () => earlyTree(treePath(state), treeParams, false));
	const tree = !followed ? askedTree : followedTree.value || followedTree.error ? followedTree : { value: firstTree.value, error: null, loading: true };

	/* The graph is what is looked at first: it is not made to wait for what stands around it. */
	const graphFirst = !followed && askedTree.loading && !["time", "heat", "raw", "source"].includes(state.view);
	const asked = useRef(new Map<string, string | null>());
	const behind = (name: string, question: string | null): string | null => {
		if (!graphFirst) asked.current.set(name, question);
		return asked.current.get(name) ?? null;
	};
	const dim = <T,>(answer: Answer<T>): Answer<T> => (graphFirst ? { ...answer, loading: true } : answer);

	const topParams = new URLSearchParams(params);
	topParams.set("sort", sort);
	const tabled = state.layout !== "graph";
	const followedTop = useFollowed(tabled ? feed : null, params, followTop);
	const askedTop = useAnswer(behind("top", tabled && !followed ? `${topParams} ${state.view === "diff"} ${tick}` : null), (signal) => askJSON<TopData>("top", topParams, signal));

	const lineParams = lineQuestion(state, "left");
	const secondParams = state.view === "diff" && state.right && state.right.query !== state.query && !report() ? lineQuestion(state, "right") : null;
	const top = !followed ? dim(askedTop) : followedTop;
	const askedLine = useAnswer(behind("line", !followed ? `${lineParams} ${tick}` : null), (signal) => askJSON<TimelineData>("timeline", lineParams, signal));
	const second = useAnswer(behind("second", secondParams && `${secondParams} ${tick}`), (signal) => askJSON<TimelineData>("timeline", secondParams!, signal));
	const followedLine = useFollowed(feed, timelineParams(state), followTimeline);
	const timeline = !followed ? dim(askedLine) : followedLine;

	const selectTime = (from: number, to: number, after = false) => {
		const time = { from: String(Math.round(from)), to: String(Math.round(to)) };
		if (report()) return;
		if (state.view === "diff" && state.right && after) store.set({ right: { ...state.right, ...time }, zoom: "" });
		else store.set({ ...time, ...(state.view === "diff" ? { right: state.right } : {}), zoom: "", live: false });
	};
	const lineFilter = report() ? undefined : (label: string, value: string) => store.set({ query: withMatcher(state.query, matcher(label, "=", value)), zoom: "" });
	noteTimeline(timeline.value);
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
					{(data) => (
						<Timeline data={data} theme={theme} bands={bandsOf(state, secondParams ? "left" : undefined)} onSelect={selectTime} onFilter={state.view === "diff" ? undefined : lineFilter} label={typeLabel(type)} />
					)}
				</Show>
				{secondParams && (
					<Show answer={once(dim(second))}>
						{(data) => <Timeline data={data} theme={theme} bands={bandsOf(state, "right")} onSelect={(from, to) => selectTime(from, to, true)} label={`${typeLabel(type)} after`} />}
					</Show>
				)}
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

/** What is drawn along time begins with the first sample there is, not with hours of nothing. */
function fromFirst(props: PaneProps): URLSearchParams {
	const { state } = props.store;
	const params = selectionParams(state);
	const first = props.status.types.find((t) => t.id === state.type)?.first;
	const [from, to] = [instant(state.from), instant(state.to)];
	if (first && !report() && from < Number(first) && Number(first) < to) params.set("from", first);
	return params;
}

function HeatPane(props: PaneProps) {
	const [picked, setPicked] = usePicked(props);
	const params = fromFirst(props);
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
	const params = fromFirst(props);
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

