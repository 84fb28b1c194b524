// chart.tsx - flame chart: a lane per thread, the busiest first, boxes in the order of time from the samples' own
// timestamps. Lanes are low until they are opened; a box is paler the less of its time it was seen in.

import { report } from "../report";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Chart as Data, Lane } from "../api";
import { fnv } from "../flame/tree";
import { typeColour, type Theme } from "../flame/colour";
import { clock, count, duration, shorten, value } from "../format";
import { cssColour } from "../theme";
import { laneId, laneNames } from "./lanes";

const HEAD = 22;
const AXIS = 20;
const LOW = 56; // height of the boxes of a lane that is not opened
const ROW = 17;
const GAP = 8;

interface Place {
	lane: Lane;
	name: string;
	top: number;
	height: number;
	row: number;
}

/** More are not drawn at once. */
export const LANES_MOST = 200;

const TICKS = [1, 2, 5];

/** A step of 1, 2 or 5 of a power of ten that leaves a label its room. */
function tickStep(span: number, most: number): number {
	for (let power = 1; ; power *= 10) for (const n of TICKS) if (span / (n * power) <= most) return n * power;
}

function places(data: Data, opened: Set<number>): [Place[], number] {
	let top = AXIS;
	const names = laneNames(data.lanes);
	const out = data.lanes.map((lane, i) => {
		const depth = lane.boxes.reduce((d, b) => Math.max(d, b[0]), 0) + 1;
		const row = opened.has(i) ? ROW : Math.max(1.5, Math.min(ROW, LOW / depth));
		const one = { lane, name: names[i], top, row, height: HEAD + depth * row + GAP };
		top += one.height;
		return one;
	});
	return [out, top];
}

