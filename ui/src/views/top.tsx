// top.tsx - functions by self and total, from all stacks, not from what the graph draws.

import { useMemo, useState } from "preact/hooks";
import type { Top as Data, TopRow } from "../api";
import { change, percent, points, value } from "../format";
import { css, diffScale, diffStep, functionColour, typeColour, type Theme } from "../flame/colour";
import { Table, type Column } from "../parts/table";
import { expression } from "../selector";
import type { FrameId } from "./flame";

const rowFrame = (r: TopRow): FrameId => ({ name: r[0], binary: r[3], type: r[4], key: r[9], stack: null });

export function Top(props: {
	data: Data;
	theme: Theme;
	sort: string;
	search: string;
	chosen: string;
	onSort(key: string): void;
	onChoose(frame: FrameId): void;
	onMenu(frame: FrameId, x: number, y: number): void;
	onCursor(frame: FrameId): void;
}) {
	const { data } = props;
	const untyped = useMemo(() => data.rows.every((r) => r[4] === ""), [data]);
	const [, redraw] = useState(0);
	let rows = data.rows;
	const regex = props.search ? expression(props.search) : "";
	if (regex instanceof RegExp) rows = rows.filter((r) => regex.test(r[0])); // half-typed: all rows
	const share = (v: number, total: number) => (
		<>
			<span class="bar" style={{ width: `${total > 0 ? (100 * v) / total : 0}%` }} />
			{percent(v, total)}
		</>
	);
	const name: Column<TopRow> = {
		key: "name",
		title: "function",
		cell: (r) => (
			<>
				<i class="dot" style={{ background: untyped ? functionColour(r[0], r[3], props.theme) : typeColour(r[4], props.theme) }} />
				{r[0]}
				<span class="hint">{r[1] ? ` ${r[1].split("/").pop()}${r[2] ? `:${r[2]}` : ""}` : ` ${r[3]}`}</span>
			</>
		),
		tip: (r) => `${r[0]}\n${[r[4], r[1] ? `${r[1]}${r[2] ? `:${r[2]}` : ""}` : "", r[3]].filter(Boolean).join(" · ")}\nself ${value(r[5], data.unit)}, total ${value(r[6], data.unit)}`,
	};
	const two = data.total2 !== undefined;
	const scale = diffScale(props.theme);
	const shares = (r: TopRow): [number, number] => [data.total ? r[6] / data.total : 0, data.total2 ? r[8] / data.total2 : 0];
	const changed = (r: TopRow) => {
		const [a, b] = shares(r);
		return (
			<>
				<span class="bar" style={{ width: `${100 * Math.min(1, Math.abs(b - a))}%`, background: css(scale[diffStep(a, b)]) }} />
				{points(100 * (b - a))}
			</>
		);
	};
	const columns: Column<TopRow>[] = two
		? [
				{ key: "total", title: "before", width: "8ch", number: true, sortable: true, cell: (r) => percent(r[6], data.total) },
				{ key: "total2", title: "after", width: "8ch", number: true, sortable: true, cell: (r) => percent(r[8], data.total2!) },
				{
					key: "change", title: "points", width: "8ch", number: true, sortable: true, cell: changed,
					tip: (r) => `after less before, in points of share: ${percent(r[6], data.total)} → ${percent(r[8], data.total2!)} (${change(...shares(r))})`,
				},
				name,
			]
		: [
				{ key: "self", title: "self", width: "9ch", number: true, sortable: true, cell: (r) => share(r[5], data.total) },
				{ key: "total", title: "total", width: "9ch", number: true, sortable: true, cell: (r) => share(r[6], data.total) },
				name,
			];
	return (
		<Table
			label="Functions"
			columns={columns}
			rows={rows}
			sort={props.sort}
			onSort={(key) => {
				props.onSort(key);
				redraw((n) => n + 1);
			}}
			chosen={rows.findIndex((r) => r[9] === props.chosen)}
			onChoose={(r) => props.onChoose(rowFrame(r))}
			onMenu={(r, x, y) => props.onMenu(rowFrame(r), x, y)}
			onCursor={(r) => props.onCursor(rowFrame(r))}
		/>
	);
}
