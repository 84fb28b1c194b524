// follow.ts - live mode: the whole of a window is asked for once, then what comes and what leaves is added and taken
// away here, as the program pushes it (live.ts). Now and then, and when too much has gathered, the whole is asked for
// again: what was too small to be in it comes right then.

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, askJSON, askTree, type Answer, type Timeline, type Top, type TopRow } from "./api";
import { Forest } from "./flame/forest";
import type { Tree } from "./flame/tree";
import { Feed, LIVE_GROUP, type Delta, type FeedEvent, type LiveState, type Lost, type Part } from "./live";

const WHOLE_MS = 1_800_000;
const FULL_MS = 300_000; // between wholes that are asked for because too much has gathered
const AGAIN_MS = 10_000; // after a failure
const NODES_MOST = 300_000;
const NODES_ASKED = 16_384; // where the question does not say
const END = "7258118400000000000"; // 2200: the window's end is open

/** What is kept of one question. */
export interface Followed<T> {
	/** What is shown; made when it is asked for, not with each delta. */
	value(): T;
	apply(delta: Delta): void;
	/** So much has gathered that the whole is less. `ms`: how old the last whole is. */
	full?(ms: number): boolean;
}

export interface Follow<T> {
	ask(params: URLSearchParams, at: LiveState, signal: AbortSignal): Promise<T>;
	keep(whole: T, at: LiveState, params: URLSearchParams): Followed<T>;
}

/** The question about the window as it was then. */
export const windowOf = (params: URLSearchParams, at: LiveState) => {
	const p = new URLSearchParams(params);
	for (const [k, v] of Object.entries({ from: at.from, to: END, asof: at.asof })) p.set(k, String(v));
	return p;
};

/** A value that is made anew when it is asked for after something changed. */
function lazily<T, A>(first: T, make: (of: A) => T) {
	let last = first;
	let changed: { of: A } | null = null;
	return {
		stale: (of: A) => void (changed = { of }),
		last: () => last,
		value(): T {
			if (changed) last = make(changed.of);
			changed = null;
			return last;
		},
	};
}

export const followTree = (path: string, inverted: boolean): Follow<Tree> => ({
	ask: (params, at, signal) => askTree(path, windowOf(params, at), signal),
	keep(whole, _, params) {
		const forest = new Forest();
		const asked = Number(params.get("max_nodes")) || NODES_ASKED;
		let { samples, processes, coverage } = whole.header;
		let seconds = whole.header.seconds[0];
		forest.add(whole);
		const made = lazily(whole, (asof: string) => forest.tree({ ...whole.header, asof, seconds: [seconds], samples, processes, coverage }));
		return {
			value: made.value,
			apply({ asof, add, drop, processes: counted }) {
				forest.put(add, 1, inverted);
				if (drop) forest.put(drop, -1, inverted);
				seconds = Math.max(0, seconds + add.seconds - (drop?.seconds ?? 0));
				if (samples !== undefined) samples += add.samples - (drop?.samples ?? 0);
				coverage = add.coverage ?? coverage;
				processes = counted ?? processes;
				made.stale(asof);
			},
			/* The whole has as many nodes as were asked for, at most: twice as many are half of them too small to be drawn. */
			full: (ms) => made.last().count > (ms > FULL_MS ? Math.min(2 * asked, NODES_MOST) : NODES_MOST),
		};
	},
});

/** Self and total by frame: a stack counts once however deep it recurses. */
function tally(part: Part, each: (frame: number, self: number, total: number) => void): void {
	const { nodes } = part;
	const count = nodes.length / 3;
	const total = new Float64Array(count);
	const parent = new Int32Array(count).fill(-1);
	const open: number[] = []; // by depth
	for (let i = 0; i < count; i++) {
		const depth = nodes[i * 3];
		open[depth] = i;
		parent[i] = depth ? open[depth - 1] : -1;
		total[i] = nodes[i * 3 + 2];
	}
	for (let i = count - 1; i > 0; i--) if (parent[i] >= 0) total[parent[i]] += total[i];
	for (let i = 0; i < count; i++) {
		const frame = nodes[i * 3 + 1];
		if (frame < 0 || part.frames[frame][5] & LIVE_GROUP) continue;
		let again = false;
		for (let p = parent[i]; p >= 0 && !again; p = parent[p]) again = nodes[p * 3 + 1] === frame;
		each(frame, nodes[i * 3 + 2], again ? 0 : total[i]);
	}
}

