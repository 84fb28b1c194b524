// report.ts - this page in one file, with the answers that it would ask for (src/web/answer_report.c): nothing is asked of
// anyone, and what is shown can't leave what lies in the file.

export interface Report {
	version: string;
	/** Nanoseconds since 1970, as text. */
	made: string;
	/** The page's URL query when it was made. */
	state: string;
	parts: Map<string, Uint8Array<ArrayBuffer>>;
}

let opened: Report | null = null;

/** The report that this file is; null: a page with a program behind it. */
export const report = (): Report | null => opened;

async function unpack(base64: string): Promise<Uint8Array<ArrayBuffer>> {
	const packed = Uint8Array.from(atob(base64.trim()), (c) => c.charCodeAt(0));
	const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
	return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Throws an Error that says what is wrong with the file. */
export async function openReport(): Promise<void> {
	const text = document.getElementById("report")?.textContent;
	if (!text) return;
	const bytes = await unpack(text);
	const view = new DataView(bytes.buffer);
	if (bytes.length < 8 || view.getUint32(0, true) !== 0x31525446) throw new Error("the report's data is damaged");
	const length = view.getUint32(4, true);
	const header: { version: string; made: string; state: string; parts: [string, number][] } = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
	let at = 8 + length;
	const parts = new Map<string, Uint8Array<ArrayBuffer>>();
	for (const [name, size] of header.parts) {
		if (size > bytes.length - at) throw new Error(`the report is cut short: ${name} has ${size} bytes, ${bytes.length - at} are left`);
		parts.set(name, bytes.slice(at, at + size));
		at += size;
	}
	opened = { ...header, parts };
	document.title = "flametap: report";
}

/** A question's answer, if it is in the file. */
export function reported(path: string, params: URLSearchParams): Uint8Array<ArrayBuffer> | null {
	const name = path + (params.has("inverted") ? " inverted" : path === "top" && (params.has("query2") || params.has("from2")) ? " diff" : "");
	return opened!.parts.get(name) ?? null;
}
