// body.tsx - one selection's timeline, table, view and foot: what is asked for them, and in which order.

import { useMemo, useRef } from "preact/hooks";
import { askJSON, askTree, earlyTree, INSENSITIVE, nodesFor, NODES_MOST, useAnswer, type Answer, type Status, type Timeline as TimelineData, type Top as TopData } from "./api";
import { noteShown } from "./bar";
import type { Tree } from "./flame/tree";
import { timeless } from "./format";
import { followTimeline, followTop, followTree, useFollowed } from "./follow";
import { noteTimeline, splitAt } from "./halves";
import type { Feed } from "./live";
import { Chips } from "./parts/chips";
import { Foot } from "./parts/foot";
import { Refused } from "./parts/notes";
import { ErrorBox, Show } from "./parts/states";
import { Timeline } from "./parts/timeline";
import { uploadOf } from "./parts/upload";
import { bandsOf, lineQuestion, timelineParams, treePath, typeLabel } from "./questions";
import { report } from "./report";
import { useSearched } from "./searched";
import { matcher, withMatcher } from "./selector";
import { EVERYTHING, GRAPHS, selectionParams, type State, type Store } from "./state";
import type { FrameActions, FrameId } from "./views/flame";
import { TopPane, View } from "./views/panes";

const FLAMEGRAPH = followTree("flamegraph", false);
const INVERTED = followTree("flamegraph", true);
/** What it makes sense to sort by; the first is the usual. */
const SORTS = { diff: ["change", "total", "total2"], one: ["self", "total"] };

export interface BodyProps {
	store: Store;
	status: Status;
	theme: "light" | "dark";
	actions: FrameActions;
	selected: FrameId | null;
	onSelect(frame: FrameId): void;
	tick: number;
	/** What there is is not known yet: the graph alone is shown. */
	guessed: boolean;
	/** The window is followed by its changes; by what, once it is there. */
	follows: boolean;
	feed: Feed | null;
	/** Nothing comes any more: what is shown is old. */
	lost: boolean;
}

/** A table that was put together here is sorted here; the program sorts its own. */
function sortRows(top: TopData, by: string): TopData["rows"] {
	const share = (v: number, whole: number | undefined) => (whole ? v / whole : 0);
	const weigh = (r: TopData["rows"][number]) =>
		by === "total" ? r[6] : by === "total2" ? r[8] : by === "change" ? Math.abs(share(r[8], top.total2) - share(r[6], top.total)) : r[5];
	return [...top.rows].sort((a, b) => weigh(b) - weigh(a) || b[6] - a[6]);
}

