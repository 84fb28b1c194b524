// app.tsx - the page: one selection above, its views below. All state lives in the URL (state.ts).

import { useEffect, useState } from "preact/hooks";
import { afterEarly, againMs, askJSON, earlyStatus, slowestAsk, useAnswer, type Status, type Timeline } from "./api";
import { Bar, frozenLink } from "./bar";
import { Body } from "./body";
import { useFeed, useLost } from "./follow";
import { diffState, leaving, noteTimeline, unpaired } from "./halves";
import { focusPicture, useKeys } from "./keys";
import { exactly } from "./parts/chips";
import { ChooseOther } from "./parts/compare";
import { Help } from "./parts/help";
import { LostNote, Nothing, ReportNote, SpanNote } from "./parts/notes";
import { copyText, Said } from "./parts/said";
import { ErrorBox } from "./parts/states";
import { UploadLayer, UploadNote, uploadOf, useUpload } from "./parts/upload";
import { resolve, timelineParams, typeLabel } from "./questions";
import { report } from "./report";
import { lostTo } from "./live";
import { matcher, withMatcher } from "./selector";
import { groupOf, selectionParams, useStore, type State, type Store } from "./state";
import { useTheme } from "./theme";
import { spanOf } from "./times";
import type { FrameActions, FrameId } from "./views/flame";

/** A store that grows is followed from the start, where the URL says no time. */
const FRESH_NS = 60e9;

function opensLive(state: State, status: Status): boolean {
	const { from, to, asof, trace, span, live, view } = state;
	return !(from || to || asof || trace || span || live || report()) && view !== "diff" && status.store.kind === "sqlite" && !uploadOf(state.query) && Number(status.now_ns) - Number(status.to) < FRESH_NS;
}

/** What there is at all is asked for again once a minute while it is followed. */
const ASK_STATUS_MS = 60_000;
/** As long as there is nothing. */
const ASK_EMPTY_MS = 1000;
const ASKED_VIEWS = ["diff", "time", "heat", "raw", "source"];

export function App() {
	const [theme, switchTheme] = useTheme();
	const url = useStore();
	const store: Store = { ...url, set: (change, how) => url.set({ ...leaving(url.state, change), ...change }, how) };
	const [help, setHelp] = useState(false);
	const [selected, setSelected] = useState<FrameId | null>(null);
	const [tick, setTick] = useState(0);
	const uploading = useUpload(store);
	const upload = uploadOf(store.state.query);
	const statusParams = new URLSearchParams(upload ? { query: `{upload.id="${upload}"}` } : {});
	const status = useAnswer(`status ${statusParams} ${tick}`, async (signal) => {
		await afterEarly();
		const is = await askJSON<Status>("status", statusParams, signal);
		return { upload, is: report() ? is : { ...is, heard: performance.now() } };
	});
	/* What another source said is no answer. */
	const said = status.value?.upload === upload ? status.value.is : null;
	/* The first picture does not wait for the list of what there is. */
	const guess = useAnswer(said === null && tick === 0 ? "early" : null, earlyStatus);
	const guessed = status.value === null && status.error === null && guess.value !== null;
	const known = said ?? (guessed ? guess.value : null);
	const first = said !== null && opensLive(store.state, said);
	const opened: State = first ? { ...store.state, from: "now-15m", to: "now", live: true } : store.state;
	useEffect(() => {
		if (first) store.set({ from: "now-15m", to: "now", live: true }, "replace");
	}, [first]);
	const state = known ? resolve(opened, known) : opened;
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
	const isLive = state.live && said !== null && !report();
	const feed = useFeed(isLive ? (follows ? timelineParams(state) : new URLSearchParams()) : null);
	const lost = useLost(feed) ?? lostTo(said?.store.failing);
	const askAll = !follows || ASKED_VIEWS.includes(state.view);
	useEffect(() => {
		if (!feed) return;
		let asked = Date.now();
		let took = 0;
		return feed.on((event) => {
			if (event.kind === "lost") return event.lost ? undefined : setTick((n) => n + 1);
			took = Math.max(took, slowestAsk());
			if (document.hidden || Date.now() - asked < (askAll ? againMs(took) : ASK_STATUS_MS)) return;
			asked = Date.now();
			took = 0;
			setTick((n) => n + 1);
		});
	}, [feed, askAll]);

	const actions: FrameActions = {
		transform: (x) => store.set({ transforms: [...store.state.transforms, x], zoom: "" }),
		sandwich: (frame) => store.set({ view: "sandwich", name: frame.name, key: frame.key, zoom: "" }),
		source: (name) => store.set({ view: "source", name }),
		copyLink: () => void copyText(frozenLink(state), "the link of what is shown"),
		raw: (name) => store.set({ view: "raw", transforms: [...store.state.transforms, `focus:${exactly(name)}`], zoom: "" }),
		only: (value, not) => {
			const one = matcher(groupOf(state), not ? "!=" : "=", value === "(none)" ? "" : value);
			store.set({ query: withMatcher(state.query, one), zoom: "", group: not ? state.group : "" });
		},
		findInTop: (name) => store.set({ layout: state.layout === "graph" ? "both" : state.layout, search: exactly(name) }),
	};
	/* A diff of which the URL says no sides: halves of what was measured, once that is known. */
	const unsplit = state.view === "diff" && !state.right && !report() && !!type;
	const unsplitParams = selectionParams(state);
	unsplitParams.set("width", "300");
	const measured = useAnswer(unsplit ? `halves ${unsplitParams}` : null, (signal) => askJSON<Timeline>("timeline", unsplitParams, signal));
	useEffect(() => {
		if (!unsplit || !known || measured.loading) return;
		noteTimeline(measured.error ? null : measured.value);
		store.set(diffState(state, known), "replace");
	}, [unsplit, measured.loading]);

	const called = typeLabel(type, known?.types ?? []);
	useEffect(() => {
		if (!report() && type) document.title = [state.name && ["sandwich", "source"].includes(state.view) ? state.name : called, state.view, state.query, "flametap"].filter(Boolean).join(" · ");
	}, [called, state.view, state.name, state.query]);
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
				<UploadLayer store={store} uploading={uploading} />
			</main>
		);
	if (!known) return <main class="alone dim">Reading…</main>;
	return (
		<>
			<Bar store={filled} status={known} theme={theme} onTheme={switchTheme} onHelp={() => setHelp(true)} onSkip={focusPicture} uploading={uploading} lost={lost !== null} />
			<UploadLayer store={store} uploading={uploading} />
			<UploadNote store={store} />
			<SpanNote store={store} />
			<ReportNote />
			<LostNote lost={lost} />
			{known.types.length === 0 ? (
				<Nothing status={known} gone={status.error !== null} />
			) : unpaired(state) ? (
				<ChooseOther store={filled} uploading={uploading} />
			) : unsplit ? (
				<main class="alone dim">Reading…</main>
			) : (
				<Body store={filled} status={known} theme={theme} actions={actions} selected={selected} onSelect={setSelected} tick={tick} guessed={guessed} lost={lost !== null} follows={isLive && follows} feed={isLive && follows ? feed : null} />
			)}
			<Said />
			{help && <Help onClose={() => setHelp(false)} />}
		</>
	);
}
