// halves.ts - the two sides of a diff: what they are at first, and the usual questions as presets.

import type { Status, Timeline } from "./api";
import { timeless } from "./format";
import { report } from "./report";
import { matcher, withMatcher } from "./selector";
import { packed, unpacked, type State } from "./state";
import { spanOf } from "./times";

let seen: Timeline | null = null;

/** What the page shows of the time. */
export function noteTimeline(timeline: Timeline | null): void {
	seen = timeline;
}

/** Half of what was measured lies before it, half after: never one side without anything. NaN where that is not known. */
function middleOfSeen(from: number, to: number): number {
	if (!seen) return NaN;
	const { series, step_ns: step } = seen;
	const start = Number(seen.start_ns);
	const sums = seen.covered.map((_, i) => series.reduce((sum, s) => sum + (s.values[i] ?? 0), 0));
	const inside = (i: number) => start + (i + 1) * step > from && start + i * step < to;
	const whole = sums.reduce((sum, v, i) => (inside(i) ? sum + v : sum), 0);
	let passed = 0;
	for (const [i, v] of sums.entries()) {
		if (!inside(i)) continue;
		passed += v;
		const edge = start + (i + 1) * step;
		if (passed * 2 >= whole && whole > 0) return edge > from && edge < to ? edge : NaN;
	}
	return NaN;
}

/** The program's clock; what it said of it may be a minute old. */
export const nowOf = (status: Status) => Number(status.now_ns) + (status.heard === undefined ? 0 : Math.round((performance.now() - status.heard) * 1e6));

/** The window as two instants; null where it has none. */
export function windowOf(state: { from: string; to: string }, status: Status): [number, number] | null {
	const now = nowOf(status);
	const at = (text: string) => (text === "now" ? now : spanOf(text) !== null ? now - Number(spanOf(text)) : Number(text || NaN));
	const [from, to] = [at(state.from), at(state.to)];
	return Number.isFinite(from) && Number.isFinite(to) ? [from, to] : null;
}

const text = (ns: number) => String(Math.round(ns));

function sides(state: State, left: [number, number], right: [number, number]): Partial<State> {
	return {
		view: "diff", from: text(left[0]), to: text(left[1]), live: false, zoom: "", split: "",
		right: { type: state.type, query: state.query, from: text(right[0]), to: text(right[1]) },
	};
}

/** Entering diff: the window's first half against its second, unless there was a right side already. As much was measured
 * in the one as in the other; by time where that is not known. */
export function diffState(state: State, status: Status): Partial<State> {
	if (state.right && state.view !== "diff") return { view: "diff" };
	const last = state.sides ? unpacked(state.sides) : null;
	if (last?.right && state.view !== "diff" && sameTime(unpacked(last.whole), state)) {
		const { type, query, from, to, right, whole } = last;
		return { view: "diff", type, query, from, to, right, whole, sides: "", live: false };
	}
	const entered = { view: "diff", whole: packed(wholeOf(state)), split: "", sides: "" } as const;
	/* No moment parts what has no times: it is for a person to say what is compared with it. */
	if (timeless(state.to)) return { ...entered, type: state.type, from: state.from, to: state.to, right: { type: state.type, query: state.query, from: state.from, to: state.to } };
	const window = windowOf(state, status);
	if (!window) return { ...entered, right: { type: state.type, query: state.query, from: state.from, to: state.to } };
	const type = status.types.find((t) => t.id === state.type);
	const begin = type && Number(type.first) > window[0] && Number(type.first) < window[1] ? type.first : /^\d+$/.test(state.from) ? state.from : text(window[0]);
	const end = /^\d+$/.test(state.to) ? state.to : text(window[1]); // as it was written: a double would cut the last sample off
	const from = Number(begin);
	const measured = middleOfSeen(from, window[1]);
	const middle = text(measured || (from + window[1]) / 2);
	return { ...entered, ...sides(state, window, window), from: begin, to: middle, split: measured ? middle : "", right: { type: state.type, query: state.query, from: middle, to: end } };
}

/* A diff takes the selection apart, and who leaves it has it whole again: as it was before, as far as the URL says that. */
type Whole = Pick<State, "type" | "query" | "from" | "to" | "live">;
const wholeOf = ({ type, query, from, to, live }: State): Whole => ({ type, query, from, to, live });
const sameTime = (a: Whole, b: Whole) => (a.type === b.type || !a.type) && a.query === b.query && a.from === b.from && a.to === b.to;

/** What a step out of a diff changes, besides the view. */
export function leaving(state: State, change: Partial<State>): Partial<State> {
	if (state.view !== "diff" || !state.right || !change.view || change.view === "diff" || report()) return {};
	const { type, query, from, to, right } = state;
	const halves = right.query === query && right.from === to;
	const whole = state.whole ? wholeOf(unpacked(state.whole)) : { ...wholeOf(state), ...(halves ? { to: right.to } : {}) };
	const back = { ...whole, type: type || whole.type };
	return { ...back, right: null, whole: "", split: "", sides: isHalved(state) ? "" : packed({ type, query, from, to, right, whole: packed(back) }) };
}

/** The split is the one that was made here, by what was measured: nobody asked for that moment. */
export const isHalved = (state: State): boolean => state.split !== "" && state.to === state.split && state.right?.from === state.split;

/** Both sides are the same, of a file without times: there is nothing to compare yet. */
export function unpaired(state: State): boolean {
	const { right } = state;
	return state.view === "diff" && right !== null && timeless(state.to) && right.type === state.type && right.query === state.query && right.from === state.from && right.to === state.to && !report();
}

/** The whole of the time, parted at `at`; where that lies outside, as long before it as after it. */
export function splitAt(state: State, status: Status, at: number): Partial<State> {
	const whole = windowOf({ from: state.from, to: state.right?.to ?? state.to }, status);
	if (!whole || at <= whole[0] || at >= whole[1]) return aroundTime(state, status, at);
	return { ...sides(state, [whole[0], at], [at, whole[1]]), from: state.from, right: { type: state.type, query: state.query, from: text(at), to: state.right?.to ?? state.to } };
}

/** As long before `at` as after it. */
export function aroundTime(state: State, status: Status, at: number): Partial<State> {
	const whole = windowOf({ from: state.from, to: state.right?.to ?? state.to }, status);
	const half = whole ? Math.max(1e9, (whole[1] - whole[0]) / 2) : 300e9;
	return sides(state, [at - half, at], [at, at + half]);
}

/** The same time of the day before against it. */
export function dayBefore(state: State, status: Status): Partial<State> {
	const whole = windowOf({ from: state.from, to: state.right?.to ?? state.to }, status);
	if (!whole) return {};
	return sides(state, [whole[0] - 86_400e9, whole[1] - 86_400e9], whole);
}

/** Two values of a label over the whole of the time. */
export function twoValues(state: State, label: string, one: string, other: string): Partial<State> {
	const { from, right } = state;
	const to = right?.to ?? state.to;
	const base = state.query;
	return {
		view: "diff", query: withMatcher(base, matcher(label, "=", one)), to, live: false, zoom: "",
		right: { type: state.type, query: withMatcher(base, matcher(label, "=", other)), from, to },
	};
}
