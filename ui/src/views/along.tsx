// along.tsx - what is drawn along time, heat map and flame chart: the part of the window that has something, and the burst
// that is chosen of it.

import { useMemo, useState } from "preact/hooks";
import { askJSON, askTree, useAnswer, type Chart as ChartData, type Heatmap } from "../api";
import { clock, duration, exactClock, timeless } from "../format";
import { Nodata, NoTimes } from "../parts/notes";
import { Show } from "../parts/states";
import { fromFirst, instant } from "../questions";
import { report } from "../report";
import { heaviest, spellsOf } from "../spells";
import { selectionParams, type Store } from "../state";
import { Chart, LANES_MOST } from "./chart";
import { FlameView } from "./flame";
import { Heat } from "./heat";
import type { PaneProps } from "./panes";

const onlyTime = ([from, to]: [number, number]) => ({ from: String(from), to: String(to), zoom: "", live: false, pick: "" });

/** A burst that was chosen: its flame graph, or a closer look at it. */
function Picked(props: { store: Store; range: [number, number]; onDrop(): void }) {
	const [from, to] = props.range;
	const change = onlyTime(props.range);
	if (report()) return null;
	return (
		<div class="picked row" role="status">
			<span>
				{duration(to - from)}, {exactClock(from)} to {exactClock(to)}
			</span>
			<button type="button" onClick={() => props.store.set({ ...change, view: "icicle" })}>
				Flame graph of it
			</button>
			<button type="button" onClick={() => props.store.set(change)}>
				Zoom in
			</button>
			<button type="button" class="quiet" aria-label="Drop the selection" onClick={props.onDrop}>
				✕
			</button>
		</div>
	);
}

/** The flame graph of what was chosen of the heat map, below it. */
function PickedGraph(props: PaneProps & { range: [number, number] }) {
	const { store, range } = props;
	const state = { ...store.state, ...onlyTime(range), zoom: store.state.zoom };
	const params = selectionParams(state);
	const answer = useAnswer(`pick ${params} ${props.answerKey}`, (signal) => askTree("flamegraph", params, signal));
	return (
		<Show answer={answer}>
			{(tree) =>
				tree.header.total[0] === 0 ? (
					<p class="note">No sample is of that time.</p>
				) : (
					<FlameView
						tree={tree}
						store={{ ...store, state }}
						theme={props.theme}
						actions={props.actions}
						upwards={false}
						dimmed={answer.loading}
						label={`Flame graph of ${duration(range[1] - range[0])}, ${exactClock(range[0])} to ${exactClock(range[1])}`}
						onSelect={props.onSelect}
						onOther={() => store.set({ ...onlyTime(range), view: "icicle" })}
					/>
				)
			}
		</Show>
	);
}

function usePicked(props: PaneProps): [[number, number] | null, (range: [number, number] | null) => void] {
	const { state, set } = props.store;
	const said = /^(\d+)\.\.(\d+)$/.exec(state.pick);
	const range: [number, number] | null = said && [Number(said[1]), Number(said[2])];
	/* Of another time it is none. */
	const here = range && range[1] > instant(state.from) && range[0] < instant(state.to) && range[0] < range[1];
	return [here ? range : null, (one) => set({ pick: one ? one.map((t) => Math.round(t)).join("..") : "" }, "replace")];
}

