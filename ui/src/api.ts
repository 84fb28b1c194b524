// api.ts - the program's answers (docs/api.md). A later question cancels the earlier one of the same kind.

import { useEffect, useRef, useState } from "preact/hooks";
import { decodeTree, type Tree } from "./flame/tree";
import { report, reported } from "./report";

export class ApiError extends Error {
	constructor(readonly status: number, what: string, readonly hint: string) {
		super(what);
	}
}

let slowest = 0;

/** Milliseconds that the slowest question since the last call took. */
export function slowestAsk(): number {
	const ms = slowest;
	slowest = 0;
	return ms;
}

async function ask(path: string, params: URLSearchParams, options: RequestInit): Promise<Response> {
	const began = performance.now();
	if (report()) {
		const bytes = reported(path, params);
		if (bytes) return new Response(bytes);
		throw new ApiError(404, "That is not in this report", "It holds one selection, as it was when the report was made.");
	}
	const query = params.toString();
	let response: Response;
	try {
		response = await fetch(`/api/v1/${path}${query ? `?${query}` : ""}`, options);
	} catch (cause) {
		if (options.signal?.aborted) throw cause;
		throw new ApiError(0, "flametap does not answer", "Is it still running? The picture is the last one it gave.");
	}
	slowest = Math.max(slowest, performance.now() - began);
	if (response.ok) return response;
	let what = `${response.status} ${response.statusText}`;
	let hint = "";
	try {
		const body = await response.json();
		what = body.error.what;
		hint = body.error.hint ?? "";
	} catch {
		/* not ours: a proxy's page */
	}
	throw new ApiError(response.status, what, hint);
}

export async function askJSON<T>(path: string, params: URLSearchParams, signal?: AbortSignal): Promise<T> {
	return (await ask(path, params, { signal })).json();
}

export interface Upload {
	id: string;
	name: string;
	bytes: number;
	time: string;
	/** The selector that shows it. */
	query: string;
}

export async function sendFile(file: File): Promise<Upload> {
	return (await ask("upload", new URLSearchParams({ name: file.name }), { method: "POST", body: file })).json();
}

export async function askTree(path: string, params: URLSearchParams, signal?: AbortSignal): Promise<Tree> {
	return (await earlyTree(path, params, true)) ?? decodeTree(await (await ask(path, params, { signal })).arrayBuffer());
}

/* The first graph is asked for before anything else is there: by what the URL says. What that leaves open, the program
 * fills in, and says so in its answer. */
let early: { path: string; params: URLSearchParams; tree: Promise<Tree | null> } | null = null;
const FILLED = ["type", "from", "to"] as const;

export function askEarly(path: string, params: URLSearchParams): void {
	const tree = ask(path, params, {}).then(async (response) => decodeTree(await response.arrayBuffer()));
	early = { path, params, tree: tree.catch(() => null) };
}

/** The graph that was asked for early, once; null: none was, it was another, or it came to nothing. `exactly`: what the
 * program filled in is what these parameters say. */
export async function earlyTree(path: string, params: URLSearchParams, exactly: boolean): Promise<Tree | null> {
	const asked = early;
	early = null;
	if (!asked || asked.path !== path) return null;
	const open = FILLED.filter((key) => !asked.params.has(key));
	const [is, was] = [new URLSearchParams(params), new URLSearchParams(asked.params)];
	for (const key of open) is.delete(key);
	is.sort();
	was.sort();
	if (is.toString() !== was.toString()) return null;
	const tree = await asked.tree;
	return tree && exactly && open.some((key) => params.get(key) !== tree.header[key]) ? null : tree;
}

export interface ProfileType {
	id: string;
	name: string;
	unit: string;
	series: number;
	first: Instant;
	last: Instant;
	gauge: boolean;
}

/** Nanoseconds since 1970, as text: a double would round them. */
export type Instant = string;

export interface Status {
	version: string;
	now_ns: Instant;
	from: string;
	to: string;
	asof: string;
	types: ProfileType[];
	store: { kind: string; path: string };
	agent?: { running: boolean; reason: string };
}

export type TopRow = [name: string, file: string, line: number, binary: string, type: string, self: number, total: number, self2: number, total2: number, key: string];

export interface Top {
	unit: string;
	total: number;
	total2?: number;
	count: number;
	rows: TopRow[];
}

export interface Timeline {
	unit: string;
	start_ns: Instant;
	step_ns: number;
	series: { labels: Record<string, string>; values: (number | null)[] }[];
	covered: (number | null)[];
}

export interface Heatmap {
	unit: string;
	start_ns: Instant;
	column_ns: number;
	row_ns: number;
	columns: number;
	rows: number;
	max: number;
	counts: number[];
}

export interface Lane {
	host: string;
	container: string;
	pid: string;
	process: string;
	thread_id: string;
	thread: string;
	value: number;
	events: number;
	boxes: [depth: number, from: number, length: number, frame: number, busy: number][];
}

export interface Chart {
	unit: string;
	start_ns: Instant;
	length_ns: number;
	bin_ns: number;
	partial: string;
	lanes: Lane[];
	frames: [name: string, file: string, line: number, binary: string, type: string][];
	lanes_total: number;
}

export interface RawRow {
	time_ns: Instant;
	value: number;
	values: number[];
	timestamps: string[];
	stack: string[];
	attributes: Record<string, unknown>;
	resource: Record<string, unknown>;
	profile: Record<string, unknown>;
	link: { trace_id: string; span_id: string } | null;
}

export interface Raw {
	unit: string;
	rows: RawRow[];
	next: string;
}

export interface Source {
	file: string;
	unit: string;
	total: number;
	lines: [line: number, self: number, total: number][];
	/** Where the program may read sources: the file that was found and its lines from text_first on, or why there are none. */
	text_of?: string;
	text_first?: number;
	text?: string[];
	no_text?: string;
}

export interface Answer<T> {
	value: T | null;
	error: ApiError | null;
	/** A newer answer is under way; `value` is the old one, to be shown dimmed. */
	loading: boolean;
}

/** Asks whenever `key` changes; null asks nothing. Keeps the old answer until the new one is there. */
export function useAnswer<T>(key: string | null, load: (signal: AbortSignal) => Promise<T>): Answer<T> {
	const [answer, setAnswer] = useState<{ key: string | null; value: T | null; error: ApiError | null }>({ key: null, value: null, error: null });
	const latest = useRef(load);
	latest.current = load;
	useEffect(() => {
		if (key === null) return;
		const abort = new AbortController();
		latest.current(abort.signal).then(
			(value) => abort.signal.aborted || setAnswer({ key, value, error: null }),
			(error) => {
				if (abort.signal.aborted) return;
				setAnswer((old) => ({ key, value: old.value, error: error instanceof ApiError ? error : new ApiError(-1, String(error.message ?? error), "") }));
			},
		);
		return () => abort.abort();
	}, [key]);
	return { value: answer.value, error: answer.error, loading: key !== null && answer.key !== key };
}