export function Chart(props: { data: Data; theme: Theme; picked: [number, number] | null; onPick(fromNs: number, toNs: number): void; lanes: number; skip: number; onLanes(lanes: number, skip: number): void; open: string[]; onOpen(lanes: string[]): void }) {
	const { data, theme, skip } = props;
	const behind = skip + data.lanes.length;
	const box = useRef<HTMLDivElement>(null);
	const canvas = useRef<HTMLCanvasElement>(null);
	const [size, setSize] = useState({ width: 0, height: 0 });
	const [scroll, setScroll] = useState(0);
	const [range, setRange] = useState<[number, number] | null>(null);
	const ids = useMemo(() => data.lanes.map(laneId), [data]);
	const opened = useMemo(() => new Set([...ids.keys()].filter((i) => props.open.includes(ids[i]))), [ids, props.open.join(" ")]);
	const [at, setAt] = useState(0); // the lane that Enter opens
	const [tip, setTip] = useState<{ x: number; y: number; lines: string[] } | null>(null);
	const drag = useRef<number | null>(null);
	const start = Number(data.start_ns);
	const span = data.length_ns || 1;
	const [lanes, height] = useMemo(() => places(data, opened), [data, opened]);
	const fills = useMemo(() => data.frames.map((f) => typeColour(f[4], theme, fnv(f[0]))), [data, theme]);
	useLayoutEffect(() => {
		const observer = new ResizeObserver(([e]) => setSize({ width: Math.floor(e.contentRect.width), height: Math.floor(e.contentRect.height) }));
		observer.observe(box.current!);
		return () => observer.disconnect();
	}, []);
	const maxScroll = Math.max(0, height - size.height);
	const scrolled = Math.min(scroll, maxScroll);

	useEffect(() => {
		if (size.width === 0) return;
		const ratio = Math.min(devicePixelRatio || 1, 3);
		const c = canvas.current!;
		c.width = size.width * ratio;
		c.height = size.height * ratio;
		const g = c.getContext("2d", { alpha: false })!;
		g.setTransform(ratio, 0, 0, ratio, 0, 0);
		const [paper, panel, line, dim, ink, frameText] = ["--paper", "--panel", "--line", "--dim", "--ink", "--frame-text"].map(cssColour);
		const mono = cssColour("--mono");
		const scale = size.width / span;
		g.fillStyle = paper;
		g.fillRect(0, 0, size.width, size.height);
		g.textBaseline = "middle";
		const step = tickStep(span, size.width / 96);
		const ticks: number[] = [];
		for (let t = 0; t <= span; t += step) ticks.push(t);
		g.fillStyle = line;
		for (const t of ticks) g.fillRect(Math.round(t * scale), 0, 1, size.height);
		g.font = `11px ${mono}`;
		const charWidth = g.measureText("m").width;
		for (const [i, place] of lanes.entries()) {
			const top = place.top - scrolled;
			if (top > size.height || top + place.height < 0) continue;
			g.fillStyle = panel;
			g.fillRect(0, top, size.width, HEAD - 2);
			if (i === at && document.activeElement === box.current) {
				g.fillStyle = cssColour("--focus");
				g.fillRect(0, top, 3, HEAD - 2);
			}
			const sum = value(place.lane.value, data.unit);
			g.font = `11px ${cssColour("--sans")}`;
			g.textAlign = "right";
			g.fillStyle = dim;
			g.fillText(sum, size.width - 8, top + HEAD / 2 - 1);
			g.textAlign = "left";
			g.font = `11px ${mono}`;
			g.fillStyle = ink;
			g.fillText(`${opened.has(i) ? "▾" : "▸"} ${shorten(place.name, Math.floor((size.width - 90) / charWidth) - 2)}`, 8, top + HEAD / 2 - 1);
			for (const [depth, from, length, frame, busy] of place.lane.boxes) {
				const y = top + HEAD + depth * place.row;
				if (y > size.height || y + place.row < AXIS) continue;
				const x = from * scale;
				const w = Math.max(length * scale, 1);
				g.globalAlpha = 0.25 + 0.75 * Math.min(1, busy / (length || 1));
				g.fillStyle = fills[frame] ?? dim;
				g.fillRect(x, y, w > 3 ? w - 0.5 : w, place.row > 4 ? place.row - 1 : place.row);
				g.globalAlpha = 1;
				if (place.row >= 12 && w > 34) {
					g.fillStyle = frameText;
					g.fillText(shorten(data.frames[frame][0], Math.floor((w - 6) / charWidth)), x + 3, y + place.row / 2);
				}
			}
		}
		g.fillStyle = paper;
		g.fillRect(0, 0, size.width, AXIS - 1);
		g.fillStyle = line;
		g.fillRect(0, AXIS - 1, size.width, 1);
		g.fillStyle = dim;
		g.font = `11px ${cssColour("--sans")}`;
		for (const t of ticks) if (t * scale < size.width - 70) g.fillText(t === 0 ? clock(start) : `+${duration(t).replace(/\.0+ /, " ")}`, t * scale + 4, AXIS / 2);
		const chosen = range ?? (props.picked && (props.picked.map((t) => (t - start) * scale) as [number, number]));
		if (chosen) {
			g.fillStyle = cssColour("--selection");
			g.fillRect(Math.min(...chosen), 0, Math.max(1, Math.abs(chosen[1] - chosen[0])), size.height);
		}
	}, [lanes, size, scrolled, fills, range, props.picked, at, opened, theme]);

	const local = (event: PointerEvent | MouseEvent): [number, number] => {
		const rect = canvas.current!.getBoundingClientRect();
		return [event.clientX - rect.left, event.clientY - rect.top];
	};
	const laneAt = (y: number) => (y < AXIS ? -1 : lanes.findIndex((l) => y + scrolled >= l.top && y + scrolled < l.top + l.height));
	const toggle = (i: number) => props.onOpen(opened.has(i) ? props.open.filter((id) => id !== ids[i]) : [...props.open, ids[i]]);
	const hover = (event: PointerEvent) => {
		const [x, y] = local(event);
		const place = lanes[laneAt(y)];
		if (!place) return setTip(null);
		const depth = Math.floor((y + scrolled - place.top - HEAD) / place.row);
		const t = (x / size.width) * span;
		const slack = span / size.width;
		const hit = place.lane.boxes.find((b) => b[0] === depth && t >= b[1] && t <= b[1] + Math.max(b[2], slack));
		if (!hit) return setTip(null);
		const [name, file, line, binary, type] = data.frames[hit[3]];
		const rested = hit[2] - hit[4] > 0.01 * hit[2] ? `, seen in ${duration(hit[4])} of it` : "";
		setTip({
			x: event.clientX,
			y: event.clientY,
			lines: [name, `${duration(hit[2])} from ${clock(start + hit[1])} +${duration(hit[1] % 1e9)}${rested}`, [type, file && `${file}${line ? `:${line}` : ""}`, binary].filter(Boolean).join(" · "), place.name],
		});
	};
	const timeAt = (x: number) => Math.round(start + (Math.max(0, Math.min(size.width, x)) / size.width) * span);
	const show = (i: number) => {
		const place = lanes[i];
		setAt(i);
		if (place.top - AXIS < scrolled) setScroll(place.top - AXIS);
		else if (place.top + place.height > scrolled + size.height) setScroll(Math.min(place.top - AXIS, place.top + place.height - size.height));
	};
	const key = (event: KeyboardEvent) => {
		const pages: Record<string, number> = { PageDown: size.height - AXIS, PageUp: AXIS - size.height };
		if (event.key === "ArrowDown") show(Math.min(lanes.length - 1, at + 1));
		else if (event.key === "ArrowUp") show(Math.max(0, at - 1));
		else if (event.key === "Home") show(0);
		else if (event.key === "End") show(lanes.length - 1);
		else if (event.key === "Enter" || event.key === " ") toggle(at);
		else if (event.key in pages) setScroll(Math.max(0, Math.min(maxScroll, scrolled + pages[event.key])));
		else return;
		event.preventDefault();
		event.stopPropagation();
	};
	return (
		<section class="chart" aria-label="Flame chart">
			<div
				ref={box}
				class="chart-box"
				tabIndex={0}
				role="application"
				aria-label={`${data.lanes.length} of ${data.lanes_total} threads in order of time. Up and down walk them, Enter opens one, a drag selects a time.`}
				onWheel={(event) => {
					event.preventDefault();
					setScroll(Math.max(0, Math.min(maxScroll, scrolled + event.deltaY)));
				}}
				onKeyDown={key}
			>
				<canvas
					ref={canvas}
					aria-hidden="true"
					onPointerDown={(event) => {
						drag.current = local(event)[0];
						canvas.current!.setPointerCapture(event.pointerId);
					}}
					onPointerMove={(event) => (drag.current === null ? hover(event) : setRange([drag.current, local(event)[0]]))}
					onPointerUp={(event) => {
						const from = drag.current;
						const [to, y] = local(event);
						drag.current = null;
						setRange(null);
						if (from === null) return;
						if (Math.abs(to - from) >= 4) return props.onPick(Math.min(timeAt(from), timeAt(to)), Math.max(timeAt(from), timeAt(to)));
						const i = laneAt(y);
						if (i >= 0) {
							setAt(i);
							toggle(i);
						}
					}}
					onPointerLeave={() => setTip(null)}
				/>
			</div>
			<table class="visually-hidden">
				<caption>Threads, the busiest first</caption>
				<tbody>
					{lanes.map(({ lane, name }, i) => (
						<tr key={i}>
							<th scope="row">{name}</th>
							<td>{value(lane.value, data.unit)}</td>
							<td>{lane.events} samples</td>
						</tr>
					))}
				</tbody>
			</table>
			{tip && (
				<div class="tooltip" role="tooltip" style={{ left: `${Math.max(4, Math.min(tip.x + 14, innerWidth - 380))}px`, top: `${Math.min(tip.y + 18, innerHeight - 110)}px` }}>
					{tip.lines.filter(Boolean).map((line, i) => (
						<div key={i} class={i ? "where" : "name"}>
							{line}
						</div>
					))}
				</div>
			)}
			<div class="row dim chart-foot">
				<span>
					{skip > 0 ? `${count(skip + 1)} to ${count(behind)}` : count(behind)} of {count(data.lanes_total)} threads
				</span>
				{skip > 0 && (
					<button type="button" class="quiet link" onClick={() => props.onLanes(LANES_MOST, Math.max(0, skip - LANES_MOST))}>
						busier ones
					</button>
				)}
				{data.lanes_total > behind && !report() && (
					<button type="button" class="quiet link" onClick={() => (props.lanes < LANES_MOST ? props.onLanes(Math.min(LANES_MOST, props.lanes + 50), skip) : props.onLanes(LANES_MOST, skip + LANES_MOST))}>
						{props.lanes < LANES_MOST ? "show more" : `the next ${count(Math.min(LANES_MOST, data.lanes_total - behind))}`}
					</button>
				)}
				{data.partial && <span>{data.partial}</span>}
			</div>
		</section>
	);
}
