// source.tsx - the lines of one file with their self and total; the text where flametap was given --source.

import type { Source as Data } from "../api";
import { percent, value } from "../format";
import { Empty } from "../parts/states";

export function SourceView(props: { data: Data }) {
	const { data } = props;
	if (data.lines.length === 0)
		return (
			<Empty what="No lines are known of this function">
				<p>Line numbers come from debug information: install the debug package, or set DEBUGINFOD_URLS and run `flametap symbolize`.</p>
			</Empty>
		);
	const by = new Map(data.lines.map(([line, self, total]) => [line, { self, total }]));
	const numbers = data.text ? data.text.map((_, i) => i + 1) : data.lines.map((l) => l[0]);
	return (
		<section class="source" aria-label={`Source of ${data.file}`}>
			<h2>{data.file}</h2>
			{data.reason && <p class="dim">{data.reason}</p>}
			<table>
				<thead>
					<tr>
						<th scope="col">self</th>
						<th scope="col">total</th>
						<th scope="col">line</th>
						<th scope="col">text</th>
					</tr>
				</thead>
				<tbody>
					{numbers.map((n) => {
						const hit = by.get(n);
						return (
							<tr key={n} class={hit ? "hit" : ""}>
								<td class="number">{hit && hit.self > 0 ? `${value(hit.self, data.unit)} ${percent(hit.self, data.total)}` : ""}</td>
								<td class="number">{hit ? `${value(hit.total, data.unit)} ${percent(hit.total, data.total)}` : ""}</td>
								<td class="number">{n}</td>
								<td>
									<code>{data.text?.[n - 1] ?? ""}</code>
								</td>
							</tr>
						);
					})}
				</tbody>
			</table>
		</section>
	);
}
