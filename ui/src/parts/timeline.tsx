// timeline.tsx - the value over time, stacked by group; a drag over it selects the time that every view shows. Time
// without data is hatched: 0 and "nobody looked" are different things.

import { useLayoutEffect, useMemo, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Timeline as Data } from "../api";
import type { Theme } from "../flame/colour";
import { fnv } from "../flame/tree";
import { percent, rate, value, tickTime } from "../format";
import { PROCESS } from "../state";
import { useNarrow } from "../narrow";
import { cssColour } from "../theme";

/** A part of the time that has a name. */
export interface Band {
	name: "before" | "after";
	from: number; // ns
	to: number;
}

export interface TimelineProps {
	data: Data;
	theme: Theme;
	bands: Band[];
	/** `other`: with Shift, for the second side. */
	onSelect(fromNs: number, toNs: number, other: boolean): void;
	/** A click: a moment, no length of time. */
	onPoint?: (atNs: number) => void;
	onFilter?: (label: string, value: string) => void;
	label: string;
	/** Where the data is none, and says none. */
	unit: string;
}

const HEIGHT = 92;
const LEGEND_MOST = 10;
const HUES = [250, 55, 155, 320, 100, 205, 25, 285, 125, 345, 75, 180];

/* A name keeps its colour as long as the page is open, whatever rank it has at the moment; the same one elsewhere, too,
 * unless another has it there. */
const places = new Map<string, number>();

function placeOf(name: string): number {
	let at = places.get(name);
	if (at === undefined) {
		const most = 2 * HUES.length;
		const taken = new Set(places.values());
		at = fnv(name) % HUES.length;
		for (let tries = 0; tries < most && taken.has(at); tries++) at = (at + 1) % most;
		places.set(name, at);
	}
	return at;
}

