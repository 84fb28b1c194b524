// live.ts - what the program pushes (docs/api.md, "Live"): a window's state, then what comes into it and what leaves it.
// A page that nobody looks at closes its feed after a while; it begins anew when it is looked at.

import type { Coverage } from "./flame/tree";

const HIDDEN_MS = 30_000;

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
}

/** commit: something came; state: ask for the whole of `feed.state`; delta: `feed.state` is what it was with that. */
export type FeedEvent = { kind: "commit" } | { kind: "state" } | { kind: "delta"; delta: Delta };

export class Feed {
	state: LiveState | null = null;
	private listeners = new Set<(event: FeedEvent) => void>();
	private source: EventSource | null = null;
	private timer = 0;

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
	};

	private tell(event: FeedEvent): void {
		for (const listener of this.listeners) listener(event);
	}

	private open(): void {
		const query = this.params.toString();
		const source = new EventSource(`/api/v1/live${query ? `?${query}` : ""}`);
		this.source = source;
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
		});
	}
}
