// chart.tsx - flame chart: a lane per thread, boxes in the order of time from the samples' own timestamps.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Chart as Data } from "../api";
import { fnv } from "../flame/tree";
import { typeColour, type Theme } from "../flame/colour";
import { clock, duration, shorten } from "../format";
import { cssColour } from "../theme";

const ROW = 16;
const HEAD = 20;

interface Lane {
	label: string;
	top: number;
	height: number;
	boxes: Data["lanes"][number]["boxes"];
}

export function Chart(props: { data: Data; theme: Theme; onSelect(fromNs: number, toNs: number): void; onMore(): void }) {
	const { data, theme } = props;
	const box = useRef<HTMLDivElement>(null);
	const canvas = useRef<HTMLCanvasElement>(null);
	const [size, setSize] = useState({ width: 0, height: 0 });
	const [scroll, setScroll] = useState(0);
	const [range, setRange] = useState<[number, number] | null>(null);
	const [tip, setTip] = useState<{ x: number; y: number; text: string } | null>(null);
	const drag = useRef<number | null>(null);
	const [lanes, height] = useMemo(() => {
		let top = 0;
		const out: Lane[] = data.lanes.map((lane) => {
			const depth = lane.boxes.reduce((d, b) => Math.max(d, b[0]), 0) + 1;
			const one = { label: lane.label, top, height: HEAD + depth * ROW + 6, boxes: lane.boxes };
			top += one.height;
			return one;
		});
		return [out, top] as const;
	}, [data]);
	const colours = useMemo(() => data.frames.map((f) => ({ fill: typeColour(f[4], theme), salt: fnv(f[0]) % 3 })), [data, theme]);
	useLayoutEffect(() => {
		const observer = new ResizeObserver(([e]) => setSize({ width: Math.floor(e.contentRect.width), height: Math.floor(e.contentRect.height) }));
		observer.observe(box.current!);
		return () => observer.disconnect();
	}, []);
	const span = data.end_ns - data.start_ns || 1;

	useEffect(() => {
		if (size.width === 0) return;
		const ratio = Math.min(devicePixelRatio || 1, 3);
		const c = canvas.current!;
		c.width = size.width * ratio;
		c.height = size.height * ratio;
		const g = c.getContext("2d", { alpha: false })!;
		g.setTransform(ratio, 0, 0, ratio, 0, 0);
		g.fillStyle = cssColour("--paper");
		g.fillRect(0, 0, size.width, size.height);
		g.textBaseline = "middle";
		const mono = cssColour("--mono");
		g.font = `11px ${mono}`;
		const charWidth = g.measureText("m").width;
		const scale = size.width / span;
		for (const lane of lanes) {
			const top = lane.top - scroll;
			if (top > size.height || top + lane.height < 0) continue;
			g.fillStyle = cssColour("--dim");
			g.fillText(shorten(lane.label, Math.floor(size.width / charWidth)), 4, top + HEAD / 2);
			g.fillStyle = cssColour("--line");
			g.fillRect(0, top + lane.height - 3, size.width, 1);
			for (const [depth, start, length, frame] of lane.boxes) {
				const y = top + HEAD + depth * ROW;
				if (y > size.height || y + ROW < 0) continue;
				const x = start * scale;
				const w = Math.max(length * scale, 0.7);
				g.fillStyle = colours[frame]?.fill ?? "#888";
				g.fillRect(x, y, w > 2 ? w - 0.5 : w, ROW - 1);
				if (w > 30) {
					g.fillStyle = cssColour("--frame-text");
					g.fillText(shorten(data.frames[frame][0], Math.floor((w - 6) / charWidth)), x + 3, y + ROW / 2);
				}
			}
		}
		if (range) {
			g.fillStyle = cssColour("--selection");
			g.fillRect(Math.min(...range), 0, Math.abs(range[1] - range[0]), size.height);
		}
	}, [lanes, size, scroll, colours, range]);

	const local = (event: PointerEvent | MouseEvent): [number, number] => {
		const rect = canvas.current!.getBoundingClientRect();
		return [event.clientX - rect.left, event.clientY - rect.top];
	};
	const under = (event: PointerEvent) => {
		const [x, y] = local(event);
		const lane = lanes.find((l) => y + scroll >= l.top && y + scroll < l.top + l.height);
		if (!lane) return null;
		const depth = Math.floor((y + scroll - lane.top - HEAD) / ROW);
		const at = (x / size.width) * span;
		const hit = lane.boxes.find((b) => b[0] === depth && at >= b[1] && at <= b[1] + Math.max(b[2], (0.7 / size.width) * span));
		return hit ? { lane, hit } : null;
	};
	const move = (event: PointerEvent) => {
		const [x] = local(event);
		if (drag.current !== null) return setRange([drag.current, x]);
		const found = under(event);
		if (!found) return setTip(null);
		const f = data.frames[found.hit[3]];
		setTip({ x: event.clientX, y: event.clientY, text: `${f[0]} · ${duration(found.hit[2])} from ${clock(data.start_ns + found.hit[1])}\n${[f[4], f[1] && `${f[1]}:${f[2]}`, f[3]].filter(Boolean).join(" · ")}` });
	};
	const maxScroll = Math.max(0, height - size.height);
	return (
		<section class="chart" aria-label="Flame chart">
			<div class="axis dim">
				<span>{clock(data.start_ns)}</span>
				<span>{duration(span)}</span>
				<span>{clock(data.end_ns)}</span>
			</div>
			<div
				ref={box}
				class="chart-box"
				tabIndex={0}
				role="application"
				aria-label={`${data.lanes.length} of ${data.lanes_total} threads in order of time. Arrow keys scroll, a drag selects a time.`}
				onWheel={(event) => {
					event.preventDefault();
					setScroll(Math.max(0, Math.min(maxScroll, scroll + event.deltaY)));
				}}
				onKeyDown={(event) => {
					const d: Record<string, number> = { ArrowDown: 40, ArrowUp: -40, PageDown: size.height, PageUp: -size.height, Home: -height, End: height };
					if (!(event.key in d)) return;
					event.preventDefault();
					event.stopPropagation();
					setScroll(Math.max(0, Math.min(maxScroll, scroll + d[event.key])));
				}}
			>
				<canvas
					ref={canvas}
					aria-hidden="true"
					onPointerDown={(event) => {
						drag.current = local(event)[0];
						canvas.current!.setPointerCapture(event.pointerId);
					}}
					onPointerMove={move}
					onPointerUp={(event) => {
						const from = drag.current;
						drag.current = null;
						setRange(null);
						const to = local(event)[0];
						if (from === null || Math.abs(to - from) < 4) return;
						const at = (x: number) => Math.round(data.start_ns + (Math.max(0, Math.min(size.width, x)) / size.width) * span);
						props.onSelect(Math.min(at(from), at(to)), Math.max(at(from), at(to)));
					}}
					onPointerLeave={() => setTip(null)}
				/>
			</div>
			{tip && (
				<div class="tooltip" role="tooltip" style={{ left: `${Math.min(tip.x + 14, innerWidth - 360)}px`, top: `${tip.y + 18}px` }}>
					{tip.text.split("\n").map((line, i) => (
						<div key={i} class={i ? "where" : "name"}>
							{line}
						</div>
					))}
				</div>
			)}
			{data.lanes_total > data.lanes.length && (
				<button type="button" onClick={props.onMore}>
					{data.lanes_total - data.lanes.length} more threads
				</button>
			)}
		</section>
	);
}
