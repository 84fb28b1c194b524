// draw.mjs - time to draw a frame of 200,000 nodes, also 2,000 deep, in Chromium: `node bench/draw.mjs [FRAMES]`.
import { build } from "esbuild";
import { chromium } from "playwright-core";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const bundle = await build({ absWorkingDir: here, entryPoints: ["draw-page.ts"], bundle: true, format: "iife", target: "es2022", write: false });
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu"] });
const frames = Number(process.argv[2] ?? 300);
const page = await browser.newPage({ viewport: { width: 1640, height: 940 } });
await page.addScriptTag({ content: bundle.outputFiles[0].text });
for (const [nodes, depth] of [[200_000, 60], [200_000, 2000]]) {
	await page.evaluate(([n, d]) => window.run(n, d, 30), [nodes, depth]); // warm
	const r = await page.evaluate(([n, d, f]) => window.run(n, d, f), [nodes, depth, frames]);
	console.log(`draw ${r.nodes} nodes, ${r.depth} deep, ${r.frames} frames, ${r.boxes} boxes a frame: p50 ${r.p50} ms, p90 ${r.p90}, p99 ${r.p99}, max ${r.max}`);
}
await browser.close();
