// state.ts - everything a person can see is in the URL: the selection, the view, the transforms, the zoom. Back and
// forward work, and a copied URL shows the same picture.

import { useEffect, useState } from "preact/hooks";
import { report } from "./report";
import { digits } from "./times";

export const VIEWS = ["icicle", "flame", "inverted", "sandwich", "diff", "time", "heat", "raw", "source"] as const;
export type ViewName = (typeof VIEWS)[number];

/** Those that are one tree, searched by its frames. */
export const GRAPHS: readonly ViewName[] = ["icicle", "flame", "inverted", "diff"];

export interface Selection {
	type: string;
	query: string;
	from: string;
	to: string;
}

export interface State extends Selection {
	view: ViewName;
	layout: "both" | "graph" | "table";
	colour: "type" | "binary" | "function";
	by: string;
	/** The label whose values are the first frames; null: processes, where the view has room for that. */
	group: string | null;
	transforms: string[];
	search: string;
	zoom: string; // path hash
	/** A part that is shown alone, with what was too small beside others: keys of frames from the root; EVERYTHING: all is. */
	root: string;
	name: string; // function of sandwich and source
	key: string; // its key, as the program calls it
	right: Selection | null; // second side of a diff
	/** Of a diff: the selection that it took apart, as the query of a URL; "": nobody knows. */
	whole: string;
	/** Of a diff: the moment that parts it, where that was found by what was measured; "": a person chose. */
	split: string;
	/** The diff that was left last, as the query of a URL. */
	sides: string;
	/** Of a diff: as shares, each side being a whole of its own; else true to scale. */
	normalised: boolean;
	/** Of a diff: two graphs side by side, not one of their difference. */
	pair: boolean;
	trace: string;
	span: string;
	asof: string;
	live: boolean;
	/** A burst that was chosen along time: its first nanosecond and the one behind it, "from..to". */
	pick: string;
	/** What the table is sorted by; "": as is usual for the view. */
	sort: string;
	/** Of the flame chart: how many lanes, behind how many that are busier, as "lanes.skip"; "": the busiest. */
	lanes: string;
	/** Lanes of the flame chart that are opened (lanes.ts says which). */
	open: string[];
	/** Raw samples from the oldest on, not from the newest back. */
	oldest: boolean;
}

const DEFAULTS: State = {
	type: "", query: "", from: "", to: "", view: "icicle", layout: "both", colour: "type", by: "function", group: null,
	transforms: [], search: "", zoom: "", root: "", name: "", key: "", right: null, whole: "", split: "", sides: "", normalised: false, pair: false, trace: "", span: "", asof: "", live: false, pick: "", sort: "", lanes: "", open: [], oldest: false,
};

export function parseState(url: URL): State {
	const p = url.searchParams;
	const text = (key: string) => p.get(key) ?? "";
	const one = <T extends string>(key: string, of: readonly T[], otherwise: T) => (of.includes(text(key) as T) ? (text(key) as T) : otherwise);
	const time = (key: string) => digits(text(key));
	const state: State = {
		...DEFAULTS,
		type: text("type"), query: text("query"), from: time("from"), to: time("to"),
		view: one("view", VIEWS, "icicle"),
		layout: one("layout", ["both", "graph", "table"], "both"),
		colour: one("colour", ["type", "binary", "function"], "type"),
		by: text("by") || "function", group: p.get("group"), transforms: p.getAll("x"), search: text("search"), zoom: text("zoom"), root: text("root"),
		name: text("name"), key: text("key"), whole: text("whole"), split: text("split"), sides: text("sides"), normalised: p.has("norm"), pair: p.has("pair"), trace: text("trace"), span: text("span"), asof: text("asof"), live: p.has("live"), pick: text("pick"), sort: text("sort"), lanes: text("lanes"), open: p.getAll("open"), oldest: p.has("oldest"),
	};
	if (p.has("query2") || p.has("from2"))
		state.right = { type: text("type2") || state.type, query: p.get("query2") ?? state.query, from: time("from2") || state.from, to: time("to2") || state.to };
	/* As it came: what is no id is refused by the program, not passed over. */
	const span = /^\/span\/([^/]+)\/([^/]+)\/?$/.exec(url.pathname);
	if (span) [, state.trace, state.span] = span;
	return state;
}

export function stateURL(s: State): string {
	const p = new URLSearchParams();
	const put = (key: string, v: string, otherwise = "") => v !== otherwise && p.set(key, v);
	put("type", s.type);
	put("query", s.query);
	put("from", s.from);
	put("to", s.to);
	put("view", s.view, "icicle");
	put("layout", s.layout, "both");
	put("colour", s.colour, "type");
	put("by", s.by, "function");
	if (s.group !== null) p.set("group", s.group);
	for (const x of s.transforms) p.append("x", x);
	put("search", s.search);
	put("zoom", s.zoom);
	put("root", s.root);
	put("name", s.name);
	put("key", s.key);
	if (s.right) {
		put("type2", s.right.type, s.type);
		p.set("query2", s.right.query);
		put("from2", s.right.from, s.from);
		put("to2", s.right.to, s.to);
	}
	put("whole", s.whole);
	put("split", s.split);
	put("sides", s.sides);
	if (s.normalised) p.set("norm", "1");
	if (s.pair) p.set("pair", "1");
	put("trace", s.trace);
	put("span", s.span);
	put("asof", s.asof);
	if (s.live) p.set("live", "1");
	put("pick", s.pick);
	put("sort", s.sort);
	put("lanes", s.lanes);
	for (const lane of s.open) p.append("open", lane);
	if (s.oldest) p.set("oldest", "1");
	const query = p.toString();
	return query === "" ? "/" : `/?${query}`;
}

