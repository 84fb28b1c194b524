// side-by-side.mjs - one profile in three viewers: ours, speedscope and d3-flame-graph, in one picture.
//
//   node bench/side-by-side.mjs [FILE] [OUT]         (in ui/; defaults: the recorded body of the tests, ../docs/side-by-side.png)
//
// The other two come from npm into ../build/side-by-side when this runs; nothing of theirs is in the tree. Each shows what
// our program exported of FILE as folded stacks. FLAMETAP: the program
// (../build/release/flametap). Says for each how long it took from opening to a picture, and how many frames it drew.
import { build } from "esbuild";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { basename, dirname, extname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));
const file = resolve(process.argv[2] || join(here, "../../tests/fixtures/otlp/v1.11.0-oncpu-big.pb"));
const out = resolve(process.argv[3] || join(here, "../../docs/side-by-side.png"));
const program = resolve(process.env.FLAMETAP ?? join(here, "../../build/release/flametap"));
const work = join(here, "../../build/side-by-side");
const VERSIONS = { speedscope: "1.25.0", "d3-flame-graph": "5.0.0", "d3-selection": "3.0.0" };
const [WIDTH, HEIGHT] = [1000, 720];

mkdirSync(work, { recursive: true });
if (!existsSync(join(work, "node_modules/speedscope/dist/release/index.html")) || !existsSync(join(work, "node_modules/d3-flame-graph"))) {
	writeFileSync(join(work, "package.json"), JSON.stringify({ private: true, dependencies: VERSIONS }));
	execFileSync("npm", ["install", "--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts"], { cwd: work, stdio: "inherit" });
}

const server = spawn(program, ["view", "--listen", "127.0.0.1:0", "--quiet", basename(file)], { cwd: dirname(file), stdio: ["ignore", "pipe", "inherit"] });
process.on("exit", () => server.kill("SIGTERM"));
const ours = await new Promise((done, failed) => {
	server.on("exit", (code) => failed(new Error(`flametap view ended with ${code}`)));
	server.stdout.once("data", (text) => done(String(text).trim()));
});
const get = async (what) => (await fetch(`${ours}api/v1/export?format=${what}&from=0`)).text();
const folded = await get("folded");

/** Folded stacks as the nested objects that d3-flame-graph reads. */
function nested(text) {
	const root = { name: "all", value: 0, children: new Map() };
	for (const line of text.trim().split("\n")) {
		const at = line.lastIndexOf(" ");
		const value = Number(line.slice(at + 1));
		let node = root;
		root.value += value;
		for (const name of line.slice(0, at).split(";")) {
			if (!node.children.has(name)) node.children.set(name, { name, value: 0, children: new Map() });
			node = node.children.get(name);
			node.value += value;
		}
	}
	const plain = (n) => ({ name: n.name, value: n.value, children: [...n.children.values()].map(plain) });
	return plain(root);
}

const d3Page = `
	import { select } from "d3-selection";
	import flamegraph from "d3-flame-graph";
	const data = await (await fetch("/tree.json")).json();
	const began = performance.now();
	const chart = flamegraph().width(innerWidth - 16).cellHeight(18).minFrameSize(1).inverted(true).sort(true);
	select("#chart").datum(data).call(chart);
	window.__drawn = { ms: performance.now() - began, frames: document.querySelectorAll("#chart g.frame").length };`;
const bundle = await build({ stdin: { contents: d3Page, resolveDir: work, loader: "js" }, bundle: true, format: "esm", write: false, legalComments: "none", loader: { ".css": "empty" } });
const own = new Map([
	["/tree.json", ["application/json", JSON.stringify(nested(folded))]],
	["/profile.folded", ["text/plain", folded]],
	["/d3.js", ["text/javascript", bundle.outputFiles[0].text]],
	["/d3.css", ["text/css", readFileSync(join(work, "node_modules/d3-flame-graph/dist/d3-flamegraph.css"), "utf8")]],
	["/d3.html", ["text/html", '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="/d3.css"><div id="chart"></div><script type="module" src="/d3.js"></script>']],
]);
const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm", ".json": "application/json" };
const files = createServer((request, response) => {
	const path = decodeURIComponent(new URL(request.url, "http://x").pathname);
	const known = own.get(path);
	const on = join(work, "node_modules/speedscope/dist/release", path.replace(/^\/speedscope/, "").replace(/\.\./g, ""));
	if (known) response.writeHead(200, { "content-type": known[0] }).end(known[1]);
	else if (path.startsWith("/speedscope/") && existsSync(on)) response.writeHead(200, { "content-type": types[extname(on)] ?? "application/octet-stream" }).end(readFileSync(on));
	else response.writeHead(404).end();
});
await new Promise((done) => files.listen(0, "127.0.0.1", done));
const base = `http://127.0.0.1:${files.address().port}`;

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader"] });
const shots = [];
async function shoot(name, url, ready, act) {
	const page = await (await browser.newContext({ viewport: { width: WIDTH, height: HEIGHT }, reducedMotion: "reduce" })).newPage();
	const began = performance.now();
	await page.goto(url, { waitUntil: "load" });
	await page.waitForFunction(ready, null, { timeout: 120_000 });
	const ms = performance.now() - began;
	const said = (await act?.(page)) ?? "";
	shots.push([name, await page.screenshot()]);
	console.log(`${name}: ${ms.toFixed(0)} ms to a picture${said ? `; ${said}` : ""}`);
	await page.close();
}

try {
	await shoot("Flametap", ours, () => window.__state?.loading === false && window.__state.total > 0 && !document.querySelector(".show.loading"), async (page) => {
		const { nodes, rows } = await page.evaluate(() => window.__state);
		return `${nodes} nodes, ${rows} functions in the table`;
	});
	/* Its "Left Heavy" view is the merged one. */
	await shoot(`speedscope ${VERSIONS.speedscope}`, `${base}/speedscope/index.html#profileURL=${encodeURIComponent(`${base}/profile.folded`)}`, () => document.querySelectorAll("canvas").length > 1, async (page) => {
		await page.keyboard.press("2");
		await page.waitForTimeout(1500);
	});
	await shoot(`d3-flame-graph ${VERSIONS["d3-flame-graph"]}`, `${base}/d3.html`, () => window.__drawn, async (page) => {
		const { ms, frames } = await page.evaluate(() => window.__drawn);
		await page.waitForTimeout(1500); // names fade in
		return `${frames} SVG frames, ${ms.toFixed(0)} ms of it drawing`;
	});
	for (const [name, png] of shots) writeFileSync(join(work, `${name.split(" ")[0]}.png`), png);
	const sheet = await (await browser.newContext({ viewport: { width: shots.length * (WIDTH + 12) + 12, height: HEIGHT + 48 } })).newPage();
	const figure = ([name, png]) => `<figure><figcaption>${name}</figcaption><img src="data:image/png;base64,${png.toString("base64")}"></figure>`;
	await sheet.setContent(`<style>body{margin:0;padding:12px 0 0 12px;display:flex;gap:12px;background:#d9d7d0;font:600 16px system-ui}figure{margin:0}figcaption{height:24px}img{display:block}</style>${shots.map(figure).join("")}`);
	await sheet.evaluate(() => Promise.all([...document.images].map((i) => i.decode())));
	await sheet.screenshot({ path: out });
	console.log(out);
} finally {
	await browser.close();
	server.kill("SIGTERM");
	files.close();
}
