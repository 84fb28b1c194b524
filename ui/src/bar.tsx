// bar.tsx - the selection: profile type, time, filter; and what is done with it: views, grouping, export, link.

import { useRef, useState } from "preact/hooks";
import { INSENSITIVE, type Status } from "./api";
import { ciCommand, noCommand } from "./ci";
import { typeLabel } from "./questions";
import { clock, count, dateTime, range } from "./format";
import { Icon } from "./parts/icons";
import type { Theme } from "./flame/colour";
import { aroundTime, dayBefore, diffState, isHalved, twoValues } from "./halves";
import { OtherFiles } from "./parts/compare";
import { Filter } from "./parts/filter";
import { LabelInput, ValueInput } from "./parts/labels";
import { Popup } from "./parts/menu";
import { copyText, say } from "./parts/said";
import { useNarrow } from "./narrow";
import { OpenFile, type Uploading } from "./parts/upload";
import { expression } from "./selector";
import { report } from "./report";
import { spanOf } from "./times";
import { afterNs, groupOf, selectionParams, stateURL, type State, type Store, type ViewName } from "./state";

const RANGES: [string, string][] = [
	["now-5m", "last 5 min"],
	["now-15m", "last 15 min"],
	["now-1h", "last hour"],
	["now-6h", "last 6 h"],
	["now-24h", "last 24 h"],
	["now-7d", "last 7 days"],
];

export const VIEW_LABELS: [ViewName, string, string][] = [
	["icicle", "icicle", "i"],
	["flame", "flame", "f"],
	["inverted", "inverted", "v"],
	["sandwich", "sandwich", "s"],
	["diff", "diff", "d"],
	["time", "time", "t"],
	["heat", "heat", "h"],
	["raw", "raw", "r"],
	["source", "source", "o"],
];

const FORMATS: [string, string, string][] = [
	["pprof", "pprof", "go tool pprof"],
	["folded", "folded stacks", "flamegraph.pl and others"],
	["speedscope", "speedscope", "threads in order of time"],
	["firefox", "Firefox Profiler", "profiler.firefox.com opens it"],
	["pgo", "Go PGO", "default.pgo, for go build -pgo"],
	["dot", "Graphviz DOT", "who calls whom"],
	["otlp", "OTLP", "samples with all that came with them"],
	["svg", "SVG", "zooms and searches by itself; not grouped"],
	["html", "HTML report", "this page with its answers in one file"],
];

export function swapped(state: State): Partial<State> {
	if (!state.right) return {};
	const { type, query, from, to } = state;
	return { ...state.right, right: { type, query, from, to } };
}

let shown: { from: string; to: string } | null = null;

/** The time of the answer that is shown; null: it moves with the clock. */
export function noteShown(header: { from: string; to: string } | null): void {
	shown = header;
}

/** The state with relative times made absolute: those of what is shown. */
function frozen(state: State): State {
	const span = spanOf(state.from);
	const clockNow = BigInt(Date.now()) * 1_000_000n;
	const now = !shown ? clockNow : state.to === "now" ? BigInt(shown.to) : span !== null ? BigInt(shown.from) + span : clockNow;
	const fixed = (text: string, otherwise: string) => {
		const before = text === "now" ? 0n : spanOf(text);
		return before !== null ? String(now - before) : /now/.test(text) ? otherwise : text;
	};
	const { right } = state;
	const from = fixed(state.from, shown?.from ?? state.from);
	const to = fixed(state.to, shown?.to ?? state.to);
	return { ...state, from, to, right: right && { ...right, from: fixed(right.from, right.from), to: fixed(right.to, right.to) }, live: false, whole: "", sides: "" };
}

/** A link that shows the same later: relative times become absolute, and live ends. Only the state: no token is in it. */
export function frozenLink(state: State): string {
	return new URL(stateURL(frozen(state)), location.origin).href;
}

/** What times without a zone are of: the browser's. */
const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone;

