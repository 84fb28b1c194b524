// pair.tsx - the two sides of a diff, each its own flame graph: a frame that is hovered, chosen or zoomed to in one is that in
// both. Both are cut from the diff's one tree, so that a node has the same number on either side.

import { useMemo, useState } from "preact/hooks";
import { Graph, GraphLink, matches, type GraphProps } from "../flame/graph";
import type { Tree } from "../flame/tree";
import { useZoomed } from "../flame/window";
import { change, percent, rate, value } from "../format";

const NAMES = ["before", "after"] as const;
const LISTED = 50;

interface Props extends GraphProps {
	/** Each side as a whole of its own; else both to one scale. */
	shares: boolean;
	hovered: number;
	found: Uint8Array | null;
}

/** What the zoomed frame costs on this side, and what a search finds of it. */
function Caption(props: { name: string; tree: Tree; zoomed: number; search: string; found: Uint8Array | null }) {
	const { tree, zoomed, found } = props;
	const { unit, total, seconds } = tree.header;
	const drawn = useMemo(() => (found ? matches(tree, found).value : 0), [tree, found]);
	const { matched, searched } = tree.header;
	const share = matched && searched === props.search ? matched[0] : drawn;
	const v = tree.total[zoomed];
	return (
		<figcaption>
			<b>{props.name}</b> <span class="number">{value(v, unit)}{/cpu/.test(tree.header.type) && unit === "nanoseconds" ? " of CPU time" : ""}</span> <span class="dim number">{[rate(v, unit, seconds[0]), zoomed ? percent(v, total[0]) : ""].filter(Boolean).join(" · ")}</span>
			{zoomed > 0 && v === 0 && <span class="dim"> not on this side: its caller is shown</span>}
			{found && <span class="matched"> found {percent(share, total[0])}</span>}
		</figcaption>
	);
}

/** The same numbers as a table: what is zoomed to and what it calls. */
function Numbers(props: { tree: Tree; zoomed: number }) {
	const { tree, zoomed } = props;
	const [a, b] = tree.header.total;
	const first = tree.firstChild[zoomed];
	const nodes = [zoomed, ...Array.from({ length: Math.min(LISTED, tree.childCount[zoomed]) }, (_, i) => first + i)];
	return (
		<table class="visually-hidden">
			<caption>Both sides: {tree.name(zoomed)} and what it calls</caption>
			<thead>
				<tr>
					{["function", ...NAMES, "change"].map((title) => (
						<th key={title} scope="col">
							{title}
						</th>
					))}
				</tr>
			</thead>
			<tbody>
				{nodes.map((i) => (
					<tr key={i}>
						<th scope="row">{tree.name(i)}</th>
						<td>{percent(tree.total[i], a)}</td>
						<td>{percent(tree.total2![i], b)}</td>
						<td>{change(a ? tree.total[i] / a : 0, b ? tree.total2![i] / b : 0)}</td>
					</tr>
				))}
			</tbody>
		</table>
	);
}

export function Pair(props: Props) {
	const { tree, shares, found, hovered } = props;
	const sides = useMemo(() => [tree.side(0), tree.side(1)], [tree]);
	const link = useMemo(() => new GraphLink(), [tree]);
	const zoomed = useZoomed(tree, props.zoom);
	const [chosen, setChosen] = useState({ zoom: props.zoom, keys: tree.keys(zoomed) });
	const selection = chosen.zoom === props.zoom ? tree.nearest(chosen.keys) : zoomed;
	/* A function's wider side fills its view. */
	const scale = (node: number) => Math.max(sides[0].width[node], sides[1].width[node]);
	return (
		<div class="pair">
			{sides.map((side, i) => (
				<figure key={NAMES[i]} aria-label={NAMES[i]}>
					<Caption name={NAMES[i]} tree={side} zoomed={zoomed} search={props.search} found={found} />
					<Graph
						{...props}
						tree={side}
						label={`Flame graph of the time ${NAMES[i]}`}
						marked={hovered}
						link={link}
						selection={selection}
						onSelection={(node) => setChosen({ zoom: props.zoom, keys: tree.keys(node) })}
						reach={shares ? undefined : scale}
					/>
				</figure>
			))}
			<Numbers tree={tree} zoomed={zoomed} />
		</div>
	);
}
