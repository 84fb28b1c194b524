// questions.ts - what the program is asked for, by what the URL says.

import type { Status, ProfileType } from "./api";
import { spanOf } from "./times";
import type { Band } from "./parts/timeline";
import { report } from "./report";
import { afterNs, PROCESS, selectionParams, type State } from "./state";

/** The state with what the URL left open filled from what the store holds. */
export function resolve(state: State, status: Status): State {
	if (status.types.length === 0) return state;
	const type = state.type || status.types[0]?.id || "";
	/* A span is looked for at all times: its URL comes from elsewhere and says none. */
	const all = (state.trace || state.span) && status.types.find((t) => t.id === type);
	const from = state.from || (all ? all.first : status.from);
	const to = state.to || (all ? afterNs(all.last) : spanOf(from) !== null ? "now" : status.to);
	const right = state.right && { type: state.right.type || type, query: state.right.query, from: state.right.from || from, to: state.right.to || to };
	return { ...state, type, from, to, right };
}

/** What is called a type among all that there are. */
export function typeLabel(type: ProfileType | undefined, all: ProfileType[]): string {
	if (!type) return "no profiles";
	const twin = type.name && all.some((t) => t.name === type.name && t.id !== type.id && t.id.split(":")[1] !== type.id.split(":")[1]);
	if (twin) return `${type.name} ${type.id.split(":")[1]}`;
	if (type.name && type.name !== type.id.split(":")[1]) return type.name;
	const [, sample] = type.id.split(":");
	return sample || type.id;
}

export function timelineParams(state: State): URLSearchParams {
	const params = selectionParams(state);
	params.set("timeline_group", state.group || PROCESS);
	return params;
}

/** Nanoseconds since 1970; NaN: neither a time nor one before now. */
export function instant(text: string): number {
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
export function lineQuestion(state: State, side: "left" | "right"): URLSearchParams {
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
	if (!report()) params.set("group", state.group || PROCESS);
	params.set("width", String(stepsOf(from, to)));
	return params;
}

export function bandsOf(state: State, side?: "left" | "right"): Band[] {
	if (state.view !== "diff" || !state.right) return [];
	const bands: Band[] = [
		{ name: "before", from: instant(state.from), to: instant(state.to) },
		{ name: "after", from: instant(state.right.from), to: instant(state.right.to) },
	];
	return bands.filter((b) => Number.isFinite(b.from + b.to) && (!side || (side === "left") === (b.name === "before")));
}

export function treePath(state: State): string {
	return state.view === "diff" ? "diff" : "flamegraph";
}

/** What is drawn along time begins with the first sample there is, not with hours of nothing. */
export function fromFirst(state: State, status: Status): URLSearchParams {
	const params = selectionParams(state);
	const first = status.types.find((t) => t.id === state.type)?.first;
	const [from, to] = [instant(state.from), instant(state.to)];
	if (first && !report() && from < Number(first) && Number(first) < to) params.set("from", first);
	return params;
}
