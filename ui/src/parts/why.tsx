// why.tsx - what agents reported about their own losses, in sentences: how much, what it means, what to do.

import type { Coverage } from "../flame/tree";
import { count, duration, percent } from "../format";

const UPDATE = "A newer version may know this code";

/** By reason, as agents name them: what happened, and what helps. */
const CUT: Record<string, [what: string, help: string]> = {
	kernel_only: ["kernel threads, which have no user stack", ""],
	depth: ["more than 1,024 frames deep", ""],
	no_mapping: ["an address in no executable mapping", "Code that was unmapped, or made at run time"],
	no_table: ["unwind rows of this code were not built yet", "Passes by itself: a program's first seconds"],
	no_rule: ["code without unwind information, and no frame pointer", "Build it with -fno-omit-frame-pointer or with .eh_frame"],
	unreadable: ["stack memory that was not present", "Passes by itself: a page that was swapped out or not touched yet"],
	bad_cfa: ["a frame would lie below the one it called", UPDATE],
	leaf_register: ["a caller's frame needs a register that was lost", UPDATE],
	bad_rule: ["an unwind rule that makes no sense", UPDATE],
	zero_pc: ["a return address of zero", ""],
	compat: ["32-bit processes", "They are sampled, but not unwound"],
	stale: ["the process called exec(), or loaded other code in the same place, in that moment", "Passes by itself"],
	unknown_process: ["a process of which nothing was known yet", "Passes by itself: its first moments"],
	capture: ["the stack went on behind the bytes that were copied", "Very large frames on the stack"],
	runtime: ["a language runtime's frames could not be read", UPDATE],
};

const DROPPED: Record<string, [what: string, help: string]> = {
	ring_full: ["the kernel's buffer was full", "Sample less often, or give the agent more CPU"],
	report_full: ["a report had no more room", "Sample less often, or report more often"],
	report_failed: ["a report could not be made", "The agent's log says why"],
	not_delivered: ["whoever was to get the report did not take it", "Look at the receiver; the agent's log says more"],
	no_memory: ["the agent had no memory", "Give it more"],
};

function Reasons(props: { coverage: Coverage; prefix: string; of: number; words: Record<string, [string, string]> }) {
	const { coverage, prefix, of, words } = props;
	const all = Object.entries(coverage).filter(([key, n]) => key.startsWith(`${prefix}.`) && n);
	if (all.length === 0) return null;
	return (
		<ul>
			{all.sort((a, b) => b[1]! - a[1]!).map(([key, n]) => {
				const reason = key.slice(prefix.length + 1);
				const [what, help] = words[reason] ?? [reason.replace(/[:._]/g, " "), ""];
				return (
					<li key={key}>
						{count(n!)} ({percent(n!, of)}): {what}.{help && <span class="dim"> {help}.</span>}
					</li>
				);
			})}
		</ul>
	);
}

export function sumOf(coverage: Coverage, prefix: string): number | null {
	const keys = Object.keys(coverage).filter((k) => k.startsWith(prefix));
	if (keys.length === 0) return null;
	return keys.reduce((sum, k) => sum + (coverage[k] ?? 0), 0);
}

export function Why(props: { coverage: Coverage }) {
	const { coverage } = props;
	const sampled = coverage.sampled ?? 0;
	const dropped = sumOf(coverage, "dropped") ?? 0;
	const cut = sumOf(coverage, "cut") ?? 0;
	const { unnamed, window_ns } = coverage;
	return (
		<div class="why">
			<p>
				In this time the agents took {count(sampled)} samples{window_ns ? `, in ${duration(window_ns)} of sampling` : ""}: of everything that ran, whatever the filter shows.
			</p>
			<p>{dropped === 0 ? "None was dropped." : `${count(dropped)} (${percent(dropped, sampled + dropped)}) were dropped:`}</p>
			<Reasons coverage={coverage} prefix="dropped" of={sampled + dropped} words={DROPPED} />
			<p>{cut === 0 ? "No stack was cut." : `${count(cut)} stacks (${percent(cut, sampled)}) were cut: they count, but their outermost frames are missing.`}</p>
			<Reasons coverage={coverage} prefix="cut" of={sampled} words={CUT} />
			{unnamed != null && (
				<p>
					{unnamed === 0
						? "Every frame has its function's name."
						: `${count(unnamed)} frames have no function's name, only their binary's: it was stripped. Its debug package (or DEBUGINFOD_URLS, where the agent may ask) names new samples.`}
				</p>
			)}
		</div>
	);
}
