// said.tsx - what was done that is not seen otherwise, in words: for a while below, and by a screen reader.

import { useEffect, useState } from "preact/hooks";

interface Saying {
	text: string;
	/** To be taken by hand: what could not be copied. */
	code: string;
}

const SHOWN_MS = 5000;
let tell: (saying: Saying) => void = () => {};

export const say = (text: string, code = ""): void => tell({ text, code });

/** Copies and says so; or says that it was refused, and shows what was to be copied. */
export async function copyText(text: string, what: string): Promise<boolean> {
	const done = navigator.clipboard
		? await navigator.clipboard.writeText(text).then(() => true, () => false)
		: copiedByHand(text);
	if (done) say(`Copied: ${what}`);
	else say(`The browser refused to copy ${what}:`, text);
	return done;
}

/** There is no clipboard API without TLS on a foreign address. */
function copiedByHand(text: string): boolean {
	const area = document.createElement("textarea");
	area.value = text;
	document.body.append(area);
	area.select();
	const done = document.execCommand("copy");
	area.remove();
	return done;
}

export function Said() {
	const [saying, setSaying] = useState<Saying | null>(null);
	tell = setSaying;
	useEffect(() => {
		/* What is to be copied by hand stays until it is closed. */
		if (!saying || saying.code) return;
		const timer = setTimeout(() => setSaying(null), SHOWN_MS);
		return () => clearTimeout(timer);
	}, [saying]);
	return (
		<aside class={saying ? "said" : "visually-hidden"} aria-label="What was done">
			<span role="status">{saying?.text ?? ""}</span>
			{saying?.code && (
				<>
					<code>{saying.code}</code>
					<button type="button" class="quiet" aria-label="Close" onClick={() => setSaying(null)}>
						✕
					</button>
				</>
			)}
		</aside>
	);
}
