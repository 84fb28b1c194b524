// heat.tsx - sub-second heat map: a column per second (or more), a row per slice of it. A drag over a burst selects
// its time, and every other view follows.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Heatmap, Timeline } from "../api";
import type { Theme } from "../flame/colour";
import { clock, duration, value } from "../format";
import { cssColour } from "../theme";

function colour(t: number, theme: Theme): [number, number, number] {
	// from the paper to a deep orange, by light: linear in what the eye sees
	const from = theme === "light" ? [247, 246, 242] : [30, 30, 32];
	const to = theme === "light" ? [168, 52, 8] : [255, 176, 84];
	const mid = theme === "light" ? [240, 160, 70] : [170, 78, 24];
	const [a, b, u] = t < 0.5 ? [from, mid, t * 2] : [mid, to, t * 2 - 1];
	return [0, 1, 2].map((i) => a[i] + (b[i] - a[i]) * u) as [number, number, number];
}

/** Columns that have their time below them: as many as there is room for, at round times. */
function labelled({ columns, start_ns, column_ns }: Heatmap, width: number): number[] {
	const least = Math.max(1, columns / Math.max(1, Math.floor(width / 90)));
	const step = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600].find((n) => n >= least) ?? Math.ceil(least);
	const wide = step * column_ns;
	const first = Math.round(((wide - (Number(start_ns) % wide)) % wide) / column_ns);
	return Array.from({ length: Math.ceil(columns / step) }, (_, i) => first + i * step).filter((c) => c < columns && ((columns - c) / columns) * width > 60);
}

/** Columns of which nobody took a profile, as the timeline says it. */
function unseen(data: Heatmap, line: Timeline | null): Uint8Array {
	const out = new Uint8Array(data.columns);
	if (!line) return out;
	const offset = Number(BigInt(data.start_ns) - BigInt(line.start_ns));
	for (let c = 0; c < data.columns; c++) {
		const from = Math.floor((offset + c * data.column_ns) / line.step_ns);
		const to = Math.floor((offset + (c + 1) * data.column_ns - 1) / line.step_ns);
		let seen = from < 0 || to >= line.covered.length;
		for (let i = from; i <= to && !seen; i++) seen = (line.covered[i] ?? 0) > 0;
		out[c] = seen ? 0 : 1;
	}
	return out;
}

const ROWS = [50, 25, 10, 5, 2];
const PER_CELL = 4;

/** Rows are joined until the ordinary cell holds some samples: where none or one fits, the map would show the sampler's
 * clock, not the load. The least that any cell holds is taken for one sample. */
export function joined(data: Heatmap): Heatmap {
	const least = data.counts.reduce((m, v) => (v > 0 && v < m ? v : m), Infinity);
	for (const rows of ROWS) {
		if (data.rows % rows !== 0 || rows > data.rows) continue;
		const each = data.rows / rows;
		const counts = new Array<number>(data.columns * rows).fill(0);
		for (const [i, v] of data.counts.entries()) {
			const column = Math.floor(i / data.rows);
			counts[column * rows + Math.floor((i % data.rows) / each)] += v;
		}
		const filled = counts.filter((v) => v > 0).sort((a, b) => a - b);
		if (rows === ROWS[ROWS.length - 1] || filled.length === 0 || filled[filled.length >> 1] >= PER_CELL * least)
			return { ...data, rows, row_ns: data.column_ns / rows, counts, max: filled[filled.length - 1] ?? 0 };
	}
	return data;
}

interface Cell {
	column: number;
	row: number;
}

