// help.tsx - the list of keys.

import { Dialog } from "./menu";

export const KEYS: [string, string][] = [
	["/", "search frames (regular expression); Ctrl-F too"],
	["f  i  v", "flame, icicle, inverted"],
	["s", "sandwich of the selected frame"],
	["d", "diff: split the time in the middle, or the two sides of the last one"],
	["t  h  r", "threads in time, heat map, raw samples"],
	["arrows", "walk frames; Enter zooms, Home selects the root"],
	["Backspace", "back: the zoom, then the last transform"],
	["[  ]", "move the time window by half its length"],
	["l", "live on and off"],
	["x", "swap the sides of a diff"],
	["g", "go to the filter"],
	["1  2  3", "table and graph, graph, table"],
	["c", "next colouring: type, binary, function"],
	["y", "copy the link of what is shown"],
	["?", "this list"],
];

export function Help(props: { onClose(): void }) {
	return (
		<Dialog title="Keys" onClose={props.onClose}>
			<dl class="keys">
				{KEYS.map(([key, what]) => (
					<>
						<dt>
							<kbd>{key}</kbd>
						</dt>
						<dd>{what}</dd>
					</>
				))}
			</dl>
		</Dialog>
	);
}
