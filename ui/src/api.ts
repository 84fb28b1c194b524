// api.ts - the program's answers (docs/api.md). A later question cancels the earlier one of the same kind.

import { useEffect, useRef, useState } from "preact/hooks";
import { decodeTree, type Tree } from "./flame/tree";
import { straight } from "./format";
import type { Failing } from "./live";
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

const AGAIN_MS = 10_000;

/** How long after a question that took so long it is asked again, where new samples come. */
export const againMs = (took: number): number => Math.max(AGAIN_MS, 100 * took);

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
	const response = await ask(path, params, { signal });
	return NAMED.includes(path) ? JSON.parse(straight(await response.text())) : response.json();
}

/** Their names are of functions, files and threads, and are only shown. */
const NAMED = ["top", "raw", "chart", "source"];

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

/** As the page's own expressions are. */
export const INSENSITIVE = "(?i)";

export async function askTree(path: string, params: URLSearchParams, signal?: AbortSignal): Promise<Tree> {
	const early = await earlyTree(path, params, true);
	if (early) return early;
	const tree = decodeTree(await (await ask(path, params, { signal })).arrayBuffer());
	tree.header.searched = report() ? (new URLSearchParams(report()!.state).get("search") ?? "") : params.get("search")?.replace(INSENSITIVE, "");
	return tree;
}

/** More than that no answer has that is asked for here. */
export const NODES_MOST = 200_000;
/** Nodes that a view has pixels for, in some fifty levels; without a word the program gives 16,384, and the rest as `other`. */
export const nodesFor = (pixels: number): number => (pixels > 800 ? 65_536 : 16_384);

/* The first graph is asked for before anything else is there: by what the URL says. What that leaves open, the program
 * fills in, and says so in its answer. */
let early: { path: string; params: URLSearchParams; tree: Promise<Tree | null> } | null = null;
const FILLED = ["type", "from", "to"] as const;

export function askEarly(path: string, params: URLSearchParams): void {
	const tree = ask(path, params, {}).then(async (response) => decodeTree(await response.arrayBuffer()));
	early = { path, params, tree: tree.catch(() => null) };
}

const EARLY_MS = 1000;

/** Once that graph is there, came to nothing or takes long: until then nothing else is to take the program's time. */
export async function afterEarly(): Promise<void> {
	if (early) await Promise.race([early.tree, new Promise((done) => setTimeout(done, EARLY_MS))]);
}

/** What is known once that graph is there, though the program has not said yet what else there is; null: no such graph. */
export async function earlyStatus(): Promise<Status | null> {
	const tree = await early?.tree;
	if (!tree?.header.type) return null;
	const { type: id, unit, from, to, asof } = tree.header;
	const type = { id, name: id.split(":")[0], unit, series: 0, first: from, last: to, gauge: false };
	return { version: "", now_ns: String(BigInt(Date.now()) * 1_000_000n), heard: performance.now(), from, to, asof, types: [type], store: { kind: "", path: "" } };
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
	/** performance.now() when it came; none: time stands still, as in a report. */
	heard?: number;
	from: string;
	to: string;
	asof: string;
	types: ProfileType[];
	store: { kind: string; path: string; failing?: Failing };
	agent?: { running: boolean; reason: string };
}

export type TopRow = [name: string, file: string, line: number, binary: string, type: string, self: number, total: number, self2: number, total2: number, key: string];

export interface Top {
	unit: string;
	total: number;
	total2?: number;
	partial: string;
	count: number;
	rows: TopRow[];
}

export interface Timeline {
	unit: string;
	gauge?: boolean; // values are levels
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
	asof: string;
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