function TimePicker(props: { from: string; to: string; status: Status; type: string; onChange(from: string, to: string): void }) {
	const type = props.status.types.find((t) => t.id === props.type);
	let from = /^\d{16,}$/.test(props.from) ? dateTime(Number(props.from)) : props.from;
	let to = /^\d{16,}$/.test(props.to) ? dateTime(Number(props.to)) : props.to || "now";
	/* What the page chose itself, it says. */
	const own = /^\d{16,}$/.test(props.from) && props.from === props.status.from && props.to === props.status.to;
	const extent = own && type ? (BigInt(type.first) >= BigInt(props.from) ? "all there is" : "last 15 min with data") : "";
	const written = { from, to };
	const parse = (t: string) => {
		const ms = /^\d{4}-/.test(t) ? Date.parse(t.replace(" ", "T")) : NaN;
		return Number.isNaN(ms) ? t.trim() : String(ms * 1e6);
	};
	return (
		<Popup label={<>{extent && <span class="dim extent">{extent}: </span>}{range(props.from, props.to)} ▾</>} title="Time">
			{(close) => (
				<div class="picker">
					<div class="column">
						{RANGES.map(([value, label]) => (
							<button
								key={value}
								type="button"
								class="quiet"
								onClick={() => {
									props.onChange(value, "now");
									close();
								}}
							>
								{label}
							</button>
						))}
						{type && (
							<button
								type="button"
								class="quiet"
								onClick={() => {
									props.onChange(type.first, afterNs(type.last));
									close();
								}}
							>
								all that has data
							</button>
						)}
					</div>
					<form
						class="column"
						onSubmit={(event) => {
							event.preventDefault();
							/* What was not touched stays as exact as it was. */
							props.onChange(from === written.from ? props.from : parse(from), to === written.to ? props.to : parse(to));
							close();
						}}
					>
						<label>
							from
							<input value={from} onInput={(event) => (from = event.currentTarget.value)} spellcheck={false} />
						</label>
						<label>
							to
							<input value={to} onInput={(event) => (to = event.currentTarget.value)} spellcheck={false} />
						</label>
						<button type="submit">Show</button>
						<p class="hint">2026-01-31 14:05:00 ({zone()}), now-15m, or unix time</p>
					</form>
				</div>
			)}
		</Popup>
	);
}

/** What people mostly compare. */
function Presets(props: { store: Store; status: Status }) {
	const { state, set } = props.store;
	const { status } = props;
	const [at, setAt] = useState(dateTime(Number(state.to) || Number(status.now_ns)));
	const values = useRef({ label: "", one: "", other: "" });
	return (
		<Popup label="compare ▾" title="Compare">
			{(close) => {
				const go = (change: Partial<State>) => {
					set(change);
					close();
				};
				return (
					<div class="column presets">
						<button type="button" class="quiet" onClick={() => go(diffState({ ...state, view: "icicle", query: state.query, to: state.right?.to ?? state.to, right: null }, status))}>
							First half and second half
						</button>
						<button type="button" class="quiet" onClick={() => go(dayBefore(state, status))}>
							A day before, and now
						</button>
						<OtherFiles store={props.store} again={null} onDone={close} />
						<form
							class="row"
							onSubmit={(event) => {
								event.preventDefault();
								const ms = Date.parse(at.trim().replace(" ", "T"));
								if (Number.isNaN(ms)) say(`“${at.trim()}” is no time: like 2026-01-31 14:05:00`);
								else go(aroundTime(state, status, ms * 1e6));
							}}
						>
							<label>
								Before and after
								<input value={at} onInput={(event) => setAt(event.currentTarget.value)} spellcheck={false} />
							</label>
							<button type="submit">Compare</button>
						</form>
						<form
							class="row"
							onSubmit={(event) => {
								event.preventDefault();
								const { label, one, other } = values.current;
								if (label && one && other) go(twoValues(state, label, one, other));
							}}
						>
							<LabelInput text="Values of" base={selectionParams(state)} value="" onInput={(v) => (values.current.label = v)} />
							<ValueInput text="before" name={() => values.current.label} base={selectionParams(state)} onInput={(v) => (values.current.one = v)} />
							<ValueInput text="after" name={() => values.current.label} base={selectionParams(state)} onInput={(v) => (values.current.other = v)} />
							<button type="submit">Compare</button>
						</form>
					</div>
				);
			}}
		</Popup>
	);
}

