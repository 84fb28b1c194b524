// keys.ts - the page's keys (parts/help.tsx lists them). Inputs keep theirs.

import { useEffect, useRef } from "preact/hooks";
import type { Status } from "./api";
import { frozenLink, swapped } from "./bar";
import { diffState } from "./halves";
import { copyText } from "./parts/states";
import { report } from "./report";
import { steps, type Store, type ViewName } from "./state";
import type { FrameId } from "./views/flame";

export interface KeyTargets {
	help(): void;
	theme(): void;
	selected: FrameId | null;
	status: Status | null;
}

const VIEW_KEYS: Record<string, ViewName> = { f: "flame", i: "icicle", v: "inverted", t: "time", h: "heat", r: "raw", o: "source" };
const COLOURS = ["type", "binary", "function"] as const;

function shifted(from: string, to: string, by: number): { from: string; to: string } | null {
	const [a, b] = [Number(from), Number(to)];
	if (Number.isFinite(a) && Number.isFinite(b)) {
		const step = ((b - a) / 2) * by;
		return { from: String(Math.round(a + step)), to: String(Math.round(b + step)) };
	}
	const relative = /^now-(\d+)([smhd])$/.exec(from);
	if (!relative || by > 0) return null;
	const ns = Number(relative[1]) * { s: 1e9, m: 60e9, h: 3600e9, d: 86_400e9 }[relative[2] as "s"];
	const now = Date.now() * 1e6;
	return { from: String(Math.round(now - ns * 1.5)), to: String(Math.round(now - ns / 2)) };
}

/** Without a focus the picture has the arrow keys: they begin at its root. */
function intoPicture(event: KeyboardEvent): void {
	const picture = document.querySelector<HTMLElement>(".graph, .chart-box, .heat-box, .raw .table") ?? document.querySelector<HTMLElement>(".top-pane .table");
	if (!picture) return;
	picture.focus({ preventScroll: true });
	picture.dispatchEvent(new KeyboardEvent("keydown", { key: event.key, shiftKey: event.shiftKey, cancelable: true }));
}

export function useKeys(store: Store, targets: KeyTargets): void {
	const latest = useRef({ store, targets });
	latest.current = { store, targets };
	useEffect(() => {
		const press = (event: KeyboardEvent) => {
			const { store: s, targets: t } = latest.current;
			const { state } = s;
			const search = () => {
				const input = document.getElementById("search");
				if (!input) return false;
				event.preventDefault();
				input.focus();
				(input as HTMLInputElement).select();
				return true;
			};
			if ((event.ctrlKey || event.metaKey) && event.key === "f") return void search();
			if (event.ctrlKey || event.metaKey || event.altKey) return;
			if (event.target instanceof HTMLElement && /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
			if (document.querySelector("dialog[open], .menu")) return;
			const { key } = event;
			if (report() && (["[", "]", "l", "g", "x", "y", "o"].includes(key) || (key === "d" && !report()!.parts.has("diff")))) return;
			if (key === "/") search();
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
				const moved = shifted(state.from, state.to, key === "[" ? -1 : 1);
				if (moved) s.set({ ...moved, zoom: "", live: false });
			} else if (key === "l") s.set({ live: !state.live, ...(state.live ? {} : { from: "now-15m", to: "now" }) });
			else if (key === "g") document.getElementById("filter")?.focus();
			else if (key === "1" || key === "2" || key === "3") s.set({ layout: (["both", "graph", "table"] as const)[Number(key) - 1] }, "replace");
			else if (key === "c") s.set({ colour: COLOURS[(COLOURS.indexOf(state.colour) + 1) % 3] }, "replace");
			else if (key === "n" || key === "N") document.getElementById(key === "n" ? "match-next" : "match-before")?.click();
			else if (/^Arrow/.test(key) && event.target === document.body) intoPicture(event);
			else if (key === "y") void copyText(frozenLink(state));
			else if (key === "Escape" && state.search) s.set({ search: "" }, "replace");
			else return;
			event.preventDefault();
		};
		addEventListener("keydown", press);
		return () => removeEventListener("keydown", press);
	}, []);
}
