// theme.ts - dark and light: the system's choice unless the switch says otherwise, kept on this computer.

import { useEffect, useState } from "preact/hooks";
import type { Theme } from "./flame/colour";

const KEY = "flametap.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

function stored(): Theme | null {
	try {
		const v = localStorage.getItem(KEY);
		return v === "dark" || v === "light" ? v : null;
	} catch {
		return null; // storage refused: the system's choice
	}
}

export function useTheme(): [Theme, () => void] {
	const [chosen, setChosen] = useState(stored);
	const [system, setSystem] = useState<Theme>(dark.matches ? "dark" : "light");
	useEffect(() => {
		const change = () => setSystem(dark.matches ? "dark" : "light");
		dark.addEventListener("change", change);
		return () => dark.removeEventListener("change", change);
	}, []);
	const theme = chosen ?? system;
	document.documentElement.dataset.theme = theme;
	return [
		theme,
		() => {
			const next = theme === "dark" ? "light" : "dark";
			try {
				localStorage.setItem(KEY, next);
			} catch {
				/* for this page only */
			}
			setChosen(next);
		},
	];
}

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

export function cssColour(name: string): string {
	return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
