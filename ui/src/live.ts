// live.ts - what the program pushes (docs/api.md, "Live"): a window's state, then what comes into it and what leaves it.
// A page that nobody looks at closes its feed after a while; it begins anew when it is looked at.

import type { Coverage } from "./flame/tree";
import { count } from "./format";

const HIDDEN_MS = 30_000;
/** A feed that ended is not spoken of before it was tried again; one that was refused is asked for again after so long. */
const LOST_MS = 5000;
const REFUSED_MS = 10_000;
/** What came is drawn so often, or less where drawing takes long: for a tenth of the time at most. */
const SHOW_MS = 1000;
const SHOW_MOST_MS = 5000;

/** Milliseconds from one picture's begin to that of the next, by what the last took. */
export const pace = (took: number): number => Math.min(SHOW_MOST_MS, Math.max(SHOW_MS, 10 * took));

export interface LiveState {
	asof: string;
	from: bigint;
	stepNs: number;
}

export type LiveFrame = [name: string, file: string, line: number, binary: string, type: string, flags: number, key: string];
export const LIVE_INLINED = 1;
export const LIVE_GROUP = 2;

export interface Part {
	total: number;
	samples: number;
	stacks: number;
	seconds: number;
	frames: LiveFrame[];
	/** depth, frame (-1: the root or `other`), self of each node, a parent before its children */
	nodes: number[];
	timeline?: { start_ns: string; step_ns: number; series: { labels: Record<string, string>; values: number[] }[]; covered: number[] };
	/** Of the whole window, not only of the part. */
	coverage?: Coverage;
}

export interface Delta {
	asof: string;
	from: string;
	add: Part;
	drop?: Part;
	/** Of the whole window; now and then. */
	processes?: number;
}

/** commit: something came; state: ask for the whole of `feed.state`; delta: `feed.state` is what it was with that;
 * show: the picture may be drawn with the deltas that came, which it is not while nobody sees the page; lost: nothing comes
 * any more, or it does again. */
export type FeedEvent = { kind: "commit" } | { kind: "state" } | { kind: "delta"; delta: Delta } | { kind: "show" } | { kind: "lost"; lost: Lost | null };

/** Since when nothing comes (ms since 1970), and what is said to be the cause. */
export interface Lost {
	since: number;
	why: string;
}

/** The store takes nothing: since when, why, and how many requests it did not take (docs/api.md). */
export interface Failing {
	since_ns: string;
	error: string;
	refused: number;
}

/** Nothing comes then, though the program is there. */
export function lostTo(failing: Failing | undefined): Lost | null {
	if (!failing) return null;
	const { since_ns, error, refused } = failing;
	return { since: Number(since_ns) / 1e6, why: `the store takes nothing, ${error}${refused ? ` (${count(refused)} ${refused === 1 ? "request was" : "requests were"} refused)` : ""}` };
}

/** What the program says of a feed that it refuses. */
async function refusal(url: string): Promise<string> {
	const abort = new AbortController();
	try {
		const response = await fetch(url, { signal: abort.signal });
		if (response.ok) return "flametap ended the updates";
		const said = await response.json().catch(() => null);
		return said?.error?.what ?? `flametap answers ${response.status} ${response.statusText}`;
	} catch {
		return "flametap does not answer";
	} finally {
		abort.abort();
	}
}

export class Feed {
	state: LiveState | null = null;
	private listeners = new Set<(event: FeedEvent) => void>();
	private source: EventSource | null = null;
	private timer = 0;
	private fresh = false; // deltas came that are not shown
	private showing = 0;
	private next = 0; // when the next picture may be drawn
	private ended = 0; // since then nothing comes
	private doubting = 0;

	constructor(private params: URLSearchParams) {
		document.addEventListener("visibilitychange", this.look);
		if (!document.hidden) this.open();
	}

	on(listener: (event: FeedEvent) => void): () => void {
		this.listeners.add(listener);
		return () => this.listeners.delete(listener);
	}

	close(): void {
		document.removeEventListener("visibilitychange", this.look);
		this.shut();
	}

	private shut = () => {
		clearTimeout(this.doubting);
		this.doubting = 0;
		clearTimeout(this.showing);
		this.showing = 0;
		clearTimeout(this.timer);
		this.timer = 0;
		this.source?.close();
		this.source = null;
	};

	private look = () => {
		if (document.hidden) {
			if (this.timer === 0) this.timer = window.setTimeout(this.shut, HIDDEN_MS);
			return;
		}
		clearTimeout(this.timer);
		this.timer = 0;
		if (!this.source) this.open();
		this.soon();
	};

	private soon(): void {
		if (!this.fresh || this.showing !== 0 || document.hidden) return;
		this.showing = window.setTimeout(this.draw, Math.max(0, this.next - performance.now()));
	}

	private draw = () => {
		this.showing = 0;
		if (document.hidden) return; // look() comes back to it
		this.fresh = false;
		const began = performance.now();
		this.next = began + SHOW_MS;
		this.tell({ kind: "show" });
		/* Until it is on the screen. */
		requestAnimationFrame(() => setTimeout(() => (this.next = began + pace(performance.now() - began))));
	};

	private tell(event: FeedEvent): void {
		for (const listener of this.listeners) listener(event);
	}

	/** The browser tries again by itself, but where it was refused: then the cause is asked for, and the feed anew. */
	private failed = () => {
		const { source } = this;
		if (!this.ended) this.ended = Date.now();
		if (this.doubting === 0) this.doubting = window.setTimeout(() => void this.doubt(), source?.readyState === EventSource.CLOSED ? 0 : LOST_MS);
	};

	private doubt = async () => {
		const { source, ended } = this;
		const refused = source?.readyState === EventSource.CLOSED;
		const why = refused ? await refusal(this.url()) : "flametap does not answer";
		if (this.source !== source || this.ended !== ended || this.doubting === 0) return;
		this.tell({ kind: "lost", lost: { since: ended, why } });
		this.doubting = window.setTimeout(() => {
			this.doubting = 0;
			source?.close();
			this.open();
		}, REFUSED_MS);
	};

	private found = () => {
		if (!this.ended) return;
		this.ended = 0;
		clearTimeout(this.doubting);
		this.doubting = 0;
		this.tell({ kind: "lost", lost: null });
	};

	private url(): string {
		const query = this.params.toString();
		return `/api/v1/live${query ? `?${query}` : ""}`;
	}

	private open(): void {
		const source = new EventSource(this.url());
		this.source = source;
		source.addEventListener("open", this.found);
		source.addEventListener("error", this.failed);
		source.addEventListener("store", (event) => this.tell({ kind: "lost", lost: lostTo(JSON.parse((event as MessageEvent).data).failing) }));
		source.addEventListener("commit", () => this.tell({ kind: "commit" }));
		source.addEventListener("state", (event) => {
			const { asof, from, step_ns } = JSON.parse((event as MessageEvent).data);
			this.state = { asof, from: BigInt(from), stepNs: step_ns };
			this.tell({ kind: "state" });
		});
		source.addEventListener("delta", (event) => {
			const delta: Delta = JSON.parse((event as MessageEvent).data);
			if (!this.state) return;
			this.state = { ...this.state, asof: delta.asof, from: BigInt(delta.from) };
			this.tell({ kind: "delta", delta });
			this.fresh = true;
			this.soon();
		});
	}
}
