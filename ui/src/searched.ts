// searched.ts - the program is asked what a search finds once nobody types any more, and only what may be an expression.

import { useEffect, useState } from "preact/hooks";
import { expression } from "./selector";

const SETTLE_MS = 250;

/** The search as it was for a while; "": none, or a broken one. */
export function useSearched(search: string): string {
	const text = search && typeof expression(search) !== "string" ? search : "";
	const [settled, setSettled] = useState(text);
	useEffect(() => {
		const timer = setTimeout(() => setSettled(text), SETTLE_MS);
		return () => clearTimeout(timer);
	}, [text]);
	return text && settled;
}
