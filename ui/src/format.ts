// format.ts - numbers and times as people read them. Tabular digits come from the style sheet.

const SI = ["", "k", "M", "G", "T", "P"];

function scaled(value: number, base: number, units: string[]): string {
	let i = 0;
	let v = Math.abs(value);
	while (v >= base && i < units.length - 1) {
		v /= base;
		i++;
	}
	const digits = i === 0 && Number.isInteger(v) ? 0 : v < 10 ? 2 : v < 100 ? 1 : 0;
	return `${value < 0 ? "-" : ""}${v.toFixed(digits)}${units[i]}`;
}

const DURATIONS: [number, string][] = [
	[86_400e9, "d"],
	[3600e9, "h"],
	[60e9, "min"],
	[1e9, "s"],
	[1e6, "ms"],
	[1e3, "µs"],
	[1, "ns"],
];

export function duration(ns: number): string {
	if (ns === 0) return "0";
	for (const [size, unit] of DURATIONS) {
		const v = Math.abs(ns) / size;
		if (v >= 1) return `${ns < 0 ? "-" : ""}${v.toFixed(v < 10 ? 2 : v < 100 ? 1 : 0)} ${unit}`;
	}
	return `${ns.toFixed(2)} ns`;
}

/** A value with its unit: 1.23 s, 12.4 MB, 1,234. */
export function value(v: number, unit: string): string {
	switch (unit) {
		case "nanoseconds":
			return duration(v);
		case "microseconds":
			return duration(v * 1e3);
		case "milliseconds":
			return duration(v * 1e6);
		case "seconds":
			return duration(v * 1e9);
		case "bytes":
			return scaled(v, 1000, [" B", " kB", " MB", " GB", " TB", " PB"]);
		case "":
		case "count":
			return Math.abs(v) < 1e6 ? count(v) : scaled(v, 1000, SI);
		default:
			return `${scaled(v, 1000, SI)} ${unit}`;
	}
}

/** CPU time per second of covered time is what people call cores. */
export function rate(v: number, unit: string, seconds: number): string {
	if (!(seconds > 0)) return "";
	if (unit === "nanoseconds") return `${(v / 1e9 / seconds).toFixed(2)} cores`;
	return `${value(v / seconds, unit)}/s`;
}

export function count(v: number): string {
	return Number.isInteger(v) ? v.toLocaleString("en-US") : v.toLocaleString("en-US", { maximumFractionDigits: 1 });
}

export function bytes(n: number): string {
	return value(n, "bytes");
}

export function percent(part: number, whole: number): string {
	if (!(whole > 0)) return "0 %";
	const p = (100 * part) / whole;
	if (p > 0 && p < 0.005) return "<0.01 %";
	return `${p.toFixed(p >= 99.95 || p === 0 ? 0 : p < 10 ? 2 : 1)} %`;
}

/** The difference of two percentages. */
export function points(p: number): string {
	const size = Math.abs(p);
	if (size < 0.005) return "0";
	return `${p > 0 ? "+" : "−"}${size.toFixed(size < 10 ? 2 : 1)}`;
}

export function change(before: number, after: number): string {
	if (before === 0 && after === 0) return "0";
	if (before === 0) return "new";
	if (after === 0) return "gone";
	const p = (100 * (after - before)) / before;
	return `${p > 0 ? "+" : ""}${p.toFixed(Math.abs(p) < 10 ? 1 : 0)} %`;
}

const pad = (n: number, width = 2) => String(n).padStart(width, "0");

