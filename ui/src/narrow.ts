// narrow.ts - a phone, or large letters: what does not fit beside each other is opened, or scrolls. As style.css has it.

import { useEffect, useState } from "preact/hooks";

const narrow = matchMedia("(max-width: 760px)");

export function useNarrow(): boolean {
	const [is, setIs] = useState(narrow.matches);
	useEffect(() => {
		const change = () => setIs(narrow.matches);
		narrow.addEventListener("change", change);
		return () => narrow.removeEventListener("change", change);
	}, []);
	return is;
}