export const followTop: Follow<Top> = {
	ask: (params, at, signal) => askJSON<Top>("top", windowOf(params, at), signal),
	keep(whole) {
		const rows = new Map(whole.rows.map((r) => [r[9], [...r] as TopRow]));
		/* The table may hold the heaviest alone. Of another function only what comes now would be known: it has a row
		 * with the next whole. */
		const beyond = whole.count - rows.size;
		let missed = false;
		const put = (part: Part, sign: 1 | -1) =>
			tally(part, (frame, self, total) => {
				const [name, file, line, binary, type, , key] = part.frames[frame];
				let row = rows.get(key);
				if (!row) {
					if (sign < 0) return;
					if (beyond > 0) {
						missed = true;
						return;
					}
					rows.set(key, (row = [name, file, line, binary, type, 0, 0, 0, 0, key]));
				}
				row[5] += sign * self;
				row[6] += sign * total;
			});
		let { total } = whole;
		const made = lazily(whole, () => ({ ...whole, total, count: beyond + rows.size, rows: [...rows.values()].map((r) => [...r] as TopRow) }));
		return {
			value: made.value,
			apply({ add, drop }) {
				put(add, 1);
				if (drop) put(drop, -1);
				for (const [key, row] of rows) if (row[6] <= 0) rows.delete(key);
				total += add.total - (drop?.total ?? 0);
				made.stale(null);
			},
			full: (ms) => missed && ms > FULL_MS,
		};
	},
};

/* ---- the timeline: buckets by their number since 1970 ---- */

const nameOf = (labels: Record<string, string>) => JSON.stringify(labels);
const SERIES_MOST = 20;

export const followTimeline: Follow<Timeline> = {
	ask(params, at, signal) {
		const step = BigInt(at.stepNs);
		const from = at.from - (at.from % step);
		const now = BigInt(Date.now()) * 1_000_000n;
		const to = now - (now % step) + step;
		const p = windowOf(params, at);
		for (const [k, v] of Object.entries({ from, to, width: (to - from) / step, group: p.get("timeline_group") ?? p.get("group") ?? "" })) p.set(k, String(v));
		p.delete("timeline_group");
		return askJSON<Timeline>("timeline", p, signal);
	},
	keep(whole, at) {
		const step = at.stepNs;
		const number = (ns: number) => Math.round(ns / step);
		const covered = new Set<number>();
		const series = new Map<string, { labels: Record<string, string>; values: Map<number, number> }>();
		/* As the program does: what has no place of its own goes into `other`. */
		const otherOf = (labels: Record<string, string>) => Object.fromEntries(Object.keys(labels).map((key) => [key, "other"]));
		const add = (part: NonNullable<Part["timeline"]>) => {
			const first = number(Number(part.start_ns));
			part.covered.forEach((c, i) => c && covered.add(first + i));
			for (const s of part.series) {
				const full = series.size >= SERIES_MOST && !series.has(nameOf(s.labels));
				const labels = full ? otherOf(s.labels) : s.labels;
				let to = series.get(nameOf(labels));
				if (!to) series.set(nameOf(labels), (to = { labels, values: new Map() }));
				s.values.forEach((v, i) => v && to!.values.set(first + i, (to!.values.get(first + i) ?? 0) + v));
			}
		};
		add({ ...whole, covered: whole.covered.map((c) => c ?? 0), series: whole.series.map((s) => ({ labels: s.labels, values: s.values.map((v) => v ?? 0) })) });
		let end = number(Number(whole.start_ns)) + whole.covered.length;
		const made = lazily(whole, (first: number) => {
			const all = Array.from({ length: end - first }, (_, i) => first + i);
			const shown = [...series.values()].filter((s, i) => i === 0 || s.values.size > 0);
			return {
				...whole,
				start_ns: String(first * step),
				step_ns: step,
				covered: all.map((at) => (covered.has(at) ? 1 : 0)),
				series: shown.map((s) => ({ labels: s.labels, values: all.map((at) => s.values.get(at) ?? (covered.has(at) ? 0 : null)) })),
			};
		});
		return {
			value: made.value,
			apply(delta) {
				if (delta.add.timeline) add(delta.add.timeline);
				const first = Math.floor(Number(delta.from) / step);
				end = Math.max(end, Math.floor((Date.now() * 1e6) / step) + 1);
				for (const at of covered) if (at < first) covered.delete(at);
				for (const s of series.values()) for (const at of s.values.keys()) if (at < first) s.values.delete(at);
				made.stale(first);
			},
		};
	},
};