export function clock(ns: number): string {
	const d = new Date(ns / 1e6);
	return `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
}

/** With its milliseconds. */
export const exactClock = (ns: number): string => `${clock(ns)}.${pad(Math.floor(ns / 1e6) % 1000, 3)}`;

export function dateTime(ns: number): string {
	const d = new Date(ns / 1e6);
	return `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${clock(ns)}`;
}

/** A tick of a time axis, in seconds since 1970; `step`: from one to the next. */
export function tickTime(seconds: number, step: number): string {
	const d = new Date(seconds * 1000);
	const day = `${pad(d.getMonth() + 1)}-${pad(d.getDate())}`;
	const time = `${pad(d.getHours())}:${pad(d.getMinutes())}`;
	if (step >= 86_400) return day;
	if (d.getHours() === 0 && d.getMinutes() === 0 && d.getSeconds() === 0) return `${day} ${time}`;
	return step >= 60 ? time : `${time}:${step < 1 ? (d.getSeconds() + d.getMilliseconds() / 1000).toFixed(step < 0.1 ? 2 : 1).padStart(step < 0.1 ? 5 : 4, "0") : pad(d.getSeconds())}`;
}

/** What ends so is of a file that says how often, not when. */
export const timeless = (to: string): boolean => /^\d+$/.test(to) && Number(to) < 1e12;

/** "last 15 min" for relative times, both ends otherwise. */
export function range(from: string, to: string): string {
	if (timeless(to)) return "no times";
	const relative = /^now-(\d+)(s|m|h|d)$/.exec(from);
	if (relative && (to === "now" || to === "")) {
		const unit = { s: "s", m: "min", h: "h", d: "days" }[relative[2] as "s"];
		return `last ${relative[1]} ${unit}`;
	}
	const at = (t: string) => (/^\d{16,}$/.test(t) ? dateTime(Number(t)) : t);
	const [a, b] = [at(from), at(to)];
	return a.slice(0, 10) === b.slice(0, 10) ? `${a} – ${b.slice(11) || b}` : `${a} – ${b}`;
}

/* A name may hold signs that turn the text behind them around: they are shown as signs, and obeyed by nobody. */
const TURNING = /[\u202a-\u202e\u2066-\u2069]/g;
export const TURNED = "\ufffd";
export const straight = (text: string): string => text.replace(TURNING, TURNED);

/** Where the parts of a name begin, with their separators; not within brackets. */
function cutsOf(name: string): number[] {
	const cuts: number[] = [];
	let depth = 0;
	for (let i = 0; i < name.length; i++) {
		const c = name[i];
		if ("<([{".includes(c)) depth++;
		else if (")]}".includes(c) || (c === ">" && name[i - 1] !== "-")) depth = Math.max(0, depth - 1);
		if (depth > 0) continue;
		if (c === "/" || c === "#" || (c === "." && /^(?!so\b)[A-Za-z_<]{2}/.test(name.slice(i + 1, i + 4)))) cuts.push(i);
		else if (c === ":" && name[i + 1] === ":") cuts.push(i++);
	}
	return cuts;
}

/** With nothing in its brackets: `level7(…)`. */
function emptied(text: string): string {
	let out = "";
	let depth = 0;
	for (let i = 0; i < text.length; i++) {
		const c = text[i];
		if (")]}".includes(c) || (c === ">" && text[i - 1] !== "-")) depth = Math.max(0, depth - 1);
		if (depth === 0) out += c;
		if ("<([{".includes(c) && depth++ === 0 && !")>]}".includes(text[i + 1] ?? ")")) out += "…";
	}
	return out;
}

/**
 * A name shortened in its middle, by parts where it has some: `…::Engine<long>::level7`. The last part says what
 * a function does, the first where it lives: the middle goes first, and parameters before a part.
 */
export function shorten(name: string, width: number): string {
	if (name.length <= width) return name;
	if (width < 4) return "";
	const cuts = cutsOf(name);
	let k = cuts.length - 1;
	const last = name.slice(cuts[k] ?? 0);
	const short = emptied(last);
	const room = width - (k < 0 ? 0 : 1);
	let shown = [short, short.replace(/(?<=[^ ])[(<]…?[)>].*$/, "")].find((text) => text && text.length <= room);
	if (shown && shown.length + (k < 0 ? 0 : 1) < name.length) {
		for (; k > 0; k--) {
			const part = name.slice(cuts[k - 1], cuts[k]);
			const fitting = [part, emptied(part)].find((text) => text.length + shown!.length <= room);
			if (fitting === undefined) break;
			shown = fitting + shown;
		}
		const head = k > 0 ? null : emptied(name.slice(0, cuts[0] ?? 0));
		return head !== null && head.length + shown.length <= width ? head + shown : `…${shown}`;
	}
	if (width < 12) return `${name.slice(0, width - 1)}…`;
	const left = Math.ceil((width - 1) / 2);
	return `${name.slice(0, left)}…${name.slice(name.length - (width - 1 - left))}`;
}
