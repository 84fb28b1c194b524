// tooltip.tsx - what is known of the frame under the pointer.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Tree } from "../flame/tree";
import { change, percent, points, rate, shorten, value } from "../format";

const signed = (v: number, text: string) => (v > 0 ? `+${text}` : text);

/** "json.dumps: 8.40 % → 14.9 % of the CPU, +0.31 cores" */
export function diffSentence(tree: Tree, node: number): string {
	const { header, total } = tree;
	const [a, b] = header.total;
	const [s, s2] = header.seconds;
	const before = total[node];
	const after = tree.total2![node];
	const shares = change(a ? before / a : 0, b ? after / b : 0);
	const what = /cpu/.test(header.type) ? " of CPU" : "";
	const more = s > 0 && s2 > 0 ? after / s2 - before / s : 0;
	return `${shorten(tree.name(node), 60)}: ${percent(before, a)} → ${percent(after, b)}${what}${s > 0 && s2 > 0 ? `, ${signed(more, rate(more, header.unit, 1))}` : ""} (${shares})`;
}

/** A frame and what it costs, for who does not see the picture. */
export function frameSays(tree: Tree, node: number): string {
	if (tree.total2) return diffSentence(tree, node);
	const { unit, total } = tree.header;
	const part = (v: number) => `${value(v, unit)}, ${percent(v, total[0])}`;
	return `${tree.name(node)}: total ${part(tree.total[node])}; self ${part(tree.self[node])}`;
}

/** Both sides' numbers and their difference. */
function Sides(props: { tree: Tree; node: number }) {
	const { tree, node } = props;
	const { unit, total } = tree.header;
	const row = (name: string, before: number, after: number) => {
		const [p, p2] = [total[0] ? (100 * before) / total[0] : 0, total[1] ? (100 * after) / total[1] : 0];
		return (
			<>
				<dt>{name}</dt>
				<dd>
					{value(before, unit)} <span class="dim">{percent(before, total[0])}</span>
				</dd>
				<dd>
					{value(after, unit)} <span class="dim">{percent(after, total[1])}</span>
				</dd>
				<dd>{points(p2 - p)}</dd>
			</>
		);
	};
	return (
		<>
			<dl>
				<dt />
				<dd class="dim">before</dd>
				<dd class="dim">after</dd>
				<dd class="dim">points</dd>
				{row("total", tree.total[node], tree.total2![node])}
				{row("self", tree.self[node], tree.self2![node])}
			</dl>
			<div>{diffSentence(tree, node)}</div>
		</>
	);
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
				<Sides tree={tree} node={node} />
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
