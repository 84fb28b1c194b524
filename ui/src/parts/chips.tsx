// chips.tsx - the transforms in force, in their order; each can be taken away, Backspace takes the last.

import { TURNED } from "../format";
import { report } from "../report";

const WORDS: Record<string, string> = {
	focus: "only stacks with", ignore: "without stacks with", hide: "hide", show_from: "from", collapse: "collapse", recursion: "recursion once",
};

/** What a function's name begins with that others share: its namespace, package or class; "" where there is none. */
export function namespaceOf(name: string): string {
	return /^(?:.*\/)?[A-Za-z_]\w*(?:::|\.)/.exec(name)?.[0] ?? "";
}

export function escaped(text: string): string {
	return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replaceAll(TURNED, ".{1,3}");
}

export function transformText(x: string): string {
	const at = x.indexOf(":");
	const [kind, rest] = at < 0 ? [x, ""] : [x.slice(0, at), x.slice(at + 1)];
	return `${WORDS[kind] ?? kind} ${rest}`;
}

/** A name as a pattern that finds only it. */
export function exactly(name: string): string {
	return `^${escaped(name)}$`;
}

export function Chips(props: { transforms: string[]; onRemove(index: number): void }) {
	if (props.transforms.length === 0) return null;
	return (
		<section aria-label="Transforms">
			<ul class="chips">
				{props.transforms.map((x, i) => (
					<li key={`${i}${x}`}>
						<span>{transformText(x)}</span>
						{!report() && <button type="button" class="quiet" aria-label={`Remove: ${transformText(x)}`} onClick={() => props.onRemove(i)}>
							✕
						</button>}
					</li>
				))}
			</ul>
		</section>
	);
}
