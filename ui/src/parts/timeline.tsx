// timeline.tsx - the value over time, stacked by group; a drag over it selects the time that every view shows. Time
// without data is hatched: 0 and "nobody looked" are different things.

import { useLayoutEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Timeline as Data } from "../api";
import { fnv } from "../flame/tree";
import type { Theme } from "../flame/colour";
import { rate, value, tickTime } from "../format";
import { cssColour } from "../theme";

export interface TimelineProps {
	data: Data;
	theme: Theme;
	selected: [number, number] | null; // ns
	onSelect(fromNs: number, toNs: number): void;
	label: string;
}

function seriesColour(name: string, index: number, theme: Theme): string {
	const hue = index === 0 ? 250 : (fnv(name) >>> 8) % 360;
	return `oklch(${theme === "light" ? 0.68 : 0.72} 0.1 ${hue})`;
}

/** Running sums, so that the areas stand on each other. */
export function stacked(series: (number | null)[][]): (number | null)[][] {
	const out: (number | null)[][] = [];
	for (const [i, values] of series.entries())
		out.push(values.map((v, k) => (v === null ? null : v + (i > 0 ? (out[i - 1][k] ?? 0) : 0))));
	return out;
}

function hatch(u: uPlot, data: Data): void {
	const { ctx } = u;
	const start = Number(data.start_ns);
	const { top, height } = u.bbox;
	ctx.save();
	ctx.beginPath();
	data.covered.forEach((share, i) => {
		if (share !== null && share > 0) return;
		const left = u.valToPos((start + i * data.step_ns) / 1e9, "x", true);
		const right = u.valToPos((start + (i + 1) * data.step_ns) / 1e9, "x", true);
		ctx.rect(left, top, right - left, height);
	});
	ctx.clip();
	ctx.strokeStyle = cssColour("--line");
	ctx.lineWidth = 1;
	ctx.beginPath();
	for (let x = u.bbox.left - height; x < u.bbox.left + u.bbox.width; x += 8) {
		ctx.moveTo(x, top + height);
		ctx.lineTo(x + height, top);
	}
	ctx.stroke();
	ctx.restore();
}

export function Timeline(props: TimelineProps) {
	const box = useRef<HTMLDivElement>(null);
	const select = useRef(props.onSelect);
	select.current = props.onSelect;
	const { data, theme } = props;
	useLayoutEffect(() => {
		const element = box.current!;
		const start = Number(data.start_ns);
		const seconds = data.step_ns / 1e9;
		const names = data.series.map((s) => Object.values(s.labels).join(" ") || props.label);
		const xs = (data.series[0]?.values ?? data.covered).map((_, i) => (start + (i + 0.5) * data.step_ns) / 1e9);
		const sums = stacked(data.series.map((s) => s.values.map((v) => (v === null ? null : v / seconds))));
		const top = [...sums].reverse(); // the highest first, so that lower areas lie over it
		const axis = { stroke: cssColour("--dim"), grid: { stroke: cssColour("--line"), width: 1 }, ticks: { show: false }, font: `11px ${cssColour("--sans")}` };
		const plot = new uPlot(
			{
				width: Math.max(100, element.clientWidth),
				height: 92,
				legend: { show: false },
				cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false }, y: false },
				padding: [6, 8, 0, 0],
				scales: { x: { time: true }, y: { range: (_u, _min, max) => [0, max > 0 ? max * 1.05 : 1] } },
				axes: [
					{ ...axis, size: 22, space: 90, values: (_u, ticks, _axis, _space, step) => ticks.map((t) => tickTime(t, step)) },
					{ ...axis, size: 62, space: 28, values: (_u, ticks) => ticks.map((t) => (data.unit === "nanoseconds" ? `${+(t / 1e9).toFixed(2)}` : value(t, data.unit))) },
				],
				series: [
					{},
					...top.map((_, i) => {
						const index = top.length - 1 - i;
						const colour = seriesColour(names[index], index, theme);
						return { stroke: colour, fill: colour, width: 1, points: { show: false }, paths: uPlot.paths.stepped!({ align: 0 as never }), label: names[index] };
					}),
				],
				hooks: {
					drawClear: [(u) => hatch(u, data)],
					setSelect: [
						(u) => {
							if (u.select.width < 3) return;
							const from = u.posToVal(u.select.left, "x");
							const to = u.posToVal(u.select.left + u.select.width, "x");
							u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
							select.current(Math.floor(from * 1e9), Math.ceil(to * 1e9));
						},
					],
					setCursor: [
						(u) => {
							const i = u.cursor.idx;
							if (i === null || i === undefined || data.series.length === 0) return void (element.title = "");
							const sum = data.series.reduce((s, one) => s + (one.values[i] ?? 0), 0);
							const seen = data.covered[i];
							element.title = seen === null || seen === 0 ? "no data here" : `${rate(sum, data.unit, seconds)}`;
						},
					],
				},
			},
			[xs, ...top] as uPlot.AlignedData,
			element,
		);
		const observer = new ResizeObserver(() => plot.setSize({ width: Math.max(100, element.clientWidth), height: 92 }));
		observer.observe(element);
		return () => {
			observer.disconnect();
			plot.destroy();
		};
	}, [data, theme]);
	return <div ref={box} class="timeline" role="img" aria-label={`${props.label} over time. Drag selects a time; [ and ] move it.`} />;
}
