// source.tsx - the lines of one file with their self and total.

import type { Source as Data } from "../api";
import { percent, value } from "../format";
import { Empty } from "../parts/states";

export function SourceView(props: { data: Data; name: string }) {
	const { data } = props;
	if (data.lines.length === 0)
		return (
			<Empty what="No lines are known of this function">
				<p>Line numbers come from debug information: with the program's debug package installed, new samples have them.</p>
			</Empty>
		);
	const most = data.lines.reduce((m, l) => Math.max(m, l[2]), 0) || 1;
	return (
		<section class="source" aria-label={`Source of ${data.file}`}>
			<h2>{data.file}</h2>
			<p class="dim">
				The lines that cost something, of the file that {props.name} costs most in. A stack counts once in a line's total, however often it is there.
			</p>
			<div class="source-lines" tabIndex={0} role="region" aria-label="Lines">
				<table>
					<thead>
						<tr>
							<th scope="col">line</th>
							<th scope="col">self</th>
							<th scope="col">self %</th>
							<th scope="col">total</th>
							<th scope="col">total %</th>
							<th scope="col">share of the dearest line</th>
						</tr>
					</thead>
					<tbody>
						{data.lines.map(([line, self, total]) => (
							<tr key={line}>
								<th scope="row" class="number">
									{line}
								</th>
								<td class="number">{self > 0 ? value(self, data.unit) : ""}</td>
								<td class="number">{self > 0 ? percent(self, data.total) : ""}</td>
								<td class="number">{value(total, data.unit)}</td>
								<td class="number">{percent(total, data.total)}</td>
								<td class="share">
									<meter value={total} max={most} aria-label={`line ${line}: ${percent(total, most)}`} />
								</td>
							</tr>
						))}
					</tbody>
				</table>
			</div>
		</section>
	);
}
