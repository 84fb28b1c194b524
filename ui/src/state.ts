// state.ts - everything a person can see is in the URL: the selection, the view, the transforms, the zoom. Back and
// forward work, and a copied URL shows the same picture.

import { useEffect, useState } from "preact/hooks";
import { report } from "./report";

export const VIEWS = ["icicle", "flame", "inverted", "sandwich", "diff", "time", "heat", "raw", "source"] as const;
export type ViewName = (typeof VIEWS)[number];

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
	group: string;
	transforms: string[];
	search: string;
	zoom: string; // path hash
	name: string; // function of sandwich and source
	key: string; // its key, as the program calls it
	right: Selection | null; // second side of a diff
	normalised: boolean;
	trace: string;
	span: string;
	asof: string;
	live: boolean;
}

const DEFAULTS: State = {
	type: "", query: "", from: "", to: "", view: "icicle", layout: "both", colour: "type", by: "function", group: "",
	transforms: [], search: "", zoom: "", name: "", key: "", right: null, normalised: false, trace: "", span: "", asof: "", live: false,
};

export function parseState(url: URL): State {
	const p = url.searchParams;
	const text = (key: string) => p.get(key) ?? "";
	const one = <T extends string>(key: string, of: readonly T[], otherwise: T) => (of.includes(text(key) as T) ? (text(key) as T) : otherwise);
	const state: State = {
		...DEFAULTS,
		type: text("type"), query: text("query"), from: text("from"), to: text("to"),
		view: one("view", VIEWS, "icicle"),
		layout: one("layout", ["both", "graph", "table"], "both"),
		colour: one("colour", ["type", "binary", "function"], "type"),
		by: text("by") || "function", group: text("group"), transforms: p.getAll("x"), search: text("search"), zoom: text("zoom"),
		name: text("name"), key: text("key"), normalised: p.has("norm"), trace: text("trace"), span: text("span"), asof: text("asof"), live: p.has("live"),
	};
	if (p.has("query2") || p.has("from2") || state.view === "diff")
		state.right = { type: text("type2") || state.type, query: p.get("query2") ?? state.query, from: text("from2") || state.from, to: text("to2") || state.to };
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
	put("group", s.group);
	for (const x of s.transforms) p.append("x", x);
	put("search", s.search);
	put("zoom", s.zoom);
	put("name", s.name);
	put("key", s.key);
	if (s.right) {
		put("type2", s.right.type, s.type);
		p.set("query2", s.right.query);
		put("from2", s.right.from, s.from);
		put("to2", s.right.to, s.to);
	}
	if (s.normalised) p.set("norm", "1");
	put("trace", s.trace);
	put("span", s.span);
	put("asof", s.asof);
	if (s.live) p.set("live", "1");
	const query = p.toString();
	return query === "" ? "/" : `/?${query}`;
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
	put("group", s.group);
	put("trace", s.trace);
	put("span", s.span);
	put("asof", s.asof);
	if (which === "both" && s.right) {
		put("type2", s.right.type || s.type);
		p.set("query2", s.right.query);
		put("from2", s.right.from);
		put("to2", s.right.to);
		if (s.normalised) p.set("norm", "1");
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
	if (how === "push") history.pushState(null, "", to);
	else history.replaceState(null, "", to);
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
			const next = { ...parseState(here()), ...change };
			go(stateURL(next), how);
			setState(next);
		},
	};
}

/** The moment after; times have 19 digits, more than a double holds. */
export const afterNs = (ns: string): string => String(BigInt(ns) + 1n);
