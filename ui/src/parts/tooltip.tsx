// tooltip.tsx - what is known of the frame under the pointer.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Tree } from "../flame/tree";
import { change, percent, rate, value } from "../format";

export function diffSentence(name: string, tree: Tree, node: number): string {
	const [a, b] = tree.header.total;
	const [s, s2] = tree.header.seconds;
	const before = tree.total[node];
	const after = tree.total2![node];
	const cores = tree.header.unit === "nanoseconds" && s > 0 && s2 > 0 ? `, ${after / s2 - before / s >= 0 ? "+" : ""}${((after / s2 - before / s) / 1e9).toFixed(2)} cores` : "";
	return `${name}: ${percent(before, a)} → ${percent(after, b)}${cores} (${change(a ? before / a : 0, b ? after / b : 0)})`;
}

export function Tooltip(props: { tree: Tree; node: number; x: number; y: number }) {
	const box = useRef<HTMLDivElement>(null);
	const [at, setAt] = useState({ x: props.x, y: props.y });
	const { tree, node } = props;
	useLayoutEffect(() => {
		const rect = box.current!.getBoundingClientRect();
		const x = props.x + 14 + rect.width > innerWidth ? props.x - rect.width - 10 : props.x + 14;
		const y = props.y + 18 + rect.height > innerHeight ? props.y - rect.height - 10 : props.y + 18;
		setAt({ x: Math.max(4, x), y: Math.max(4, y) });
	}, [props.x, props.y, node]);
	const h = tree.header;
	const total = h.total[0];
	const file = tree.file(node);
	const line = tree.line(node);
	return (
		<div ref={box} class="tooltip" role="tooltip" style={{ left: `${at.x}px`, top: `${at.y}px` }}>
			<div class="name">{tree.name(node)}</div>
			{node !== 0 && (
				<div class="where">
					{[tree.isGroup(node) ? "value of the label that is grouped by" : tree.type(node), tree.isInlined(node) ? "inlined" : "", file ? `${file}${line ? `:${line}` : ""}` : "", tree.binary(node)].filter(Boolean).join(" · ")}
				</div>
			)}
			{tree.total2 ? (
				<div>{diffSentence("share", tree, node)}</div>
			) : (
				<dl>
					<dt>total</dt>
					<dd>{value(tree.total[node], h.unit)}</dd>
					<dd>{percent(tree.total[node], total)}</dd>
					<dd>{rate(tree.total[node], h.unit, h.seconds[0])}</dd>
					<dt>self</dt>
					<dd>{value(tree.self[node], h.unit)}</dd>
					<dd>{percent(tree.self[node], total)}</dd>
					<dd />
				</dl>
			)}
			{tree.isOther(node) && <div class="where">frames too small to send: a click opens them</div>}
		</div>
	);
}
