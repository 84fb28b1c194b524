// times.ts - instants as URLs and people write them (src/query/time/time_range.h): nanoseconds since 1970, exactly.

const UNITS: Record<string, bigint> = { s: 1n, m: 60n, h: 3600n, d: 86_400n };

/** How long before now, of "now-15m"; null: it is another text. */
export function spanOf(text: string): bigint | null {
	const m = /^now-(\d+)([smhd])$/.exec(text);
	return m ? BigInt(m[1]) * UNITS[m[2]] * 1_000_000_000n : null;
}

/** RFC 3339 in digits, as the program gives times: with a blank for the T, and without a zone (UTC), too. Any other text is as it was. */
export function digits(text: string): string {
	const m = /^(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d(?::\d\d)?)(?:[.,](\d+))?)?([Zz]|[+-]\d\d:?\d\d)?$/.exec(text.trim());
	if (!m) return text;
	const [, day, time = "00:00", fraction = "", zone = "Z"] = m;
	const ms = Date.parse(`${day}T${time}${zone.toUpperCase().replace(/(\d\d):?(\d\d)$/, "$1:$2")}`);
	return Number.isNaN(ms) ? text : String(BigInt(ms) * 1_000_000n + BigInt(fraction.slice(0, 9).padEnd(9, "0")));
}

function instantAt(text: string, now: bigint): bigint | null {
	const span = spanOf(text);
	if (span !== null) return now - span;
	return text === "now" ? now : /^\d+$/.test(text) ? BigInt(text) : null;
}

/** Half of a window's length; null: its ends are no times. */
export function stepOf(from: string, to: string, now: bigint): bigint | null {
	const [a, b] = [instantAt(from, now), instantAt(to, now)];
	return a === null || b === null || b <= a ? null : (b - a) / 2n;
}

/** A window moved; null: its ends are no times, or it would go on behind now. */
export function shifted(from: string, to: string, by: bigint, now: bigint): { from: string; to: string } | null {
	const [a, b] = [instantAt(from, now), instantAt(to, now)];
	if (a === null || b === null || (by > 0n && to === "now")) return null;
	return { from: String(a + by), to: String(b + by) };
}
