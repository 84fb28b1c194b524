// raw.tsx - the samples themselves: every attribute, timestamp and link of each, as they came.

import { useEffect, useState } from "preact/hooks";
import { askJSON, type Raw as Data, type RawRow } from "../api";
import { dateTime, value } from "../format";
import { report } from "../report";
import { Table, type Column } from "../parts/table";

function text(v: unknown): string {
	return typeof v === "string" ? v : JSON.stringify(v);
}

/** With its milliseconds, from the digits: a double has not so many. */
const instant = (ns: string) => `${dateTime(Number(ns))}.${ns.padStart(9, "0").slice(-9, -6)}`;

function Attributes(props: { title: string; of: Record<string, unknown> }) {
	const entries = Object.entries(props.of);
	if (entries.length === 0) return null;
	return (
		<>
			<h3>{props.title}</h3>
			<dl class="attributes">
				{entries.map(([k, v]) => (
					<>
						<dt>{k}</dt>
						<dd>{text(v)}</dd>
					</>
				))}
			</dl>
		</>
	);
}

/** The span's own page, of the same type and filter; of all times. */
function spanPage(link: NonNullable<RawRow["link"]>, params: URLSearchParams): string {
	const kept = new URLSearchParams();
	for (const key of ["type", "query"]) if (params.get(key)) kept.set(key, params.get(key)!);
	return `/span/${link.trace_id}/${link.span_id}${kept.size ? `?${kept}` : ""}`;
}

function Detail(props: { row: RawRow; unit: string; params: URLSearchParams }) {
	const { row } = props;
	return (
		<aside class="detail" aria-label="One sample">
			<h2>{instant(row.time_ns)}</h2>
			<p class="dim">
				{row.values.map((v) => value(v, props.unit)).join(", ") || "1 per timestamp"} · {row.timestamps.length} timestamps
			</p>
			{row.link && !report() && (
				<p>
					<a href={spanPage(row.link, props.params)}>span {row.link.span_id}</a>
				</p>
			)}
			<h3>Stack, innermost first</h3>
			<ol class="stack">
				{row.stack.map((f, i) => (
					<li key={i}>{f}</li>
				))}
			</ol>
			{row.timestamps.length > 0 && (
				<>
					<h3>Timestamps, unix ns</h3>
					<ol class="stack">
						{row.timestamps.map((t, i) => (
							<li key={i}>
								{t}
								{row.values.length === row.timestamps.length ? ` ${row.values[i]}` : ""}
							</li>
						))}
					</ol>
				</>
			)}
			<Attributes title="Sample" of={row.attributes} />
			<Attributes title="Resource" of={row.resource} />
			<Attributes title="Profile" of={row.profile} />
		</aside>
	);
}

export function RawView(props: { first: Data; params: URLSearchParams }) {
	const [rows, setRows] = useState(props.first.rows);
	const [next, setNext] = useState(report() ? "" : props.first.next);
	const [chosen, setChosen] = useState(-1);
	const [asking, setAsking] = useState(false);
	useEffect(() => {
		setRows(props.first.rows);
		setNext(report() ? "" : props.first.next);
		setChosen(-1);
	}, [props.first]);
	const more = () => {
		if (!next || asking) return;
		setAsking(true);
		const params = new URLSearchParams(props.params);
		params.set("after", next);
		askJSON<Data>("raw", params)
			.then((page) => {
				setRows((old) => old.concat(page.rows));
				setNext(page.next);
			})
			.catch(() => setNext(""))
			.finally(() => setAsking(false));
	};
	const { unit } = props.first;
	const columns: Column<RawRow>[] = [
		{ key: "time", title: "time", width: "24ch", cell: (r) => instant(r.time_ns) },
		{ key: "value", title: "value", width: "10ch", number: true, cell: (r) => value(r.value, unit) },
		{ key: "process", title: "process", width: "20ch", cell: (r) => text(r.attributes["process.executable.name"] ?? r.resource["process.executable.name"] ?? r.resource["service.name"] ?? "") },
		{ key: "thread", title: "thread", width: "18ch", cell: (r) => text(r.attributes["thread.name"] ?? r.attributes["thread.id"] ?? "") },
		{ key: "frame", title: "innermost frame", cell: (r) => r.stack[0] ?? "" },
	];
	return (
		<div class="raw">
			<Table label="Samples" columns={columns} rows={rows} chosen={chosen} onChoose={(_, i) => setChosen(i)} onEnd={more} />
			{chosen >= 0 && rows[chosen] && <Detail row={rows[chosen]} unit={unit} params={props.params} />}
		</div>
	);
}