/** One question: its whole, and what was pushed while that was on its way. */
export class Follower<T> {
	private kept: Followed<T> | null = null;
	private waiting: Delta[] | null = null; // not null: the whole was asked for
	private born = 0;
	private failed = 0;
	private abort = new AbortController();
	private off: () => void;

	constructor(
		private feed: Feed,
		private params: URLSearchParams,
		private how: Follow<T>,
		private show: (value: T | null, error: ApiError | null) => void,
	) {
		this.off = feed.on(this.take);
		if (feed.state) void this.whole();
	}

	stop(): void {
		this.off();
		this.abort.abort();
	}

	private take = (event: FeedEvent): void => {
		if (event.kind === "state") {
			this.kept = null; // no delta leads from there to here
			void this.whole();
		}
		if (event.kind === "show" && this.kept) this.show(this.kept.value(), null);
		if (event.kind !== "delta") return;
		/* What is shown goes on while another whole is on its way. */
		this.kept?.apply(event.delta);
		if (this.waiting) this.waiting.push(event.delta);
		else if (this.due()) void this.whole();
	};

	private due(): boolean {
		const now = Date.now();
		if (now - this.failed <= AGAIN_MS) return false;
		const age = now - this.born;
		return !this.kept || age > WHOLE_MS || (this.kept.full?.(age) ?? false);
	}

	private async whole(): Promise<void> {
		const at = this.feed.state!;
		this.abort.abort();
		const abort = (this.abort = new AbortController());
		this.waiting = [];
		try {
			const whole = await this.how.ask(this.params, at, abort.signal);
			if (abort.signal.aborted) return;
			const kept = this.how.keep(whole, at, this.params);
			for (const delta of this.waiting) kept.apply(delta);
			this.kept = kept;
			this.born = Date.now();
			this.show(kept.value(), null);
		} catch (cause) {
			if (abort.signal.aborted) return;
			this.failed = Date.now();
			if (!this.kept) this.show(null, cause instanceof ApiError ? cause : new ApiError(-1, String((cause as Error).message ?? cause), ""));
		}
		this.waiting = null;
	}
}

/** The answer about a window that moves. `feed` null: nothing is followed. */
export function useFollowed<T>(feed: Feed | null, params: URLSearchParams, how: Follow<T>): Answer<T> {
	const [answer, setAnswer] = useState<Answer<T>>({ value: null, error: null, loading: feed !== null });
	const latest = useRef(how);
	latest.current = how;
	const key = feed === null ? "" : params.toString();
	useEffect(() => {
		if (feed === null) return;
		setAnswer((old) => ({ ...old, loading: true }));
		const one = new Follower(feed, params, latest.current, (value, error) => setAnswer((old) => ({ value: value ?? old.value, error, loading: false })));
		return () => one.stop();
	}, [feed, key]);
	return answer;
}

/** One feed of these parameters; null: none. */
export function useFeed(params: URLSearchParams | null): Feed | null {
	const [feed, setFeed] = useState<Feed | null>(null);
	const key = params === null ? null : params.toString();
	useEffect(() => {
		if (params === null) {
			setFeed(null);
			return;
		}
		const one = new Feed(params);
		setFeed(one);
		return () => one.close();
	}, [key]);
	return key === null ? null : feed;
}

/** Null while what is new comes, or nothing is followed. */
export function useLost(feed: Feed | null): Lost | null {
	const [lost, setLost] = useState<{ feed: Feed; is: Lost | null } | null>(null);
	useEffect(() => feed?.on((event) => event.kind === "lost" && setLost({ feed, is: event.lost })), [feed]);
	return lost && lost.feed === feed ? lost.is : null;
}
