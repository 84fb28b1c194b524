// selector.ts - selectors (src/query/select/selector.h) as text: matchers written so that any name and value survives, and
// what stands at the cursor of one that is being typed.

export type Operator = "=" | "!=" | "=~" | "!~";

/** A label's name: bare where that is read as it stands, else quoted. */
export function labelName(name: string): string {
	return /^[A-Za-z_][A-Za-z0-9_.\-/]*$/.test(name) ? name : quoted(name);
}

/** JSON's escapes are all among those that selectors know. */
export function quoted(text: string): string {
	return JSON.stringify(text);
}

export function matcher(name: string, operator: Operator, value: string): string {
	return `${labelName(name)}${operator}${quoted(value)}`;
}

/** Where the first of `wanted` stands outside of quotes, from `from` on; -1: nowhere. */
function outside(text: string, wanted: string, from = 0): number {
	for (let i = from; i < text.length; i++) {
		const c = text[i];
		if (c === '"' || c === "'" || c === "`") {
			for (i++; i < text.length && text[i] !== c; i++) if (text[i] === "\\" && c !== "`") i++;
		} else if (wanted.includes(c)) return i;
	}
	return -1;
}

/** The selector with one more matcher; a profile type before the brace stays. */
export function withMatcher(selector: string, added: string): string {
	const text = selector.trim();
	const open = outside(text, "{");
	const close = open < 0 ? -1 : outside(text, "}", open + 1);
	/* Without braces it is a profile type, or matchers alone. */
	const type = open >= 0 ? text.slice(0, open) : outside(text, "=!") < 0 ? text : "";
	const inner = (open >= 0 ? text.slice(open + 1, close < 0 ? undefined : close) : type ? "" : text).trim().replace(/,$/, "");
	return `${type.trim()}{${inner ? `${inner}, ` : ""}${added}}`;
}

/** A bare word, or a value without quotes: what was meant by it. */
export function meant(text: string): string[] {
	const bare = /^\s*\{?\s*([\w.:\-/]+)\s*(=~|!~|!=|=)\s*([^"'`{}=~,\s]+)\s*\}?\s*$/.exec(text);
	if (bare) return [matcher(bare[1], bare[2] as Operator, bare[3])];
	if (text === "" || text.includes(":") || outside(text, "=!{") >= 0 || /["'`]/.test(text)) return [];
	return [matcher("process.executable.name", "=", text), matcher("thread.name", "=", text), matcher("service.name", "=", text)];
}

export interface Cursor {
	/** What is being typed: a label's name, or a value of `name`. */
	kind: "name" | "value";
	name: string;
	/** Where it begins, its quote included. */
	from: number;
	typed: string;
}

const NAME = /[\w.:\-/\u0080-\uffff]/;

function unescape(raw: string): string {
	return raw.replace(/\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.?)/gs, (_, e: string) => {
		if (/^[ux]./.test(e)) return String.fromCharCode(parseInt(e.slice(1), 16));
		return { n: "\n", t: "\t", r: "\r", b: "\b", f: "\f", v: "\v", a: "\x07" }[e] ?? e;
	});
}

/** What stands at the cursor. */
export function cursorContext(text: string, at: number): Cursor {
	let stage: "name" | "operator" | "value" | "done" = "name";
	let name = "";
	for (let i = 0; i < at; ) {
		const c = text[i];
		if (c === '"' || c === "'" || c === "`") {
			let end = i + 1;
			while (end < at && text[end] !== c) end += text[end] === "\\" && c !== "`" ? 2 : 1;
			const raw = text.slice(i + 1, Math.min(end, at));
			const typed = c === "`" ? raw : unescape(raw);
			if (end >= at) return stage === "value" ? { kind: "value", name, from: i, typed } : { kind: "name", name: "", from: i, typed };
			if (stage === "name") [name, stage] = [typed, "operator"];
			else stage = "done";
			i = end + 1;
		} else if (c === "," || c === "{") {
			[name, stage] = ["", "name"];
			i++;
		} else if (stage === "operator" && /[=!~]/.test(c)) {
			i++;
			if (i >= at || !/[=~]/.test(text[i])) stage = "value";
		} else if (NAME.test(c)) {
			let end = i;
			while (end < at && NAME.test(text[end])) end++;
			const typed = text.slice(i, end);
			if (end >= at) return stage === "value" ? { kind: "value", name, from: i, typed } : { kind: "name", name: "", from: i, typed };
			if (stage === "name") [name, stage] = [typed, "operator"];
			i = end;
		} else i++;
	}
	return stage === "value" ? { kind: "value", name, from: at, typed: "" } : { kind: "name", name: "", from: at, typed: "" };
}

/** Where what stands at the cursor ends: it is replaced as a whole. */
export function cursorEnd(text: string, from: number, at: number): number {
	const c = text[from];
	if (from < at && (c === '"' || c === "'" || c === "`")) {
		let end = from + 1;
		while (end < text.length && text[end] !== c) end += text[end] === "\\" && c !== "`" ? 2 : 1;
		return Math.min(end + 1, text.length);
	}
	let end = at;
	while (end < text.length && NAME.test(text[end])) end++;
	return end;
}

/** Only the program (PCRE2) reads it: here it would be another expression, or none. */
export const ELSEWHERE = Symbol("the program reads it");

/** Classes, groups, escapes and quantifiers that are not JavaScript's, or mean something else there. */
function readElsewhere(pattern: string): boolean {
	if (/\\(?:[xo]\{|g)/.test(pattern) || pattern.match(/\\./gs)?.some((e) => "AaCEeGHhKNPpQRXZzv".includes(e[1]))) return true;
	const plain = pattern.replace(/\\./gs, "_");
	if (/\[[^\]]*\[:\^?\w+:\]|\[\^?\]/.test(plain)) return true;
	const outer = plain.replace(/\[[^\]]*\]/g, "_");
	return /\(\?(?!:|=|!|<[=!]|<[A-Za-z_])|\(\*[A-Z]|[*+?}]\+/.test(outer);
}

/** What is searched for; text: what is wrong with it. */
export function expression(search: string): RegExp | string | typeof ELSEWHERE {
	const pattern = search.replace(/^(\(\?i\))+/, ""); // as it is anyway
	if (readElsewhere(pattern)) return ELSEWHERE;
	try {
		return new RegExp(pattern, "i");
	} catch (cause) {
		return (cause as Error).message.split(": ").pop()!;
	}
}