function DiffBar(props: { store: Store; status: Status }) {
	const { state, set } = props.store;
	const right = state.right!;
	const side = (name: string, s: { query: string; from: string; to: string }, change: (c: Partial<State["right"] & object>) => void) => (
		<div class="side">
			<b>{name}</b>
			<TimePicker from={s.from} to={s.to} status={props.status} type={state.type} onChange={(from, to) => change({ from, to })} />
			<Filter value={s.query} base={selectionParams(state)} label={`Filter by labels: ${name}`} onChange={(query) => change({ query })} />
		</div>
	);
	const none = noCommand(state, props.status);
	return (
		<div class="diff-bar" role="group" aria-label="The two sides of the diff">
			{side("before", state, (c) => set(c))}
			{side("after", right, (c) => set({ right: { ...right, ...c } }))}
			<div class="side diff-tools">
				<button type="button" class="icon" title="Swap the sides (x)" aria-label="Swap the sides" onClick={() => set(swapped(state))}>
					<Icon name="swap" />
				</button>
				<Presets {...props} />
				{state.to === right.from && state.query === right.query && (
					<span class="dim parted">
						{isHalved(state) ? `as much was measured before ${clock(Number(state.to))} as after it` : `before and after ${clock(Number(state.to))}`}; a click on the timeline parts them there
					</span>
				)}
				<span class="grow" />
				<label class="check" title="Each side is a whole of its own, however much was measured; else both are to one scale">
					<input type="checkbox" checked={state.normalised} onChange={(event) => set({ normalised: event.currentTarget.checked }, "replace")} />
					as shares
				</label>
				<button type="button" class="quiet" disabled={none !== ""} title={none || "A command that fails in CI when a function grew by 5 % of all, on this machine or where the file is"} onClick={() => void copyText(ciCommand(frozen(state), props.status), "the command for CI")}>
					copy CI command
				</button>
			</div>
		</div>
	);
}

/** What the program is asked for a file with what is shown. */
function exportLink(state: State, format: string): string {
	const params = selectionParams(state, state.view === "diff" && format === "html" ? "both" : "left");
	params.set("format", format);
	if (format === "html") params.set("state", new URL(frozenLink(state)).search.slice(1));
	if (format === "html" && typeof expression(state.search) !== "string" && state.search) params.set("search", INSENSITIVE + state.search);
	return `/api/v1/export?${params}`;
}

const onLoopback = () => /^(localhost|127\.|\[::1\])/.test(location.hostname);

/** An address of this machine alone is no use to others: they get the report. */
function Share(props: { state: State }) {
	return (
		<Popup label={<Icon name="link" />} title="Share" class="icon">
			{(close) => (
				<div class="column">
					<button
						type="button"
						class="quiet option"
						onClick={() => {
							void copyText(frozenLink(props.state), "the link");
							close();
						}}
					>
						<span>Copy the link (y)</span>
						<span class="hint">{onLoopback() ? "only this machine can open it" : "times are absolute in it"}</span>
					</button>
					<a class="option" href={exportLink(props.state, "html")} download="" onClick={close}>
						<span>Download a report</span>
						<span class="hint">one HTML file that anyone can open, offline</span>
					</a>
				</div>
			)}
		</Popup>
	);
}

function Selection(props: { store: Store; status: Status; uploading: Uploading; lost: boolean }) {
	const { store, status } = props;
	const { state, set } = store;
	if (report())
		return (
			<>
				<span>
					{range(state.from, state.to)}
					{state.view === "diff" && state.right && ` → ${range(state.right.from, state.right.to)}`}
				</span>
				<code class="grow dim">{state.query}</code>
			</>
		);
	return (
		<>
			{state.view !== "diff" && (
				<>
					<div class="when">
						<TimePicker from={state.from} to={state.to} status={status} type={state.type} onChange={(from, to) => set({ from, to, zoom: "" })} />
						<button
							type="button"
							class={state.live && !props.lost ? "live on" : "live"}
							aria-pressed={state.live}
							title={props.lost ? "Nothing new comes: flametap is asked again every few seconds" : "Follow new samples (l)"}
							onClick={() => set({ live: !state.live, from: state.live ? state.from : "now-15m", to: state.live ? state.to : "now" })}
						>
							{props.lost ? "○ live" : "● live"}
						</button>
					</div>
					<Filter value={state.query} base={selectionParams(state)} label="Filter by labels" onChange={(query) => set({ query, zoom: "" })} />
				</>
			)}
			<span class={state.view === "diff" ? "grow" : "phone-grow"} />
			<OpenFile store={store} uploading={props.uploading} />
			<Popup label={<Icon name="export" />} title="Export" class="icon">
				{() => (
					<div class="column">
						{state.view === "diff" && <p class="hint">Of a diff the report has both sides, the others the one before.</p>}
						{FORMATS.map(([format, label, hint]) => (
							<a key={format} class="option" href={exportLink(state, format)} download="">
								<span>{label}</span>
								<span class="hint">{hint}</span>
							</a>
						))}
					</div>
				)}
			</Popup>
			<Share state={state} />
		</>
	);
}

