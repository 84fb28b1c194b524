// raw.tsx - the samples themselves: every attribute, timestamp and link of each, as they came.

import { useEffect, useRef, useState } from "preact/hooks";
import { askJSON, type Raw as Data, type RawRow } from "../api";
import { count, dateTime, value } from "../format";
import { report } from "../report";
import { Table, type Column } from "../parts/table";

function text(v: unknown): string {
	return typeof v === "string" ? v : JSON.stringify(v);
}

/** With its milliseconds, from the digits: a double has not so many. */
const instant = (ns: string) => (ns === "0" ? "no time" : `${dateTime(Number(ns))}.${ns.padStart(9, "0").slice(-9, -6)}`);

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
				{row.values.map((v) => value(v, props.unit)).join(", ") || "1 per timestamp"} · {row.timestamps.length} {row.timestamps.length === 1 ? "timestamp" : "timestamps"}
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

/** What is read or chosen stays where it is while newer samples come: pages are of the state that the first is of. */
export function RawView(props: { answer: Data; params: URLSearchParams; oldest: boolean; onOrder(): void }) {
	const { answer, oldest } = props;
	const question = props.params.toString();
	const [first, setFirst] = useState({ question, data: answer });
	const [rows, setRows] = useState(answer.rows);
	const [next, setNext] = useState(report() ? "" : answer.next);
	const [chosen, setChosen] = useState(-1);
	const [asking, setAsking] = useState(false);
	const box = useRef<HTMLDivElement>(null);
	const era = useRef(0);
	const begin = () => {
		era.current++;
		setAsking(false);
		setFirst({ question, data: answer });
		setRows(answer.rows);
		setNext(report() ? "" : answer.next);
		setChosen(-1);
		const table = box.current?.querySelector(".table");
		if (table) table.scrollTop = 0;
	};
	const newer = answer !== first.data && answer.asof !== first.data.asof;
	const read = () => chosen >= 0 || (box.current?.querySelector(".table")?.scrollTop ?? 0) > 0;
	useEffect(() => {
		if (answer !== first.data && (question !== first.question || !read())) begin();
	}, [answer, question]);
	const more = () => {
		if (!next || asking || question !== first.question) return;
		const mine = era.current;
		setAsking(true);
		const params = new URLSearchParams(props.params);
		params.set("asof", first.data.asof);
		params.set("after", next);
		askJSON<Data>("raw", params)
			.then((page) => {
				if (era.current !== mine) return;
				setRows((old) => old.concat(page.rows));
				setNext(page.next);
			})
			.catch(() => era.current === mine && setNext(""))
			.finally(() => era.current === mine && setAsking(false));
	};
	const { unit } = first.data;
	const process = (r: RawRow) => text(r.attributes["process.executable.name"] ?? r.resource["process.executable.name"] ?? r.resource["service.name"] ?? "");
	const wide: Column<RawRow>[] = [
		{ key: "time", title: "time", width: "24ch", sortable: !report(), cell: (r) => instant(r.time_ns) },
		{ key: "value", title: "value", width: "10ch", number: true, cell: (r) => value(r.value, unit) },
		{ key: "process", title: "process", width: "20ch", cell: process },
		{ key: "thread", title: "thread", width: "18ch", cell: (r) => text(r.attributes["thread.name"] ?? r.attributes["thread.id"] ?? "") },
		{ key: "frame", title: "innermost frame", cell: (r) => r.stack[0] ?? "" },
	];
	/* Where there is room for three: when, how much, what. */
	const narrow: Column<RawRow>[] = [
		{ key: "time", title: "time", width: "13ch", sortable: !report(), cell: (r) => instant(r.time_ns).slice(-12), tip: (r) => instant(r.time_ns) },
		{ ...wide[1], width: "8ch" },
		{
			key: "frame", title: "innermost frame", tip: (r) => `${r.stack[0] ?? ""}\n${process(r)}`, cell: (r) => (
				<>
					{r.stack[0] ?? ""} <span class="dim">{process(r)}</span>
				</>
			),
		},
	];
	const columns = innerWidth <= 760 ? narrow : wide;
	return (
		<>
			<div class="row raw-head">
				<div class="segments" role="group" aria-label="Order" hidden={report() !== null}>
					{[false, true].map((is) => (
						<button key={String(is)} type="button" aria-pressed={oldest === is} onClick={() => oldest !== is && props.onOrder()}>
							{is ? "oldest first" : "newest first"}
						</button>
					))}
				</div>
				<span class="dim">
					{!first.data.next || (!next && !report()) ? "all" : `the ${oldest ? "oldest" : "newest"}`} {count(rows.length)}
					{next && "; more come as you scroll"}
				</span>
				{newer && (
					<button type="button" class="quiet link" onClick={begin}>
						newer samples came: begin with them
					</button>
				)}
			</div>
			<div ref={box} class="raw">
				<Table label="Samples" columns={columns} rows={rows} sort="time" ascending={oldest} onSort={props.onOrder} chosen={chosen} onChoose={(_, i) => setChosen(i)} onEnd={more} />
				{chosen >= 0 && rows[chosen] && <Detail row={rows[chosen]} unit={unit} params={props.params} />}
			</div>
		</>
	);
}
