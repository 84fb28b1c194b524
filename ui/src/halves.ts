// halves.ts - the two sides of a diff: what they are at first, and the usual questions as presets.

import type { Status, Timeline } from "./api";
import { spanOf } from "./follow";
import { matcher, withMatcher } from "./selector";
import type { State } from "./state";

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

/** The window as two instants; null where it has none. */
export function windowOf(state: { from: string; to: string }, status: Status): [number, number] | null {
	const at = (text: string) => (text === "now" ? Number(status.now_ns) : spanOf(text) !== null ? Number(status.now_ns) - Number(spanOf(text)) : Number(text || NaN));
	const [from, to] = [at(state.from), at(state.to)];
	return Number.isFinite(from) && Number.isFinite(to) ? [from, to] : null;
}

const text = (ns: number) => String(Math.round(ns));

function sides(state: State, left: [number, number], right: [number, number]): Partial<State> {
	return {
		view: "diff", from: text(left[0]), to: text(left[1]), live: false, zoom: "",
		right: { type: state.type, query: state.query, from: text(right[0]), to: text(right[1]) },
	};
}

/** Entering diff: the window's first half against its second, unless there was a right side already. `seen`: by what was
 * measured, else by time. */
export function diffState(state: State, status: Status, bySeen = true): Partial<State> {
	if (state.right && state.view !== "diff") return { view: "diff" };
	const window = windowOf(state, status);
	if (!window) return { view: "diff", right: { type: state.type, query: state.query, from: state.from, to: state.to } };
	const type = status.types.find((t) => t.id === state.type);
	const begin = type && Number(type.first) > window[0] && Number(type.first) < window[1] ? type.first : /^\d+$/.test(state.from) ? state.from : text(window[0]);
	const end = /^\d+$/.test(state.to) ? state.to : text(window[1]); // as it was written: a double would cut the last sample off
	const from = Number(begin);
	const middle = text((bySeen && middleOfSeen(from, window[1])) || (from + window[1]) / 2);
	return { ...sides(state, window, window), from: begin, to: middle, right: { type: state.type, query: state.query, from: middle, to: end } };
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
