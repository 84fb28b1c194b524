// ci.ts - a diff as the command that fails where a function became dearer: what the page shows, asked of the same store.

import type { Status } from "./api";
import type { State } from "./state";

const quoted = (word: string): string => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replace(/'/g, "'\\''")}'`);

/** Why there is no such command; "": there is one. */
export function noCommand(state: State, status: Status): string {
	const queries = [state.query, state.right?.query ?? ""];
	if (queries.some((q) => /upload\.id/.test(q))) return "The command line does not see files that were dropped here";
	if (status.store.kind === "files" && /^-$| and \d+ more$/.test(status.store.path)) return "The command line takes one named file for each side";
	return "";
}

/** Of a diff whose times are absolute. The left side is the base. */
export function ciCommand(state: State, status: Status): string {
	const right = state.right!;
	const words = ["flametap", "diff"];
	const flag = (name: string, value: string) => value && words.push(`--${name}`, quoted(value));
	const { kind, path } = status.store;
	if (kind !== "files") flag("db", path);
	flag("type", right.type || state.type);
	if (right.type && right.type !== state.type) flag("base-type", state.type);
	flag("base-from", state.from);
	flag("base-to", state.to);
	flag("from", right.from);
	flag("to", right.to);
	if (right.query !== state.query) flag("base-select", state.query || "{}");
	flag("select", right.query);
	flag("trace", state.trace);
	flag("span", state.span);
	if (state.by !== "function") flag("by", state.by);
	for (const x of state.transforms) {
		const at = x.indexOf(":");
		const [name, pattern] = at < 0 ? [x, "."] : [x.slice(0, at), x.slice(at + 1)];
		flag(name.replace(/_/g, "-"), pattern);
	}
	flag("fail-above", "5%");
	if (kind === "files") words.push(quoted(path), quoted(path));
	return words.join(" ");
}
