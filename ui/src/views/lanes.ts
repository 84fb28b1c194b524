// lanes.ts - what the lanes of the flame chart are called: whose they are, and what else there is where that is the same.

import type { Lane } from "../api";

/** As much of a container's id as tells it from others. */
const ID_SHOWN = 12;

const joined = (...parts: string[]): string => parts.filter(Boolean).join("  ·  ");

function nameOf(lane: Lane): string {
	const process = [lane.process, lane.pid].filter(Boolean).join(" ");
	const thread = [lane.thread, lane.thread_id].filter(Boolean).join(" ");
	return joined(process, thread, lane.host) || "(not said)";
}

/** What a URL calls it: the same in a later answer, where lanes have other places. */
export const laneId = (lane: Lane): string => [lane.host, lane.container.slice(0, ID_SHOWN), lane.pid, lane.thread_id].filter(Boolean).join(" ") || nameOf(lane);

/** Places of each name's lanes. */
function grouped(names: string[]): number[][] {
	const at = new Map<string, number[]>();
	for (const [i, name] of names.entries()) at.set(name, [...(at.get(name) ?? []), i]);
	return [...at.values()];
}

/** A name of its own for each of the lanes: those that would be called the same have their containers in it, or are numbered. */
export function laneNames(lanes: Lane[]): string[] {
	const names = lanes.map(nameOf);
	for (const places of grouped(names)) {
		const containers = new Set(places.map((i) => lanes[i].container));
		if (containers.size > 1) for (const i of places) names[i] = joined(names[i], lanes[i].container.slice(0, ID_SHOWN));
	}
	for (const places of grouped(names)) if (places.length > 1) for (const [k, i] of places.entries()) names[i] = joined(names[i], `(${k + 1})`);
	return names;
}
