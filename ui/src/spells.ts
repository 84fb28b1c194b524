// spells.ts - where along a window there is something: what is drawn along time shows that, not hours of nothing.

import type { Timeline } from "./api";

export interface Spell {
	from: number; // ns since 1970
	to: number;
	value: number;
}

/** What lies nearer than this part of the window is one spell; less than this part of it filled is sparse. */
const NEAR = 0.05;
const SPARSE = 1 / 3;
const MOST = 8;

/** In the order of time. Empty: the window is as well shown whole. */
export function spellsOf({ start_ns, step_ns, covered, series }: Timeline): Spell[] {
	const start = Number(start_ns);
	const spells: Spell[] = [];
	covered.forEach((share, i) => {
		const value = series.reduce((sum, s) => sum + (s.values[i] ?? 0), 0);
		if (value <= 0 && !share) return;
		const [from, to] = [start + i * step_ns, start + (i + 1) * step_ns];
		const last = spells[spells.length - 1];
		if (last && from - last.to <= NEAR * covered.length * step_ns) Object.assign(last, { to, value: last.value + value });
		else spells.push({ from, to, value });
	});
	const filled = spells.reduce((sum, s) => sum + s.to - s.from, 0);
	const some = spells.filter((s) => s.value > 0);
	return some.length > 0 && some.length <= MOST && filled < SPARSE * covered.length * step_ns ? some : [];
}

/** The one to look at first. */
export const heaviest = (spells: Spell[]): number => spells.reduce((best, s, i) => (s.value >= spells[best].value ? i : best), 0);