function seriesColour(name: string, theme: Theme): string {
	if (name === "other") return cssColour("--merged");
	const index = placeOf(name);
	const light = (theme === "light" ? 0.7 : 0.74) - (Math.floor(index / HUES.length) % 2) * 0.12;
	return `oklch(${light} 0.1 ${HUES[index % HUES.length]})`;
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

/** What lies outside of all bands is paler; each has its name. */
function drawBands(u: uPlot, bands: Band[]): void {
	if (bands.length === 0) return;
	const { ctx } = u;
	const { left, top, width, height } = u.bbox;
	const ratio = devicePixelRatio || 1;
	const at = (ns: number) => Math.max(left, Math.min(left + width, u.valToPos(ns / 1e9, "x", true)));
	ctx.save();
	ctx.globalAlpha = 0.72;
	ctx.fillStyle = cssColour("--paper");
	let x = left;
	for (const band of [...bands].sort((a, b) => a.from - b.from)) {
		if (at(band.from) > x) ctx.fillRect(x, top, at(band.from) - x, height);
		x = Math.max(x, at(band.to));
	}
	if (x < left + width) ctx.fillRect(x, top, left + width - x, height);
	ctx.globalAlpha = 1;
	ctx.font = `${11 * ratio}px ${cssColour("--sans")}`;
	ctx.textBaseline = "top";
	for (const band of bands) {
		ctx.fillStyle = cssColour(band.name === "before" ? "--focus" : "--accent");
		ctx.fillRect(at(band.from), top, Math.max(1, at(band.to) - at(band.from)), 2 * ratio);
		ctx.textAlign = band.name === "before" ? "left" : "right";
		const edge = band.name === "before" ? at(band.from) + 4 * ratio : at(band.to) - 4 * ratio;
		const size = ctx.measureText(band.name).width;
		ctx.fillStyle = cssColour("--paper");
		ctx.fillRect(band.name === "before" ? edge - 2 : edge - size - 2, top + 4 * ratio, size + 4, 14 * ratio);
		ctx.fillStyle = cssColour("--ink");
		ctx.fillText(band.name, edge, top + 5 * ratio);
	}
	ctx.restore();
}

const nameOf = (labels: Record<string, string>, otherwise: string) => Object.values(labels).join(" ") || otherwise;
const sumOf = (values: (number | null)[]) => values.reduce<number>((sum, v) => sum + (v ?? 0), 0);

/** What the axis counts. */
const measureOf = (unit: string, gauge?: boolean) => (gauge ? (unit === "count" ? "" : unit) : unit === "nanoseconds" ? "cores" : unit === "count" || unit === "" ? "per second" : `${unit} per second`);

/** The heaviest, each with its share; a click is the filter. */
function Legend(props: TimelineProps) {
	const { data, theme } = props;
	const narrow = useNarrow();
	const shown = useMemo(() => {
		const all = data.series.map((s) => ({ key: Object.keys(s.labels)[0] ?? "", name: nameOf(s.labels, ""), sum: sumOf(s.values) })).filter((s) => s.sum > 0);
		return { whole: all.reduce((sum, s) => sum + s.sum, 0), series: all.sort((a, b) => b.sum - a.sum).slice(0, LEGEND_MOST) };
	}, [data]);
	const apart = shown.series.length > 1 || !!shown.series[0]?.name;
	return (
		<ul class="legend timeline-legend" aria-label={apart ? `Stacked by ${shown.series[0].key}` : "What the line says"} tabIndex={props.onFilter || !narrow ? undefined : 0}>
			<li class="dim line-title">
				{[props.label, measureOf(data.unit || props.unit, data.gauge)].filter(Boolean).join(", ")}
				{apart && ` by ${shown.series[0].key === PROCESS ? "process" : shown.series[0].key}`}
			</li>
			{(apart ? shown.series : []).map(({ key, name, sum }) => (
				<li key={name}>
					<button
						type="button"
						class="quiet"
						disabled={!props.onFilter || name === "other" || name === ""}
						title={`${name || "not said"}: ${percent(sum, shown.whole)}${props.onFilter ? "; a click shows only this" : ""}`}
						onClick={() => props.onFilter?.(key, name)}
					>
						<i class="dot" style={{ background: seriesColour(name, theme) }} />
						{name || "not said"}
					</button>
				</li>
			))}
		</ul>
	);
}

export function Timeline(props: TimelineProps) {
	const box = useRef<HTMLDivElement>(null);
	const select = useRef(props.onSelect);
	const shift = useRef(false);
	const pressed = useRef(0);
	const plotted = useRef<uPlot | null>(null);
	select.current = props.onSelect;
	const { data, theme, bands } = props;
	const unit = data.unit || props.unit;
	const banded = bands.map((b) => `${b.name} ${b.from} ${b.to}`).join();
	useLayoutEffect(() => {
		const element = box.current!;
		const start = Number(data.start_ns);
		const seconds = data.gauge ? 1 : data.step_ns / 1e9;
		const told = (v: number) => (data.gauge ? value(v, unit) : rate(v, unit, seconds));
		const names = data.series.map((s) => nameOf(s.labels, props.label));
		const xs = (data.series[0]?.values ?? data.covered).map((_, i) => (start + (i + 0.5) * data.step_ns) / 1e9);
		const sums = stacked(data.series.map((s) => s.values.map((v) => (v === null ? null : v / seconds))));
		const top = [...sums].reverse(); // the highest first, so that lower areas lie over it
		const axis = { stroke: cssColour("--dim"), grid: { stroke: cssColour("--line"), width: 1 }, ticks: { show: false }, font: `11px ${cssColour("--sans")}` };
		const end = (start + data.covered.length * data.step_ns) / 1e9;
		const plot = new uPlot(
			{
				width: Math.max(100, element.clientWidth),
				height: HEIGHT,
				legend: { show: false },
				cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false }, y: false },
				padding: [6, 8, 0, 0],
				scales: { x: { time: true }, y: { range: (_u, _min, max) => [0, max > 0 ? max * 1.05 : unit === "nanoseconds" ? 1e9 : 1] } },
				axes: [
					/* A label that would be cut at the right edge is left out. */
					{ ...axis, size: 22, space: 90, values: (u, ticks, _axis, _space, step) => ticks.map((t) => (((end - t) / (end - start / 1e9)) * u.width > 24 ? tickTime(t, step) : "")) },
					{ ...axis, size: 62, space: 28, values: (_u, ticks) => ticks.map((t) => (unit === "nanoseconds" ? (t < 1e13 ? `${+(t / 1e9).toPrecision(3)}` : value(t / 1e9, "")) : value(t, unit))) },
				],
				series: [
					{},
					...top.map((_, i) => {
						const index = top.length - 1 - i;
						const colour = seriesColour(names[index], theme);
						return { stroke: colour, fill: colour, width: 1, points: { show: false }, paths: uPlot.paths.stepped!({ align: 0 as never }), label: names[index] };
					}),
				],
				hooks: {
					drawClear: [(u) => hatch(u, data)],
					draw: [(u) => drawBands(u, bands)],
					setSelect: [
						(u) => {
							if (u.select.width < 3) return;
							const from = u.posToVal(u.select.left, "x");
							const to = u.posToVal(u.select.left + u.select.width, "x");
							u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
							select.current(Math.floor(from * 1e9), Math.ceil(to * 1e9), shift.current);
						},
					],
					setCursor: [
						(u) => {
							const i = u.cursor.idx;
							if (i === null || i === undefined || data.series.length === 0) return void (element.title = "");
							const here = data.series.map((one, k): [string, number] => [names[k], one.values[i] ?? 0]).filter(([, v]) => v > 0);
							const sum = here.reduce((s, [, v]) => s + v, 0);
							const seen = data.covered[i];
							const most = here.sort((a, b) => b[1] - a[1]).slice(0, 6);
							const lines = most.length > 1 ? most.map(([name, v]) => `${name}: ${told(v)}`) : [];
							element.title = seen === null || seen === 0 ? "no data here" : [told(sum), ...lines].join("\n");
						},
					],
				},
			},
			[xs, ...top] as uPlot.AlignedData,
			element,
		);
		plotted.current = plot;
		const observer = new ResizeObserver(() => plot.setSize({ width: Math.max(100, element.clientWidth), height: HEIGHT }));
		observer.observe(element);
		return () => {
			observer.disconnect();
			plot.destroy();
		};
	}, [data, theme, banded, unit]);
	const click = (event: MouseEvent) => {
		const plot = plotted.current;
		if (!props.onPoint || !plot || Math.abs(event.clientX - pressed.current) > 2) return;
		const x = event.clientX - plot.over.getBoundingClientRect().left;
		if (x > 0 && x < plot.over.clientWidth) props.onPoint(plot.posToVal(x, "x") * 1e9);
	};
	const how = bands.length > 1 ? "A click parts before and after there; drag selects the time before, with Shift the time after." : "Drag selects a time; [ and ] move it.";
	return (
		<>
			<Legend {...props} />
			<div ref={box} class="timeline" role="img" aria-label={`${props.label} over time. ${how}`} onPointerDown={(event) => ((shift.current = event.shiftKey), (pressed.current = event.clientX))} onClick={click} />
		</>
	);
}
