// keys.ts - the page's keys (parts/help.tsx lists them). Inputs keep theirs.

import { useEffect, useRef } from "preact/hooks";
import type { Status } from "./api";
import { frozenLink, swapped } from "./bar";
import { diffState, nowOf } from "./halves";
import { UNREPORTED } from "./parts/help";
import { copyText, say } from "./parts/said";
import { report } from "./report";
import { GRAPHS, steps, type Store, type ViewName } from "./state";
import { shifted, stepOf } from "./times";
import type { FrameId } from "./views/flame";

export interface KeyTargets {
	help(): void;
	theme(): void;
	selected: FrameId | null;
	status: Status | null;
}

const VIEW_KEYS: Record<string, ViewName> = { f: "flame", i: "icicle", v: "inverted", t: "time", h: "heat", r: "raw", o: "source" };
const COLOURS = ["type", "binary", "function"] as const;

/** The window by half its length; both sides of a diff by the same, that they keep their places to each other. */
function move(s: Store, by: -1 | 1, status: Status | null): void {
	const { from, to, right, view } = s.state;
	const now = BigInt(Math.round(status ? nowOf(status) : Date.now() * 1e6));
	const step = stepOf(from, to, now);
	const left = step && shifted(from, to, step * BigInt(by), now);
	const other = step && view === "diff" && right ? shifted(right.from, right.to, step * BigInt(by), now) : null;
	if (!left || (view === "diff" && right && !other)) return say(by > 0 && to === "now" ? "This window ends now: there is nothing behind it yet" : "This window can't be moved: its ends are no times");
	s.set({ ...left, ...(right && other ? { right: { ...right, ...other } } : {}), zoom: "", live: false });
}

/** The way past all that stands above it. */
export function focusPicture(): HTMLElement | null {
	const picture = document.querySelector<HTMLElement>(".graph, .chart-box, .heat-box, .raw .table, .source-lines, .functions .table") ?? document.querySelector<HTMLElement>(".top-pane .table");
	picture?.focus({ preventScroll: true });
	return picture;
}

function intoSearch(): boolean {
	const input = document.querySelector<HTMLInputElement>("#search");
	input?.focus();
	input?.select();
	return input !== null;
}

/** Beside the table alone the search comes with its graph; other views have none. */
function toSearch(s: Store): void {
	if (s.state.layout !== "table" || !GRAPHS.includes(s.state.view)) return say(`Frames are searched in graphs${s.state.view === "sandwich" ? ": choose a function first" : ": i, f, v and d show one"}`);
	s.set({ layout: "both" }, "replace");
	requestAnimationFrame(() => requestAnimationFrame(intoSearch));
}

/** Without a focus the picture has the arrow keys: they begin at its root. */
function intoPicture(event: KeyboardEvent): void {
	const picture = focusPicture();
	if (!picture) return;
	picture.dispatchEvent(new KeyboardEvent("keydown", { key: event.key, shiftKey: event.shiftKey, cancelable: true }));
}

export function useKeys(store: Store, targets: KeyTargets): void {
	const latest = useRef({ store, targets });
	latest.current = { store, targets };
	useEffect(() => {
		const press = (event: KeyboardEvent) => {
			const { store: s, targets: t } = latest.current;
			const { state } = s;
			/* Where no frames are drawn, finding is the browser's: its Ctrl-F searches what is text there. */
			if ((event.ctrlKey || event.metaKey) && event.key === "f") return void (intoSearch() && event.preventDefault());
			if (event.ctrlKey || event.metaKey || event.altKey) return;
			if (event.target instanceof HTMLElement && /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
			if (document.querySelector("dialog[open], .menu, .popup > .popup-body")) return;
			const { key } = event;
			if (report() && (UNREPORTED.includes(key) || (key === "d" && !report()!.parts.has("diff")))) return;
			if (key === "/") intoSearch() || toSearch(s);
			else if (key === "?") t.help();
			else if (key in VIEW_KEYS) s.set({ view: VIEW_KEYS[key], zoom: VIEW_KEYS[key] === "inverted" || state.view === "inverted" ? "" : state.zoom });
			else if (key === "s") s.set({ view: "sandwich", name: t.selected?.name ?? state.name, key: t.selected?.key ?? state.key, zoom: "" });
			else if (key === "d" && state.view === "diff") s.set({ pair: !state.pair }, "replace");
			else if (key === "d" && t.status) s.set(diffState(state, t.status));
			else if (key === "x" && state.right) s.set(swapped(state));
			else if ((key === "Backspace" || key === "Escape") && document.getElementById("window-back")) document.getElementById("window-back")!.click();
			else if (key === "Escape" && state.pick) s.set({ pick: "" }, "replace");
			else if (key === "Backspace") {
				if (steps() > 0) history.back();
				else if (state.zoom) s.set({ zoom: "" }, "replace");
				else if (state.root) s.set({ root: "" }, "replace");
				else if (state.transforms.length) s.set({ transforms: state.transforms.slice(0, -1) }, "replace");
			} else if (key === "[" || key === "]") {
				move(s, key === "[" ? -1 : 1, t.status);
			} else if (key === "l") s.set({ live: !state.live, ...(state.live ? {} : { from: "now-15m", to: "now" }) });
			else if (key === "g" || key === "G") [...document.querySelectorAll<HTMLElement>(".filter input")].at(key === "g" ? 0 : -1)?.focus();
			else if (key === "1" || key === "2" || key === "3") s.set({ layout: (["both", "graph", "table"] as const)[Number(key) - 1] }, "replace");
			else if (key === "c") s.set({ colour: COLOURS[(COLOURS.indexOf(state.colour) + 1) % 3] }, "replace");
			else if (key === "n" || key === "N") document.getElementById(key === "n" ? "match-next" : "match-before")?.click();
			else if ((/^Arrow/.test(key) || (/^(Enter|ContextMenu)$/.test(key) && document.querySelector(".graph"))) && event.target === document.body) intoPicture(event);
			else if (key === "y") void copyText(frozenLink(state), "the link of what is shown");
			else if (key === "Escape" && state.search) s.set({ search: "" }, "replace");
			else return;
			event.preventDefault();
		};
		addEventListener("keydown", press);
		return () => removeEventListener("keydown", press);
	}, []);
}
