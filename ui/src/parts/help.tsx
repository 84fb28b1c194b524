// help.tsx - the list of keys.

import { report } from "../report";
import { Dialog } from "./menu";

/** What a report has no program for. */
export const UNREPORTED = ["[", "]", "l", "g", "G", "x", "y", "o"];

export const KEYS: [string, string][] = [
	["/", "search the frames of a graph or sandwich (regular expression); Ctrl-F too, which is the browser's elsewhere"],
	["f  i  v", "flame, icicle, inverted"],
	["s", "sandwich of the selected frame"],
	["d", "diff: as much was measured before as after, or the two sides of the last one; again: both graphs side by side"],
	["t  h  r  o", "threads in time, heat map, raw samples, lines of source"],
	["arrows", "walk frames, or rows of the table, with their numbers; Enter zooms, Home selects the root"],
	["Shift F10", "menu of the selected frame or row; the menu key, too"],
	["+  −", "closer to the selected frame, and back; Ctrl and the wheel, too"],
	["n  N", "next match of the search, the one before"],
	["Backspace", "back: undoes the last step"],
	["Escape", "drops the chosen burst, the search, the part in sight"],
	["[  ]", "move the time window by half its length"],
	["l", "live on and off"],
	["x", "swap the sides of a diff"],
	["g  G", "go to the filter; to that of the other side of a diff"],
	["1  2  3", "table and graph, graph, table"],
	["c", "next colouring: type, binary, function"],
	["y", "copy the link of what is shown"],
	["?", "this list"],
];

export function Help(props: { onClose(): void }) {
	return (
		<Dialog title="Keys" onClose={props.onClose}>
			<dl class="keys">
				{KEYS.map(([keys, what]) => [report() ? keys.split(/\s+/).filter((key) => !UNREPORTED.includes(key)).join("  ") : keys, what.replace(report() ? ", lines of source" : "\0", "")]).filter(([keys]) => keys !== "").map(([key, what]) => (
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