export function Body(props: BodyProps) {
	const { store, status, theme, actions, tick } = props;
	const { state } = store;
	const sorts = SORTS[state.view === "diff" ? "diff" : "one"];
	const sort = sorts.includes(state.sort) ? state.sort : sorts[0];
	const setSort = (by: string) => store.set({ sort: by === sorts[0] ? "" : by }, "replace");
	const opened = GRAPHS.includes(state.view) && !report() ? state.root : "";
	const params = selectionParams(state, state.view === "diff" ? "both" : "left");
	const key = `${params} ${tick}`;
	const type = status.types.find((t) => t.id === state.type);
	/* A part that was opened is not followed. */
	const followed = props.follows && !opened;
	const feed = followed ? props.feed : null;

	const treeParams = new URLSearchParams(params);
	if (state.view === "inverted") treeParams.set("inverted", "1");
	/* As much as there is: the heaviest alone are what was there before. */
	if (opened) treeParams.set("max_nodes", String(NODES_MOST));
	if (opened && opened !== EVERYTHING) treeParams.set("root", opened);
	const fineParams = new URLSearchParams(treeParams);
	if (!opened) fineParams.set("max_nodes", String(nodesFor(innerWidth)));
	const askedTree = useAnswer(!followed ? `${treePath(state)} ${treeParams} ${tick}` : null, (signal) => askTree(treePath(state), treeParams, signal));
	const followedTree = useFollowed(feed, fineParams, state.view === "inverted" ? INVERTED : FLAMEGRAPH);
	const firstTree = useAnswer(followed ? "first" : null, () => earlyTree(treePath(state), treeParams, false));
	/* The first picture is soon there; what it has merged though there are pixels for it comes behind. */
	const coarse = !followed && !askedTree.loading && !report() && GRAPHS.includes(state.view) ? askedTree.value : null;
	const finer = coarse !== null && !opened && !props.guessed && coarse.header.pruned > 0 && nodesFor(innerWidth) > coarse.count;
	const fineTree = useAnswer(finer ? `${treePath(state)} ${fineParams} ${coarse.header.asof} ${tick}` : null, (signal) => {
		fineParams.set("asof", coarse!.header.asof);
		return askTree(treePath(state), fineParams, signal);
	});
	const settledTree = finer && !fineTree.loading && fineTree.value ? { ...askedTree, value: fineTree.value } : askedTree;
	/* With a search, what it finds is drawn however little it is; an expression that the program refuses changes nothing. */
	const search = useSearched(state.search);
	const searchable = search && !props.guessed && !askedTree.loading && !report() && GRAPHS.includes(state.view) ? settledTree.value : null;
	const searchParams = new URLSearchParams(fineParams);
	searchParams.set("search", INSENSITIVE + search);
	const searchedTree = useAnswer(searchable && !followed ? `${treePath(state)} ${searchParams} ${searchable.header.asof}` : null, (signal) => {
		searchParams.set("asof", searchable!.header.asof);
		return askTree(treePath(state), searchParams, signal);
	});
	const found = searchable && !searchedTree.loading && !searchedTree.error && searchedTree.value?.header.searched === state.search ? searchedTree.value : null;
	const answered = !followed && found ? { ...settledTree, value: found } : !followed ? settledTree : followedTree.value || followedTree.error ? followedTree : { value: firstTree.value ?? askedTree.value, error: null, loading: true };
	/* Values that a person asked for are shown whatever they are. */
	const shared = useMemo(() => {
		const grouped = state.group === null ? (answered.value?.withoutGroup() ?? null) : answered.value;
		return grouped?.total2 && state.normalised ? grouped.shares() : grouped;
	}, [answered.value, state.normalised, state.group === null]);
	const tree: Answer<Tree> = { ...answered, value: shared };

	/* The graph is what is looked at first: it is not made to wait for what stands around it. */
	const graphFirst = props.guessed || (!followed && askedTree.loading && !["time", "heat", "raw", "source"].includes(state.view));
	const asked = useRef(new Map<string, string | null>());
	const behind = (name: string, question: string | null): string | null => {
		if (!graphFirst) asked.current.set(name, question);
		return asked.current.get(name) ?? null;
	};
	const dim = <T,>(answer: Answer<T>): Answer<T> => (graphFirst ? { ...answer, loading: true } : answer);

	const topParams = new URLSearchParams(params);
	topParams.set("sort", sort);
	const choosing = state.view === "source" && !state.name;
	const tabled = state.layout !== "graph" || choosing;
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
	/* Both sides being times of one selection, a click parts them elsewhere. */
	const splitTime = state.view === "diff" && state.right && !secondParams && !report() ? (at: number) => store.set(splitAt(state, status, at)) : undefined;
	const lineFilter = report() ? undefined : (label: string, value: string) => store.set({ query: withMatcher(state.query, matcher(label, "=", value)), zoom: "" });
	noteTimeline(timeline.value);
	noteShown(followed ? null : (tree.value?.header ?? null));
	/* All rows are here: they need not be asked for in another order. */
	const allRows = top.value !== null && top.value.count <= top.value.rows.length;
	const sorted = useMemo(() => (top.value && (report() || followed || allRows) ? { ...top.value, rows: sortRows(top.value, sort) } : top.value), [top.value, sort, followed]);
	usePublishedState(state, tree.value, top.value, status, props.guessed || tree.loading || top.loading || timeline.loading);

	const error = tree.error && top.error && tree.error.message === top.error.message ? tree.error : null;
	if (error && !tree.value && !top.value) return <Refused store={store} status={status} error={error} />;
	const once = <T,>(answer: Answer<T>): Answer<T> => (error ? { ...answer, error: null } : answer);

	const withTable = state.layout !== "graph" && !["raw", "heat", "time", "source"].includes(state.view);
	const withGraph = state.layout !== "table" || !GRAPHS.includes(state.view);
	return (
		<>
			<section class="timeline-row" aria-label="Timeline" hidden={timeless(state.to)}>
				{error && <ErrorBox error={error} />}
				<Show answer={once(timeline)}>
					{(data) => (
						<Timeline data={data} theme={theme} bands={bandsOf(state, secondParams ? "left" : undefined)} onSelect={selectTime} onPoint={splitTime} onFilter={state.view === "diff" ? undefined : lineFilter} label={typeLabel(type, status.types)} unit={type?.unit ?? ""} />
					)}
				</Show>
				{secondParams && (
					<Show answer={once(dim(second))}>
						{(data) => <Timeline data={data} theme={theme} bands={bandsOf(state, "right")} onSelect={(from, to) => selectTime(from, to, true)} label={`${typeLabel(type, status.types)} after`} unit={type?.unit ?? ""} />}
					</Show>
				)}
			</section>
			<Chips transforms={state.transforms} onRemove={(i) => store.set({ transforms: state.transforms.filter((_, k) => k !== i) })} />
			<main class={`panes${withTable && withGraph ? " two" : ""}${state.view === "diff" && state.pair ? " paired" : ""}`} aria-label="Views" key={state.view === "diff" ? "diff" : "one"}>
				{withTable && (
					<TopPane store={store} theme={theme} actions={actions} answer={{ ...once(top), value: sorted }} sort={sort} onSort={setSort} onSelect={props.onSelect} />
				)}
				{withGraph && (
					<div class="pane">
						<View {...props} top={{ ...once(top), value: sorted }} line={timeline.loading && !timeline.error ? undefined : timeline.value} sort={sort} onSort={setSort} tree={once(tree)} answerKey={key} onTime={selectTime} onOther={(root) => store.set({ root, zoom: "", live: state.live && !root })} opened={opened} />
					</div>
				)}
			</main>
			{tree.value && <Foot tree={tree.value} by={state.by} oneWindow={state.view === "diff" && state.right?.from === state.from && state.right.to === state.to} source={uploadOf(state.query) ? "a file that was dropped here" : `${status.store.kind} ${status.store.path}`} />}
		</>
	);
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
			view: state.view, pair: state.pair, type: state.type, query: state.query, from: state.from, to: state.to, zoom: state.zoom, transforms: state.transforms,
			search: state.search, live: state.live, theme: document.documentElement.dataset.theme, loading,
			total: tree?.header.total[0] ?? null, total2: tree?.header.total[1] ?? null, unit: tree?.header.unit ?? null,
			nodes: tree?.count ?? 0, groups: tree ? groupsOf(tree) : 0, depth: tree?.depth ?? 0, samples: tree?.header.samples ?? null, rows: top?.rows.length ?? 0, types: status.types.length,
		};
	}, [state, tree, top, status, loading]);
}
