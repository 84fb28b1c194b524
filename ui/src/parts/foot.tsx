// foot.tsx - the promise: how much was seen, lost, cut, unnamed. What nobody reported is said to be unknown, never 0.

import { useMemo } from "preact/hooks";
import type { Coverage, Tree } from "../flame/tree";
import { count, percent } from "../format";
import { Popup } from "./menu";
import { sumOf, Why } from "./why";

/** Of a diff, what was reported is added up over both windows: one that is both was counted twice. */
function counted(coverage: Coverage | undefined, twice: boolean): Coverage | undefined {
	if (!coverage || !twice) return coverage;
	return Object.fromEntries(Object.entries(coverage).map(([key, n]) => [key, typeof n === "number" ? n / 2 : n]));
}

export function Foot(props: { tree: Tree; by: string; source: string; oneWindow: boolean }) {
	const { tree, oneWindow } = props;
	const { header } = tree;
	const [named, all] = useMemo(() => tree.naming(), [tree]);
	const coverage = useMemo(() => counted(header.coverage, oneWindow), [header, oneWindow]);
	const reports = coverage !== undefined && Object.keys(coverage).length > 0;
	/* Who says what it sampled says what it dropped, too: no word of it is none. */
	const dropped = coverage ? (sumOf(coverage, "dropped") ?? (coverage.sampled != null ? 0 : null)) : null;
	const cut = coverage ? sumOf(coverage, "cut") : null;
	const unnamed = coverage?.unnamed ?? null;
	const two = header.sides === 2 && header.samples2 !== undefined;
	/* Of what is selected; what agents say is of everything. */
	const sampled = header.samples ?? coverage?.sampled;
	/* Agents say it a moment after their samples came. */
	const whole = coverage?.sampled != null && coverage.sampled >= (oneWindow ? Math.max(header.samples ?? 0, header.samples2 ?? 0) : (header.samples ?? 0) + (header.samples2 ?? 0)) ? coverage.sampled : null;
	return (
		<footer>
			{sampled != null && (
				<span>
					{count(sampled)}
					{two && ` → ${count(header.samples2!)}`} {sampled === 1 && !two ? "sample" : "samples"}
				</span>
			)}
			{/* Files often do not say whose they are: that is not 0. */}
			{header.processes !== undefined && header.processes + (header.processes2 ?? 0) > 0 && (
				<span>
					{count(header.processes)}
					{two && header.processes2 !== undefined && ` → ${count(header.processes2)}`} {header.processes === 1 && !two ? "process" : "processes"}
				</span>
			)}
			{header.stacks >= 0 && <span>{count(header.stacks)} {header.stacks === 1 ? "stack" : "stacks"}</span>}
			{all > 0 && props.by !== "file" && props.by !== "binary" && (
				<span title={`of all frames, weighed by what they cost, so many have a function's name${unnamed ? `; ${count(unnamed)} have none` : ""}`}>names: {percent(named, all)}</span>
			)}
			<span class="lost">
				{reports && <span class="dim" title="What agents reported of this time: of everything that ran, not only of what is selected">of all{whole !== null ? ` ${count(whole)} samples` : ""}:</span>}
				<span>{dropped === null ? "losses: not reported" : `${count(dropped)} dropped`}</span>
				{cut !== null && <span>{count(cut)} cut</span>}
				{reports && (
					<Popup label="why?" title="What was lost, and why" class="quiet link">
						{() => <Why coverage={coverage} />}
					</Popup>
				)}
			</span>
			{header.partial && (
				<span class="warn" role="status">
					partial: {header.partial}
				</span>
			)}
			<span class="grow" />
			<span class="dim">{props.source}</span>
		</footer>
	);
}