/** What is asked for along the window: all of it, or where there is something; null: that is not known yet. */
function useSpell(props: PaneProps): { params: URLSearchParams | null; note: preact.JSX.Element | null } {
	const { store, status, line } = props;
	const known = line !== undefined;
	/* Not anew with each sample that comes. */
	const spells = useMemo(() => (line && !report() ? spellsOf(line) : []), [props.answerKey, known]);
	const [chosen, setChosen] = useState({ of: "", at: 0 });
	const of = `${store.state.from} ${store.state.to}`;
	const whole = fromFirst(store.state, status);
	if (spells.length === 0) return { params: known ? whole : null, note: null };
	const at = chosen.of === of && chosen.at < spells.length ? chosen.at : heaviest(spells);
	const [from, to] = [instant(whole.get("from")!), instant(whole.get("to")!)];
	const window = instant(store.state.to) - instant(store.state.from);
	const filled = spells.reduce((sum, s) => sum + s.to - s.from, 0);
	const params = new URLSearchParams(whole);
	const spell = at < 0 ? null : spells[at];
	if (spell && spell.from > from) params.set("from", String(spell.from));
	if (spell && spell.to < to) params.set("to", String(spell.to));
	const same = (a: number, b: number) => clock(a).slice(0, 5) === clock(b).slice(0, 5);
	const name = (s: { from: number; to: number }) => `${clock(s.from)} – ${same(s.from, s.to) ? clock(s.to).slice(6) : clock(s.to)} (${duration(s.to - s.from)})`;
	return {
		params,
		note: (
			<div class="row spells">
				<span>
					Only {duration(filled)} of these {duration(window)} have data:
				</span>
				<div class="segments" role="group" aria-label="Where there is data">
					{spells.map((s, i) => (
						<button key={s.from} type="button" aria-pressed={i === at} onClick={() => setChosen({ of, at: i })}>
							{name(s)}
						</button>
					))}
					<button type="button" aria-pressed={at < 0} onClick={() => setChosen({ of, at: -1 })}>
						all of it
					</button>
				</div>
			</div>
		),
	};
}

export function HeatPane(props: PaneProps) {
	return timeless(props.store.state.to) ? <NoTimes store={props.store} /> : <TimedHeat {...props} />;
}

export function ChartPane(props: PaneProps) {
	return timeless(props.store.state.to) ? <NoTimes store={props.store} /> : <TimedChart {...props} />;
}

function TimedHeat(props: PaneProps) {
	const [picked, setPicked] = usePicked(props);
	const { params, note } = useSpell(props);
	params?.set("width", "600");
	const answer = useAnswer(params && `heat ${params} ${props.answerKey}`, (signal) => askJSON<Heatmap>("heatmap", params!, signal));
	return (
		<Show answer={answer}>
			{(data) =>
				data.columns === 0 ? (
					<Nodata store={props.store} status={props.status} />
				) : (
					<>
						{note}
						<Heat
							data={data}
							line={props.line ?? null}
							theme={props.theme}
							picked={picked}
							onSelect={(from, to) => setPicked([from, to])}
							onDrop={() => setPicked(null)}
							onOpen={() => picked && !report() && props.store.set({ ...onlyTime(picked), view: "icicle" })}
						/>
						{picked && <Picked store={props.store} range={picked} onDrop={() => setPicked(null)} />}
						{picked && !report() && <PickedGraph {...props} range={picked} />}
					</>
				)
			}
		</Show>
	);
}

/** How many lanes, and behind how many. */
function lanesOf(text: string): [number, number] {
	const said = /^(\d{1,3})\.(\d{1,7})$/.exec(text);
	return said ? [Math.max(1, Math.min(LANES_MOST, Number(said[1]))), Number(said[2])] : [50, 0];
}

function TimedChart(props: PaneProps) {
	const [picked, setPicked] = usePicked(props);
	const { state, set } = props.store;
	const [lanes, skip] = lanesOf(state.lanes);
	const { params, note } = useSpell(props);
	params?.set("width", String(Math.min(2000, Math.max(300, innerWidth))));
	params?.set("lanes", String(lanes));
	if (skip > 0) params?.set("skip", String(skip));
	const answer = useAnswer(params && `chart ${params} ${props.answerKey}`, (signal) => askJSON<ChartData>("chart", params!, signal));
	return (
		<Show answer={answer}>
			{(data) =>
				data.lanes.length === 0 && skip === 0 ? (
					<Nodata store={props.store} status={props.status} />
				) : (
					<>
						{note}
						<Chart data={data} theme={props.theme} picked={picked} onPick={(from, to) => setPicked([from, to])} lanes={lanes} skip={skip} onLanes={(l, s) => set({ lanes: `${l}.${s}` }, "replace")} open={state.open} onOpen={(open) => set({ open }, "replace")} />
						{picked && <Picked store={props.store} range={picked} onDrop={() => setPicked(null)} />}
					</>
				)
			}
		</Show>
	);
}
