// source.tsx - the lines of one file with their self and total; their text, where the program knows its folder.

import { useEffect, useMemo, useRef } from "preact/hooks";
import type { Source as Data, Top, TopRow } from "../api";
import { percent, value } from "../format";
import { Empty } from "../parts/states";
import { Table, type Column } from "../parts/table";

interface Line {
	line: number;
	self: number;
	total: number;
	text: string;
}

/** All lines of the text, or those that cost something. */
function linesOf(data: Data): Line[] {
	const text = data.text;
	if (!text) return data.lines.map(([line, self, total]) => ({ line, self, total, text: "" }));
	const first = data.text_first ?? 1;
	const all: Line[] = text.map((t, i) => ({ line: first + i, self: 0, total: 0, text: t.replace(/\t/g, "    ") }));
	for (const [line, self, total] of data.lines) if (all[line - first]) Object.assign(all[line - first], { self, total });
	return all;
}

/** Functions whose lines are known, to choose one of. */
export function Functions(props: { data: Top; sort: string; onSort(key: string): void; onChoose(name: string, key: string): void }) {
	const { data } = props;
	const known = useMemo(() => data.rows.filter((r) => r[1] !== "" && r[2] > 0), [data]);
	if (known.length === 0)
		return (
			<Empty what="No lines are known here">
				<p>Line numbers come from debug information: with a program's debug package installed, new samples have them.</p>
			</Empty>
		);
	const small = innerWidth <= 760;
	const share = (v: number) =>
		small ? (
			percent(v, data.total)
		) : (
			<>
				{value(v, data.unit)} <span class="dim">{percent(v, data.total)}</span>
			</>
		);
	const columns: Column<TopRow>[] = [
		{ key: "self", title: "self", width: small ? "8ch" : "17ch", number: true, sortable: true, cell: (r) => share(r[5]) },
		{ key: "total", title: "total", width: small ? "8ch" : "17ch", number: true, sortable: true, cell: (r) => share(r[6]) },
		{ key: "name", title: "function", cell: (r) => r[0], tip: (r) => r[0] },
		{ key: "file", title: "file", cell: (r) => <span class="dim">{`${r[1].split("/").pop()}:${r[2]}`}</span>, tip: (r) => `${r[1]}:${r[2]}` },
	];
	return (
		<section class="functions" aria-label="Functions whose lines are known">
			<p class="note">Choose a function to see what its lines cost.</p>
			<Table label="Functions whose lines are known" columns={columns} rows={known} sort={props.sort} onSort={props.onSort} onChoose={(r) => props.onChoose(r[0], r[9])} />
		</section>
	);
}

export function SourceView(props: { data: Data; name: string; onBack(): void }) {
	const { data } = props;
	const dearest = useRef<HTMLTableRowElement>(null);
	useEffect(() => dearest.current?.scrollIntoView({ block: "center" }), [data]);
	if (data.lines.length === 0)
		return (
			<Empty what="No lines are known of this function">
				<p>Line numbers come from debug information: with the program's debug package installed, new samples have them.</p>
				<button type="button" onClick={props.onBack}>
					Functions whose lines are known
				</button>
			</Empty>
		);
	const most = data.lines.reduce((m, l) => Math.max(m, l[2]), 0) || 1;
	const lines = linesOf(data);
	const top = lines.reduce((m, l) => (l.self > m.self ? l : m), lines[0]).line;
	return (
		<section class="source" aria-label={`Source of ${data.file}`}>
			<h2>
				{data.file}{" "}
				<button type="button" class="quiet link" onClick={props.onBack}>
					another function
				</button>
			</h2>
			<p class="dim">
				{data.text_of
					? `The text is that of ${data.text_of} as it is now; costs are those of the file that ${props.name} costs most in.`
					: `The lines that cost something, of the file that ${props.name} costs most in.`}{" "}
				A stack counts once in a line's total, however often it is there.
				{data.no_text && ` No text: ${data.no_text}.`}
			</p>
			<div class="source-lines" tabIndex={0} role="region" aria-label="Lines">
				<table>
					<thead>
						<tr>
							<th scope="col">line</th>
							<th scope="col">self</th>
							<th scope="col">self %</th>
							<th scope="col">total</th>
							<th scope="col">total %</th>
							<th scope="col">share of the dearest line</th>
							{data.text && <th scope="col">text</th>}
						</tr>
					</thead>
					<tbody>
						{lines.map(({ line, self, total, text }) => (
							<tr key={line} ref={line === top ? dearest : undefined} class={data.text && total > 0 ? "costs" : ""}>
								<th scope="row" class="number">
									{line}
								</th>
								<td class="number">{self > 0 ? value(self, data.unit) : ""}</td>
								<td class="number">{self > 0 ? percent(self, data.total) : ""}</td>
								<td class="number">{total > 0 ? value(total, data.unit) : ""}</td>
								<td class="number">{total > 0 ? percent(total, data.total) : ""}</td>
								<td class="share">{total > 0 && <meter value={total} max={most} aria-label={`line ${line}: ${percent(total, most)}`} />}</td>
								{data.text && <td class="code">{text}</td>}
							</tr>
						))}
					</tbody>
				</table>
			</div>
		</section>
	);
}
