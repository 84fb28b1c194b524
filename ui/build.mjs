// build.mjs - bundles the page into OUT (default ../build/ui): app.js, app.css and index.html, and each of them
// gzipped, as the program embeds them. The page is these three files: no CDN, no font, no source map.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = resolve(process.argv[2] ?? join(here, "../build/ui"));

const result = await build({
	absWorkingDir: here,
	entryPoints: { app: "src/main.tsx" },
	bundle: true,
	minify: true,
	format: "iife",
	target: "es2022",
	jsx: "automatic",
	jsxImportSource: "preact",
	legalComments: "none",
	outdir: out,
	write: false,
});

const files = new Map(result.outputFiles.map((file) => [file.path.endsWith(".css") ? "app.css" : "app.js", Buffer.from(file.contents)]));
const hash = (name) => createHash("sha256").update(files.get(name)).digest("hex").slice(0, 12);
let html = readFileSync(join(here, "src/index.html"), "utf8");
for (const name of ["app.js", "app.css"]) html = html.replace(name, `${name}?v=${hash(name)}`);
files.set("index.html", Buffer.from(html));

// What an HTML report is put into: it may run this script and use this style, told by their hashes, and nothing else.
const policy = (name) => `'sha256-${createHash("sha256").update(files.get(name)).digest("base64")}'`;
for (const [name, end] of [["app.js", /<\/script|<!--/i], ["app.css", /<\/style/i]])
	if (end.test(files.get(name).toString())) throw new Error(`${name} would end early inside an HTML file`);
files.set("report.html", Buffer.from(readFileSync(join(here, "src/report.html"), "utf8").replace("@SCRIPT_HASH@", policy("app.js")).replace("@STYLE_HASH@", policy("app.css"))));

mkdirSync(out, { recursive: true });
let total = 0;
for (const [name, bytes] of files) {
	const packed = gzipSync(bytes, { level: 9 });
	writeFileSync(join(out, name), bytes);
	writeFileSync(join(out, `${name}.gz`), packed);
	if (name !== "report.html") total += packed.length;
	console.log(`${name}: ${bytes.length} bytes, ${packed.length} gzipped`);
}
console.log(`all: ${total} bytes gzipped`);
if (total > 100_000) {
	console.error("the page is larger than 100 kB gzipped");
	process.exit(1);
}
