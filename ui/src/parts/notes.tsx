// notes.tsx - what stands above a picture or in its place: whose it is, why there is none, and the way on.

import type { ApiError, Status } from "../api";
import { clock, dateTime } from "../format";
import type { Lost } from "../live";
import { report } from "../report";
import { afterNs, type Store } from "../state";
import { Command, Empty, ErrorBox } from "./states";

/** Above a view of one span's samples: whose they are, and the way back. */
export function SpanNote(props: { store: Store }) {
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

export function Nothing(props: { status: Status; gone: boolean }) {
	const agent = props.status.agent ?? { running: false, reason: "" };
	if (props.gone)
		return (
			<main class="alone">
				<div class="state" role="alert">
					<h2>flametap does not answer</h2>
					<p>No profile had come to it yet. Is it still running? It is asked again every second.</p>
				</div>
			</main>
		);
	return (
		<main class="alone">
			<Empty what="No profile has come yet">
				{agent.running ? (
					<p>The agent is running: its first report comes within seconds.</p>
				) : (
					<>
						<p>{agent.reason ? `The agent does not run here: ${agent.reason}.` : `Send OTLP profiles to ${location.origin} (gRPC or HTTP), or profile this machine: stop this one (Ctrl-C), then`}</p>
						<Command text="sudo flametap up" />
						<p>Or drop a file of profiles onto this page, or look at recorded ones beside it:</p>
						<Command text="flametap up --demo --listen 127.0.0.1:0 --grpc-address '' --http-address ''" />
					</>
				)}
			</Empty>
		</main>
	);
}

/** The page does not say "live" of a picture that is not. */
export function LostNote(props: { lost: Lost | null }) {
	if (!props.lost) return null;
	return (
		<aside class="note" aria-label="Nothing new comes">
			<span class="warn" role="alert">
				Nothing new since {clock(props.lost.since * 1e6)}: {props.lost.why}. What is shown is of before; flametap is asked again every few seconds.
			</span>
		</aside>
	);
}

/** A report says what it is, of when, and what it can't do. */
export function ReportNote() {
	const r = report();
	if (!r) return null;
	return (
		<aside class="note" aria-label="A report is shown">
			A report of flametap {r.version}, made {dateTime(Number(r.made))}: one selection, in this file alone.
		</aside>
	);
}

/** What every question was answered alike: said once, with a way back. */
export function Refused(props: { store: Store; status: Status; error: ApiError }) {
	const { state, set } = props.store;
	const { message } = props.error;
	const oneSpan = state.trace || state.span;
	const type = props.error.status === 404 && !oneSpan && props.status.types.find((t) => t.id === state.type);
	return (
		<main class="alone">
			<ErrorBox error={props.error}>
				{!message.startsWith("selector:") && /\b(from|to|time)\b/.test(message) && (
					<button type="button" onClick={() => set({ from: "", to: "", live: false, zoom: "" })}>
						The last 15 minutes with data
					</button>
				)}
				{type && (
					<button type="button" onClick={() => set({ from: type.first, to: afterNs(type.last), live: false, zoom: "" })}>
						All time that has data
					</button>
				)}
				{oneSpan && (
					<button type="button" onClick={() => set({ trace: "", span: "", from: "", to: "", zoom: "" })}>
						All samples
					</button>
				)}
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
				<a class="button" href="/">
					Start again
				</a>
			</ErrorBox>
		</main>
	);
}

/** Nothing can be drawn along a time that nobody wrote down. */
export function NoTimes(props: { store: Store }) {
	return (
		<Empty what="These samples have no times">
			<p>The file says how often each stack was seen, not when: there is no order to draw them in.</p>
			<button type="button" onClick={() => props.store.set({ view: "icicle" })}>
				Flame graph of them
			</button>
		</Empty>
	);
}

export function Nodata(props: { store: Store; status: Status }) {
	const { store, status } = props;
	const { state } = store;
	const type = status.types.find((t) => t.id === state.type);
	const one = state.span ? "span" : state.trace ? "trace" : "";
	const all = type && state.from === type.first && state.to === afterNs(type.last);
	return (
		<Empty what={one && all ? `No sample is linked to this ${one}` : "Nothing in this selection"}>
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
				{type && !all && (
					<button type="button" onClick={() => store.set({ from: type.first, to: afterNs(type.last) })}>
						All time that has data
					</button>
				)}
			</div>
		</Empty>
	);
}
