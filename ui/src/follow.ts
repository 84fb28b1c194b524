// follow.ts - live mode: what a window of time shows is kept, and with each commit only what came since is asked for and
// added, and what left the window is asked for and taken away, a slice of ten seconds at a time. The program's work
// follows new samples, not the window. Every few minutes the whole is asked for again: what was too small to be sent
// in parts comes right then.

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, askJSON, askTree, type Answer, type Timeline, type Top } from "./api";
import { Forest } from "./flame/forest";
import type { Tree } from "./flame/tree";

const SLICE_NS = 10_000_000_000n;
const WHOLE_MS = 300_000;
/** Late samples are in the timeline when they are at most so late. */
const LATE_NS = 60_000_000_000n;
const END = "7258118400000000000"; // 2200: the window's end is open

export interface Window {
	from: bigint;
	to: string;
}

/** What is kept of one question; `value` is what is shown. */
export interface Followed<T> {
	value: T;
	add(part: T, sign: 1 | -1): void;
}

/** Asks one question of a window, then only its changes. */
export interface Follow<T> {
	ask(params: URLSearchParams, signal: AbortSignal): Promise<T>;
	keep(whole: T): Followed<T>;
}

export const followTree = (path: string): Follow<Tree> => ({
	ask: (params, signal) => askTree(path, params, signal),
	keep(whole) {
		const forest = new Forest();
		const seconds = [...whole.header.seconds];
		forest.add(whole, 1);
		return {
			value: whole,
			add(part, sign) {
				forest.add(part, sign);
				seconds[0] = Math.max(0, seconds[0] + sign * part.header.seconds[0]);
				this.value = forest.tree({ ...this.value.header, ...(sign > 0 ? { asof: part.header.asof, to: part.header.to } : {}), seconds: [...seconds] });
			},
		};
	},
});

export const followTop: Follow<Top> = {
	ask: (params, signal) => askJSON<Top>("top", params, signal),
	keep(whole) {
		const rows = new Map(whole.rows.map((r) => [r[9], [...r] as Top["rows"][number]]));
		return {
			value: whole,
			add(part, sign) {
				for (const r of part.rows) {
					const old = rows.get(r[9]);
					const next = (old ? [...old] : [...r.slice(0, 5), 0, 0, 0, 0, r[9]]) as Top["rows"][number];
					next[5] += sign * r[5];
					next[6] += sign * r[6];
					if (next[6] > 0) rows.set(r[9], next);
					else rows.delete(r[9]);
				}
				this.value = { ...this.value, total: this.value.total + sign * part.total, count: rows.size, rows: [...rows.values()] };
			},
		};
	},
};

/** The first moment of a window that is a whole number of slices. */
export function sliceFrom(nowNs: bigint, spanNs: bigint): bigint {
	const from = nowNs - spanNs;
	return from - (from % SLICE_NS);
}

/** "now-15m" in nanoseconds; null: no window that moves. */
export function spanOf(from: string): bigint | null {
	const m = /^now-(\d+)([smhd])$/.exec(from);
	return m ? BigInt(m[1]) * { s: 1n, m: 60n, h: 3600n, d: 86_400n }[m[2] as "s"] * 1_000_000_000n : null;
}

class Follower<T> {
	private held: { kept: Followed<T>; asof: string; from: bigint; born: number } | null = null;
	private wanted = "";
	private busy = false;
	private abort = new AbortController();

	constructor(
		private params: URLSearchParams,
		private span: bigint,
		private how: Follow<T>,
		private show: (value: T | null, error: ApiError | null) => void,
	) {}

	poke(asof: string): void {
		this.wanted = asof;
		if (!this.busy) void this.run();
	}

	stop(): void {
		this.abort.abort();
	}

	private ask(more: Record<string, string>): Promise<T> {
		const params = new URLSearchParams(this.params);
		for (const [k, v] of Object.entries(more)) params.set(k, v);
		return this.how.ask(params, this.abort.signal);
	}

	private async step(asof: string): Promise<void> {
		const from = sliceFrom(BigInt(Date.now()) * 1_000_000n, this.span);
		const h = this.held;
		if (!h || Date.now() - h.born > WHOLE_MS || from < h.from) {
			const whole = await this.ask({ from: String(from), to: END, asof });
			this.held = { kept: this.how.keep(whole), asof, from, born: Date.now() };
			return;
		}
		const added = await this.ask({ from: String(h.from), to: END, since: h.asof, asof });
		const left = from > h.from ? await this.ask({ from: String(h.from), to: String(from), asof }) : null;
		h.kept.add(added, 1); // both are there: the picture is never half of the way
		if (left) h.kept.add(left, -1);
		h.asof = asof;
		h.from = from;
	}