/** How the selection is told apart and drawn. */
function Options(props: { store: Store }) {
	const { state, set } = props.store;
	return (
		<>
			{!report() && (
				<>
					<LabelInput text="group by" class="short" base={selectionParams(state)} value={groupOf(state)} onChange={(group) => set({ group, zoom: "" })} />
					<label hidden={["heat", "raw"].includes(state.view)}>
						by{" "}
						<select value={state.by} onChange={(event) => set({ by: event.currentTarget.value, zoom: "" })}>
							{["function", "line", "address", "file", "binary"].map((by) => (
								<option key={by}>{by}</option>
							))}
						</select>
					</label>
				</>
			)}
			<label hidden={["time", "heat", "raw", "source"].includes(state.view) || (state.view === "diff" && !state.pair)}>
				colour{" "}
				<select value={state.colour} onChange={(event) => set({ colour: event.currentTarget.value as State["colour"] }, "replace")}>
					{["type", "binary", "function"].map((c) => (
						<option key={c}>{c}</option>
					))}
				</select>
			</label>
			<div class="segments" role="group" aria-label="Layout" hidden={["time", "heat", "raw", "source"].includes(state.view)}>
				{(["table", "both", "graph"] as const).map((layout) => (
					<button key={layout} type="button" aria-pressed={state.layout === layout} onClick={() => set({ layout }, "replace")}>
						{layout}
					</button>
				))}
			</div>
		</>
	);
}

export function Bar(props: { store: Store; status: Status; theme: Theme; onTheme(): void; onHelp(): void; onSkip(): void; uploading: Uploading; lost: boolean }) {
	const { store, status } = props;
	const { state, set } = store;
	const type = status.types.find((t) => t.id === state.type);
	const small = useNarrow();
	return (
		<header class="bar">
			<button type="button" class="skip" onClick={props.onSkip}>
				To the picture
			</button>
			<div class="bar-row">
				<h1>
					<a class="brand" href="/" title={`flametap ${status.version}`}>
						flametap
					</a>
				</h1>
				<Popup label={<>{typeLabel(type, status.types)} ▾</>} title="Profile type">
					{(close) => (
						<div class="column">
							{status.types.filter((t) => !report() || t.id === state.type).map((t) => (
								<button
									key={t.id}
									type="button"
									class="quiet option"
									aria-current={t.id === state.type}
									onClick={() => {
										set({ type: t.id, zoom: "" });
										close();
									}}
								>
									<span>{typeLabel(t, status.types)}</span>
									<span class="hint">
										{t.id} · {count(t.series)} series
									</span>
								</button>
							))}
						</div>
					)}
				</Popup>
				<Selection store={store} status={status} uploading={props.uploading} lost={props.lost} />
				{small && (
					<Popup label="⋯" title="Grouping, colours, layout" class="icon">
						{() => (
							<div class="column options">
								<Options store={store} />
							</div>
						)}
					</Popup>
				)}
				<button type="button" class="icon" title={`Theme: ${props.theme}`} aria-label="Switch between dark and light" onClick={props.onTheme}>
					<Icon name="theme" />
				</button>
				<button type="button" class="icon keyed" title="Keys (?)" aria-label="Keys" onClick={props.onHelp}>
					?
				</button>
			</div>
			{state.view === "diff" && state.right && !report() && <DiffBar store={store} status={status} />}
			<nav class="views" aria-label="View">
				{VIEW_LABELS.filter(([view]) => !report() || (view !== "source" && (view !== "diff" || report()!.parts.has("diff")))).map(([view, label, key]) => (
					<button
						key={view}
						type="button"
						class="tab"
						aria-current={state.view === view ? "page" : undefined}
						title={`${label} (${key})`}
						onClick={() => set(view === "diff" ? diffState(state, status) : { view, zoom: view === "inverted" || state.view === "inverted" ? "" : state.zoom })}
					>
						{label}
					</button>
				))}
				<span class="grow" />
				{!small && <Options store={store} />}
			</nav>
		</header>
	);
}
