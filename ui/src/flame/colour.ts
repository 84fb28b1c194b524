// colour.ts - what a frame's colour says. Hue by frame type, by binary or by function, lightness by name so that
// neighbours differ; a diff goes from blue (less) over grey to orange (more), which colour-blind eyes tell apart.

import { FLAG_GROUP, fnv, type Tree } from "./tree";

export type ColourMode = "type" | "binary" | "function";
export type Theme = "light" | "dark";

/** Hue and chroma per frame type; those not listed share one. Chosen apart from each other in OKLCH. */
const TYPE_HUES: Record<string, [number, number]> = {
	kernel: [28, 0.115],
	native: [70, 0.12],
	go: [205, 0.1],
	rust: [50, 0.12],
	jvm: [145, 0.11],
	cpython: [255, 0.105],
	v8js: [105, 0.12],
	php: [290, 0.1],
	ruby: [5, 0.12],
	perl: [230, 0.08],
	dotnet: [315, 0.1],
	beam: [340, 0.1],
	luajit: [180, 0.09],
};
const PLAIN: [number, number] = [90, 0.015];

/** OKLCH (lightness 0..1, chroma, hue in degrees) as a pixel: 0xAABBGGRR, as little-endian RGBA bytes are read. */
export function pixel(l: number, c: number, h: number): number {
	const a = c * Math.cos((h * Math.PI) / 180);
	const b = c * Math.sin((h * Math.PI) / 180);
	const [p, q, r] = [l + 0.3963377774 * a + 0.2158037573 * b, l - 0.1055613458 * a - 0.0638541728 * b, l - 0.0894841775 * a - 1.291485548 * b].map((v) => v ** 3);
	const linear = [4.0767416621 * p - 3.3077115913 * q + 0.2309699292 * r, -1.2684380046 * p + 2.6097574011 * q - 0.3413193965 * r, -0.0041960863 * p - 0.7034186147 * q + 1.707614701 * r];
	const [red, green, blue] = linear.map((v) => Math.round(255 * Math.max(0, Math.min(1, v <= 0.0031308 ? 12.92 * v : 1.055 * v ** (1 / 2.4) - 0.055))));
	return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

export const css = (p: number) => `rgb(${p & 255} ${(p >> 8) & 255} ${(p >> 16) & 255})`;

/** "#rgb" or "#rrggbb" as a pixel. */
export function parsePixel(hex: string): number {
	const full = hex.length === 4 ? hex.replace(/[0-9a-f]/gi, "$&$&") : hex;
	const v = parseInt(full.slice(1), 16);
	return ((255 << 24) | ((v & 255) << 16) | (v & 0xff00) | (v >> 16)) >>> 0;
}

function shade(hue: number, chroma: number, salt: number, theme: Theme): number {
	const step = (salt % 5) / 4; // five steps of lightness
	const l = theme === "light" ? 0.76 + 0.11 * step : 0.66 + 0.1 * step;
	return pixel(l, chroma * (theme === "light" ? 1 : 0.92), hue + ((salt >> 4) % 9) - 4);
}

/** A colour per frame; computed once per tree, mode and theme. */
export function frameColours(tree: Tree, mode: ColourMode, theme: Theme): Uint32Array {
	const { flags, name, binary } = tree.frames;
	const hashes = tree.frameHash();
	const colours = new Uint32Array(name.length);
	// where nobody said what frames are, types would be one grey
	if (mode === "type" && tree.header.frame_types.every((t) => t === "")) mode = "function";
	for (let i = 0; i < colours.length; i++) {
		if (flags[i] & (1 << 9)) {
			colours[i] = pixel(theme === "light" ? 0.87 : 0.45, 0.005, 90);
			continue;
		}
		if (flags[i] & FLAG_GROUP) {
			// a heading, no code: the neutral that no frame type has
			colours[i] = pixel(theme === "light" ? 0.83 : 0.6, 0.03, 260);
			continue;
		}
		const type = tree.header.frame_types[flags[i] & 255] ?? "";
		if (mode === "type") {
			const [hue, chroma] = TYPE_HUES[type] ?? PLAIN;
			colours[i] = shade(hue, chroma, hashes[i] >>> 7, theme);
		} else {
			const h = fnv(tree.strings[mode === "binary" ? binary[i] : name[i]]);
			colours[i] = shade((h >>> 8) % 360, 0.1, hashes[i] >>> 7, theme);
		}
	}
	return colours;
}

/** Of functions whose type nobody said: any. */
export const ANY_HUE = "conic-gradient(oklch(0.75 0.1 30), oklch(0.75 0.1 150), oklch(0.75 0.1 270), oklch(0.75 0.1 30))";

/** As the graph has it by function. */
export function functionColour(name: string, binary: string, theme: Theme): string {
	const h = fnv(name);
	return css(shade((h >>> 8) % 360, 0.1, (Math.imul(h ^ (fnv(binary) >>> 3), 0x01000193) >>> 0) >>> 7, theme));
}

export function typeColour(type: string, theme: Theme, salt = 2): string {
	const [hue, chroma] = TYPE_HUES[type] ?? PLAIN;
	return css(shade(hue, chroma, salt, theme));
}

const DIFF_STEPS = 16;

/** 2 * DIFF_STEPS + 1 colours from "gone" to "new". */
export function diffScale(theme: Theme): Uint32Array {
	const scale: number[] = [];
	for (let i = -DIFF_STEPS; i <= DIFF_STEPS; i++) {
		const t = Math.abs(i) / DIFF_STEPS;
		const l = theme === "light" ? 0.9 - 0.22 * t : 0.66 + 0.1 * t;
		scale.push(pixel(l, 0.015 + 0.15 * t, i < 0 ? 245 : 55));
	}
	return Uint32Array.from(scale);
}

/** Where a node lies on the scale: by the change of its share, a doubling being half of the way. */
export function diffStep(share: number, share2: number): number {
	if (share === share2) return DIFF_STEPS;
	if (share === 0) return 2 * DIFF_STEPS;
	if (share2 === 0) return 0;
	const t = Math.max(-1, Math.min(1, Math.log2(share2 / share) / 2));
	return DIFF_STEPS + Math.round(t * DIFF_STEPS);
}