	private async run(): Promise<void> {
		this.busy = true;
		for (let asof = ""; asof !== this.wanted && !this.abort.signal.aborted; ) {
			asof = this.wanted;
			try {
				await this.step(asof);
				if (!this.abort.signal.aborted) this.show(this.held!.kept.value, null);
			} catch (cause) {
				if (this.abort.signal.aborted) break;
				this.held = null; // from the beginning with the next commit
				this.show(null, cause instanceof ApiError ? cause : new ApiError(-1, String((cause as Error).message ?? cause), ""));
			}
		}
		this.busy = false;
	}
}

/** The answer about a window that moves. `span` null: nothing is followed. */
export function useFollowed<T>(span: bigint | null, params: URLSearchParams, asof: string, how: Follow<T>): Answer<T> {
	const [answer, setAnswer] = useState<Answer<T>>({ value: null, error: null, loading: span !== null });
	const follower = useRef<Follower<T> | null>(null);
	const key = span === null ? "" : `${span} ${params}`;
	useEffect(() => {
		if (span === null) return;
		setAnswer((old) => ({ ...old, loading: true }));
		const one = new Follower(params, span, how, (value, error) => setAnswer((old) => ({ value: value ?? old.value, error, loading: false })));
		follower.current = one;
		if (asof) one.poke(asof);
		return () => one.stop();
	}, [key]);
	useEffect(() => {
		if (span !== null && asof) follower.current?.poke(asof);
	}, [asof, key]);
	return answer;
}

/* ---- the timeline: buckets are asked for again while late samples may come into them ---- */

const align = (ns: bigint, step: bigint) => ns - (ns % step);

/** The old buckets before the new ones, moved to where the window begins now. */
export function joinTimelines(old: Timeline, part: Timeline, from: number, buckets: number): Timeline {
	const step = old.step_ns;
	const shift = Math.round((from - old.start_ns) / step);
	const first = Math.round((part.start_ns - from) / step);
	const name = (s: Timeline["series"][number]) => JSON.stringify(s.labels);
	const parts = new Map(part.series.map((s) => [name(s), s]));
	const all = new Map([...old.series, ...part.series].map((s) => [name(s), s.labels]));
	const olds = new Map(old.series.map((s) => [name(s), s]));
	const join = (a: (number | null)[] | undefined, b: (number | null)[] | undefined, none: number | null) =>
		Array.from({ length: buckets }, (_, i) => (i >= first && i < first + part.covered.length ? b?.[i - first] : i < first ? a?.[i + shift] : none) ?? none);
	const series = [...all].map(([key, labels]) => ({ labels, values: join(olds.get(key)?.values, parts.get(key)?.values, null) }));
	return { ...part, start_ns: from, step_ns: step, covered: join(old.covered, part.covered, 0), series: series.filter((s, i) => i === 0 || s.values.some((v) => v)) };
}

export function useFollowedTimeline(span: bigint | null, params: URLSearchParams, asof: string): Answer<Timeline> {
	const [answer, setAnswer] = useState<Answer<Timeline>>({ value: null, error: null, loading: span !== null });
	const held = useRef<{ key: string; value: Timeline; born: number } | null>(null);
	const busy = useRef(false);
	const key = span === null ? "" : `${span} ${params}`;
	useEffect(() => {
		if (span === null || !asof || busy.current) return;
		const step = span / 300n > 1_000_000_000n ? align(span / 300n, 1_000_000_000n) : 1_000_000_000n;
		const now = align(BigInt(Date.now()) * 1_000_000n, step) + step;
		const begin = align(now - span, step);
		const h = held.current?.key === key && Date.now() - held.current.born < WHOLE_MS ? held.current : null;
		const from = h && now - LATE_NS > begin ? align(now - LATE_NS, step) : begin;
		const ask = new URLSearchParams(params);
		for (const [k, v] of Object.entries({ from, to: now, width: (now - from) / step })) ask.set(k, String(v));
		busy.current = true;
		askJSON<Timeline>("timeline", ask)
			.then(
				(part) => {
					const value = h ? joinTimelines(h.value, part, Number(begin), Number((now - begin) / step)) : part;
					held.current = { key, value, born: h?.born ?? Date.now() };
					setAnswer({ value, error: null, loading: false });
				},
				(error) => setAnswer((old) => ({ ...old, error: error instanceof ApiError ? error : new ApiError(-1, String(error.message ?? error), ""), loading: false })),
			)
			.finally(() => (busy.current = false));
	}, [key, asof]);
	return answer;
}