export function Heat(props: { data: Heatmap; line: Timeline | null; theme: Theme; picked: [number, number] | null; onSelect(fromNs: number, toNs: number): void; onDrop(): void; onOpen(): void }) {
	const { theme, picked } = props;
	const data = useMemo(() => joined(props.data), [props.data]);
	const dark = useMemo(() => unseen(data, props.line), [data, props.line]);
	const canvas = useRef<HTMLCanvasElement>(null);
	const box = useRef<HTMLDivElement>(null);
	const [size, setSize] = useState({ width: 0, height: 0 });
	const [hover, setHover] = useState<Cell | null>(null);
	const [cursor, setCursor] = useState<Cell>({ column: 0, row: 0 });
	const start = useRef<Cell | null>(null);
	useLayoutEffect(() => {
		const observer = new ResizeObserver(([e]) => setSize({ width: Math.floor(e.contentRect.width), height: Math.floor(e.contentRect.height) }));
		observer.observe(box.current!);
		return () => observer.disconnect();
	}, []);
	useEffect(() => {
		if (size.width === 0 || data.columns === 0) return;
		const c = canvas.current!;
		c.width = data.columns;
		c.height = data.rows;
		const context = c.getContext("2d")!;
		const image = context.createImageData(data.columns, data.rows);
		for (let x = 0; x < data.columns; x++)
			for (let y = 0; y < data.rows; y++) {
				if (dark[x]) continue; // the hatching behind it is seen
				const v = data.counts[x * data.rows + y];
				const [r, g, b] = colour(v === 0 ? 0 : 0.1 + 0.9 * (v / data.max), theme);
				const at = ((data.rows - 1 - y) * data.columns + x) * 4;
				image.data.set([r, g, b, 255], at);
			}
		const chosen = start.current && hover ? ordered(start.current, hover) : picked && cellsOf(picked);
		context.putImageData(image, 0, 0);
		if (chosen) {
			const [a, b] = chosen;
			/* What is not chosen is paler. */
			context.globalAlpha = 0.7;
			context.fillStyle = cssColour("--paper");
			for (let x = 0; x < data.columns; x++) {
				const lo = x < a.column ? data.rows : x === a.column ? a.row : 0;
				const hi = x > b.column ? -1 : x === b.column ? b.row : data.rows - 1;
				context.fillRect(x, data.rows - lo, 1, lo);
				if (lo <= hi) context.fillRect(x, 0, 1, data.rows - 1 - hi);
				else if (lo < data.rows) context.fillRect(x, 0, 1, data.rows);
			}
			context.globalAlpha = 1;
		}
	}, [data, dark, theme, size, hover, picked?.[0], picked?.[1]]);

	const ordered = (a: Cell, b: Cell): [Cell, Cell] => (a.column < b.column || (a.column === b.column && a.row <= b.row) ? [a, b] : [b, a]);
	const cellAt = (event: PointerEvent): Cell => {
		const rect = canvas.current!.getBoundingClientRect();
		const clamp = (v: number, n: number) => Math.max(0, Math.min(n - 1, Math.floor(v * n)));
		return { column: clamp((event.clientX - rect.left) / rect.width, data.columns), row: clamp(1 - (event.clientY - rect.top) / rect.height, data.rows) };
	};
	const begin = Number(data.start_ns);
	const end = begin + data.columns * data.column_ns;
	/* Its first cell and its last. */
	const cellsOf = ([from, to]: [number, number]): [Cell, Cell] | null => {
		if (to <= begin || from >= end) return null;
		const cell = (ns: number): Cell => {
			const since = Math.max(0, Math.min(end - begin - 1, ns - begin));
			const column = Math.floor(since / data.column_ns);
			return { column, row: Math.min(data.rows - 1, Math.floor((since - column * data.column_ns) / data.row_ns)) };
		};
		/* Half a cell off its edges: times are rounded. */
		return [cell(from + data.row_ns / 2), cell(Math.max(from + data.row_ns / 2, to - data.row_ns / 2))];
	};
	const time = (c: Cell) => Number(data.start_ns) + c.column * data.column_ns + c.row * data.row_ns;
	const choose = (a: Cell, b: Cell) => {
		const [first, last] = ordered(a, b);
		props.onSelect(time(first), time(last) + data.row_ns);
	};
	const key = (event: KeyboardEvent) => {
		const d: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
		if (d[event.key] && picked && !start.current) {
			const [dx, dy] = d[event.key];
			const by = dx * data.column_ns + dy * data.row_ns;
			const [from, to] = [event.shiftKey ? picked[0] : picked[0] + by, picked[1] + by];
			if (from >= begin - 1 && to <= end + 1 && to - from > data.row_ns / 2) props.onSelect(from, to);
		} else if (event.key === "Enter" && picked && !start.current) {
			props.onOpen();
		} else if (event.key === "Escape" && (picked || start.current)) {
			start.current = null;
			setHover(null);
			props.onDrop();
		} else if (d[event.key]) {
			const [dx, dy] = d[event.key];
			const next = { column: Math.max(0, Math.min(data.columns - 1, cursor.column + dx)), row: Math.max(0, Math.min(data.rows - 1, cursor.row + dy)) };
			if (event.shiftKey) start.current ??= cursor;
			else start.current = null;
			setCursor(next);
			setHover(next);
		} else if (event.key === "Enter") {
			choose(start.current ?? cursor, cursor);
			start.current = null;
		} else return;
		event.preventDefault();
		event.stopPropagation();
	};
	const shown = hover;
	return (
		<section class="heat" aria-label="Heat map">
			<p class="dim">
				A column is {duration(data.column_ns)}, a row {duration(data.row_ns)} of it. Drag over a burst to look at just that.{dark.includes(1) && " Hatched: nobody looked."}
				<span class="heat-scale" role="img" aria-label={`Colours from 0 to ${value(data.max, data.unit)} a cell`}>
					0
					{[0, 0.25, 0.5, 0.75, 1].map((t) => (
						<i key={t} style={{ background: `rgb(${colour(t === 0 ? 0 : 0.1 + 0.9 * t, theme).map(Math.round).join(" ")})` }} />
					))}
					{value(data.max, data.unit)}
				</span>
				{shown && (
					<output>
						{" "}
						{clock(time(shown))} +{duration(shown.row * data.row_ns)}: {dark[shown.column] ? "nobody looked" : value(data.counts[shown.column * data.rows + shown.row], data.unit)}
					</output>
				)}
			</p>
			<div class="heat-rows" aria-hidden="true">
				{[1, 0.75, 0.5, 0.25, 0].map((part) => (
					<span key={part}>{part === 0 ? "0" : duration(data.column_ns * part)}</span>
				))}
			</div>
			<div ref={box} class="heat-box" tabIndex={0} role="application" aria-label="Heat map: arrow keys move the cell, Shift extends, Enter selects; then arrow keys move what is selected, Shift changes its end, Enter opens its flame graph, Escape drops it" onKeyDown={key}>
				<canvas
					ref={canvas}
					aria-hidden="true"
					onPointerDown={(event) => {
						start.current = cellAt(event);
						canvas.current!.setPointerCapture(event.pointerId);
					}}
					onPointerMove={(event) => setHover(cellAt(event))}
					onPointerUp={(event) => {
						const from = start.current;
						start.current = null;
						if (from) choose(from, cellAt(event));
					}}
					onPointerLeave={() => setHover(null)}
				/>
			</div>
			<div class="heat-columns" aria-hidden="true">
				{labelled(data, size.width).map((column) => (
					<span key={column} style={{ left: `${(column / data.columns) * 100}%` }}>
						{clock(Number(data.start_ns) + column * data.column_ns)}
					</span>
				))}
			</div>
		</section>
	);
}