/** A part of the state as the query of a URL, and back. */
export const packed = (part: Partial<State>): string => stateURL({ ...DEFAULTS, ...part }).slice(2);
export const unpacked = (query: string): State => parseState(new URL(`/?${query}`, "http://state"));

/** What tells processes apart. */
export const PROCESS = "process.executable.name";

/** The label to group by. Whose code it is stands above all: but not over leaves and callers, which are looked at across processes. */
export function groupOf(s: State): string {
	return s.group ?? (s.view === "inverted" || s.view === "sandwich" ? "" : PROCESS);
}

/** What the program is asked with: only what changes the answer. */
export function selectionParams(s: State, which: "left" | "both" = "left"): URLSearchParams {
	const p = new URLSearchParams();
	const put = (key: string, v: string) => v !== "" && p.set(key, v);
	put("type", s.type);
	put("query", s.query);
	put("from", s.from);
	put("to", s.to);
	for (const x of s.transforms) p.append("x", x);
	if (s.by !== "function") p.set("by", s.by);
	put("group", groupOf(s));
	put("trace", s.trace);
	put("span", s.span);
	put("asof", s.asof);
	if (which === "both" && s.right) {
		put("type2", s.right.type || s.type);
		p.set("query2", s.right.query);
		put("from2", s.right.from);
		put("to2", s.right.to);
	}
	return p;
}

/** Where the state stands: the URL, or, in a report, what stands behind its #. */
function here(): URL {
	const r = report();
	if (!r) return new URL(location.href);
	return new URL(`/?${location.hash.length > 1 ? location.hash.slice(1) : r.state}`, "http://report");
}

function go(url: string, how: "push" | "replace"): void {
	const at = here();
	if (url === at.pathname + at.search) return;
	const to = report() ? `#${url.slice(2)}` : url;
	const depth = steps();
	if (how === "push") history.pushState({ depth: depth + 1 }, "", to);
	else history.replaceState({ depth }, "", to);
}

/** How many steps of this page Back can undo before it leaves it. */
export function steps(): number {
	return Number((history.state as { depth?: number } | null)?.depth) || 0;
}

/** All is shown, however small. */
export const EVERYTHING = "*";

/* A part is one of the tree that it was opened in: of another selection's, or of leaves, there may be none. */
const OTHER_TREE: (keyof State)[] = ["type", "query", "by", "group", "transforms", "trace", "span"];
const UPRIGHT: ViewName[] = ["icicle", "flame"];

function rootAfter(old: State, change: Partial<State>): string {
	const turned = change.view !== undefined && change.view !== old.view && !(UPRIGHT.includes(change.view) && UPRIGHT.includes(old.view));
	return change.root ?? (turned || OTHER_TREE.some((key) => key in change) ? "" : old.root);
}

/** A diff is sorted by other numbers. */
function sortAfter(old: State, change: Partial<State>): string {
	const turned = change.view !== undefined && (change.view === "diff") !== (old.view === "diff");
	return change.sort ?? (turned ? "" : old.sort);
}

/* It was of this selection: of another, a diff has other sides. */
const OTHER_SIDES: (keyof State)[] = ["type", "query", "from", "to"];

function sidesAfter(old: State, change: Partial<State>): string {
	return change.sides ?? (OTHER_SIDES.some((key) => key in change && change[key] !== old[key]) ? "" : old.sides);
}

/** So many threads are before it in this selection: another may have fewer. */
function lanesAfter(old: State, change: Partial<State>): string {
	return change.lanes ?? ("type" in change || "query" in change || "transforms" in change ? "" : old.lanes);
}

export interface Store {
	state: State;
	/** Changes the URL: a step that Back undoes, unless it replaces. */
	set(change: Partial<State>, how?: "push" | "replace"): void;
}

export function useStore(): Store {
	const [state, setState] = useState(() => parseState(here()));
	useEffect(() => {
		const back = () => setState(parseState(here()));
		addEventListener("popstate", back);
		return () => removeEventListener("popstate", back);
	}, []);
	return {
		state,
		set(change, how = "push") {
			const old = parseState(here());
			const next = { ...old, ...change, root: rootAfter(old, change), sort: sortAfter(old, change), sides: sidesAfter(old, change), lanes: lanesAfter(old, change) };
			go(stateURL(next), how);
			setState(next);
		},
	};
}

/** The moment after; times have 19 digits, more than a double holds. */
export const afterNs = (ns: string): string => String(BigInt(ns) + 1n);
