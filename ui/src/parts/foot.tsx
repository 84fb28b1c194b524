// foot.tsx - the promise: how much was seen, lost, cut, unnamed. What nobody reported is said to be unknown, never 0.

import type { Coverage, TreeHeader } from "../flame/tree";
import { count } from "../format";
import { Popup } from "./menu";

function sumOf(coverage: Coverage, prefix: string): number | null {
	const keys = Object.keys(coverage).filter((k) => k.startsWith(prefix));
	if (keys.length === 0) return null;
	return keys.reduce((sum, k) => sum + (coverage[k] ?? 0), 0);
}

export function Foot(props: { header: TreeHeader; source: string }) {
	const { header } = props;
	const coverage = header.coverage;
	const reports = coverage !== undefined && Object.keys(coverage).length > 0;
	/* Who says what it sampled says what it dropped, too: no word of it is none. */
	const dropped = coverage ? (sumOf(coverage, "dropped") ?? (coverage.sampled != null ? 0 : null)) : null;
	const cut = coverage ? sumOf(coverage, "cut") : null;
	const unnamed = coverage?.unnamed ?? null;
	const two = header.sides === 2 && header.samples2 !== undefined;
	const sampled = two ? header.samples : (coverage?.sampled ?? header.samples);
	const reasons = Object.entries(coverage ?? {}).filter(([, n]) => n !== null && n > 0);
	return (
		<footer>
			{sampled != null && (
				<span>
					{count(sampled)}
					{two && ` → ${count(header.samples2!)}`} samples
				</span>
			)}
			{header.processes !== undefined && (
				<span>
					{count(header.processes)}
					{two && header.processes2 !== undefined && ` → ${count(header.processes2)}`} processes
				</span>
			)}
			<span>{count(header.stacks)} stacks</span>
			<span>{dropped === null ? "losses: not reported" : `${count(dropped)} dropped`}</span>
			{cut !== null && <span>{count(cut)} cut</span>}
			{unnamed !== null && <span>{count(unnamed)} frames unnamed</span>}
			{reports && (
				<Popup label="why?" title="What was lost, and why" class="quiet link">
					{() => (
						<div class="why">
							{reasons.length === 0 ? (
								<p>Nothing was lost or cut.</p>
							) : (
								<dl>
									{reasons.map(([reason, n]) => (
										<>
											<dt>{reason.replace(/[:._]/g, " ")}</dt>
											<dd>{count(n!)}</dd>
										</>
									))}
								</dl>
							)}
						</div>
					)}
				</Popup>
			)}
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
