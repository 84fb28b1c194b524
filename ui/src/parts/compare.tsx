// compare.tsx - files against each other: what was dropped here is the other side of a diff.

import { useEffect, useState } from "preact/hooks";
import { askJSON, type Status, type Upload } from "../api";
import type { State, Store } from "../state";
import { Empty } from "./states";
import type { Uploading } from "./upload";

/** The file as the other side: its own times, and the type that is shown, if it has that. */
export async function against(state: State, file: Upload): Promise<Partial<State>> {
	const status = await askJSON<Status>("status", new URLSearchParams({ query: file.query }));
	const type = status.types.find((t) => t.id === state.type) ?? status.types[0];
	return { view: "diff", live: false, zoom: "", right: { type: type?.id ?? state.type, query: file.query, from: status.from, to: status.to } };
}

/** Files that were dropped here, each to be compared with what is shown. `again`: another file may have come. */
export function OtherFiles(props: { store: Store; again: unknown; onDone?(): void }) {
	const { state, set } = props.store;
	const [list, setList] = useState<Upload[]>([]);
	useEffect(() => {
		const abort = new AbortController();
		askJSON<Upload[]>("uploads", new URLSearchParams(), abort.signal).then(setList, () => {});
		return () => abort.abort();
	}, [props.again]);
	const others = list.filter((file) => file.query !== state.query);
	return (
		<>
			{others.map((file) => (
				<button key={file.id} type="button" class={props.onDone && "quiet"} onClick={() => against(state, file).then(set, () => {}).then(props.onDone)}>
					With the file {file.name}
				</button>
			))}
		</>
	);
}

/** A diff of what has no times, before there is another side. */
export function ChooseOther(props: { store: Store; uploading: Uploading }) {
	return (
		<main class="alone">
			<Empty what="These samples have no times">
				<p>No moment parts them into before and after: compare them with another file, or with another filter above. A file that is dropped onto the page is the other side.</p>
				<div class="column">
					<OtherFiles store={props.store} again={props.uploading.busy} />
				</div>
			</Empty>
		</main>
	);
}
