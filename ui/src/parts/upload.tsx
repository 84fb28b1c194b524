// upload.tsx - files that are dropped onto the page, or chosen: looked at in the store's place. They are kept apart, and
// named by the label upload.id.

import { useEffect, useRef, useState } from "preact/hooks";
import { askJSON, sendFile, type Upload } from "../api";
import { bytes, dateTime } from "../format";
import { unpaired } from "../halves";
import type { State, Store } from "../state";
import { against } from "./compare";
import { Icon } from "./icons";
import { Popup } from "./menu";

/** The selection's matcher of an upload, or "": then the store is asked. */
export function uploadOf(query: string): string {
	return /upload[._]id\s*=\s*"([0-9a-f]{16}|[0-9a-f]{32})"/.exec(query)?.[1] ?? "";
}

/** Another source has other types, times and labels. */
export const LOOK_ANEW: Partial<State> = { type: "", from: "", to: "", query: "", group: null, transforms: [], zoom: "", name: "", key: "", right: null, asof: "", live: false, trace: "", span: "" };

function shown(state: State): Partial<State> {
	return { ...LOOK_ANEW, view: ["icicle", "flame", "inverted", "time", "heat", "raw"].includes(state.view) ? state.view : "icicle" };
}

interface Refused {
	name: string;
	why: string;
}

export interface Uploading {
	over: boolean;
	busy: string;
	/** Of the files that came together; the first is shown. */
	taken: Upload[];
	refused: Refused[];
	send(files: FileList | null): void;
	dismiss(): void;
}

/** Takes what is dropped anywhere onto the page. */
export function useUpload(store: Store): Uploading {
	const [over, setOver] = useState(false);
	const [busy, setBusy] = useState("");
	const [taken, setTaken] = useState<Upload[]>([]);
	const [refused, setRefused] = useState<Refused[]>([]);
	const latest = useRef(store);
	latest.current = store;
	const before = useRef(Promise.resolve());
	const sendAll = async (files: File[]) => {
		const [good, bad]: [Upload[], Refused[]] = [[], []];
		setTaken([]);
		setRefused([]);
		for (const [i, file] of files.entries()) {
			setBusy(files.length > 1 ? `${file.name}, ${i + 1} of ${files.length}` : file.name);
			try {
				const upload = await sendFile(file);
				if (good.some(({ id }) => id === upload.id)) continue; // the same content
				good.push(upload);
				const { state, set } = latest.current;
				if (good.length === 1) set(unpaired(state) ? await against(state, upload) : { ...shown(state), query: upload.query });
			} catch (cause) {
				bad.push({ name: file.name, why: String((cause as Error).message ?? cause) });
			}
		}
		setTaken(good);
		setRefused(bad);
		setBusy("");
	};
	/* What comes while others are sent waits for them: a list of files is the browser's, which empties it. */
	const send = (files: FileList | null) => {
		const all = [...(files ?? [])];
		if (all.length > 0) before.current = before.current.then(() => sendAll(all));
	};
	useEffect(() => {
		const holdsFiles = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
		const drag = (event: DragEvent) => {
			if (!holdsFiles(event)) return;
			event.preventDefault();
			setOver(true);
		};
		const leave = (event: DragEvent) => {
			if (event.relatedTarget === null) setOver(false);
		};
		const drop = (event: DragEvent) => {
			if (!holdsFiles(event)) return;
			event.preventDefault();
			setOver(false);
			send(event.dataTransfer!.files);
		};
		addEventListener("dragover", drag);
		addEventListener("dragleave", leave);
		addEventListener("drop", drop);
		return () => {
			removeEventListener("dragover", drag);
			removeEventListener("dragleave", leave);
			removeEventListener("drop", drop);
		};
	}, []);
	const dismiss = () => {
		setTaken([]);
		setRefused([]);
	};
	return { over, busy, taken, refused, send, dismiss };
}

/** More files are not named above the picture. */
const NAMED_MOST = 10;

/** What is going on with files, over the page. */
export function UploadLayer(props: { store: Store; uploading: Uploading }) {
	const { store } = props;
	const { over, busy, taken, refused, dismiss } = props.uploading;
	const now = uploadOf(store.state.query);
	if (over)
		return (
			<div class="drop" role="status">
				<p>Drop profiles to look at them</p>
				<p class="hint">pprof, OTLP, folded stacks, speedscope, Firefox Profiler, .cpuprofile, perf script; gzip or zstd</p>
			</div>
		);
	if (busy)
		return (
			<aside class="note" aria-label="Upload" aria-live="polite">
				Reading {busy}…
			</aside>
		);
	if (refused.length > 0 || taken.length > 1)
		return (
			<aside class="note row" aria-label="Upload">
				{taken.length > 1 && (
					<span class="row" role="status">
						{taken.length} files were read:
						<span class="segments">
							{taken.slice(0, NAMED_MOST).map((u) => (
								<button key={u.id} type="button" title={u.name} aria-pressed={u.id === now} onClick={() => u.id !== now && store.set({ ...shown(store.state), query: u.query })}>
									{u.name}
								</button>
							))}
						</span>
						{taken.length > NAMED_MOST && `and ${taken.length - NAMED_MOST} more, listed under “Open a file”`}
					</span>
				)}
				{refused.length > 0 && (
					<span role="alert">
						{refused.slice(0, NAMED_MOST).map(({ name, why }, i) => (
							<span key={i}>
								<b>{refused.length + taken.length > 1 ? `${name} can't be shown.` : "This file can't be shown."}</b> {why}{" "}
							</span>
						))}
						{refused.length > NAMED_MOST && `and ${refused.length - NAMED_MOST} more`}
					</span>
				)}
				<span class="grow" />
				<button type="button" class="quiet" onClick={dismiss}>
					dismiss
				</button>
			</aside>
		);
	return null;
}

function List(props: { store: Store; close(): void }) {
	const [list, setList] = useState<Upload[]>([]);
	useEffect(() => {
		const abort = new AbortController();
		askJSON<Upload[]>("uploads", new URLSearchParams(), abort.signal).then(setList, () => {});
		return () => abort.abort();
	}, []);
	const now = uploadOf(props.store.state.query);
	return (
		<>
			{list.map((u) => (
				<button
					key={u.id}
					type="button"
					class="quiet option"
					aria-current={u.id === now}
					onClick={() => {
						props.store.set({ ...shown(props.store.state), query: u.query });
						props.close();
					}}
				>
					<span>{u.name}</span>
					<span class="hint">
						{bytes(u.bytes)} · {dateTime(Number(u.time))}
					</span>
				</button>
			))}
		</>
	);
}

export function OpenFile(props: { store: Store; uploading: Uploading }) {
	const input = useRef<HTMLInputElement>(null);
	return (
		<>
			<input
				ref={input}
				type="file"
				multiple
				class="visually-hidden"
				tabIndex={-1}
				aria-label="Profiles to look at"
				onChange={(event) => {
					props.uploading.send(event.currentTarget.files);
					event.currentTarget.value = "";
				}}
			/>
			<Popup label={<Icon name="open" />} title="Open a file" class="icon">
				{(close) => (
					<div class="column">
						<button
							type="button"
							class="quiet option"
							onClick={() => {
								close();
								input.current!.click();
							}}
						>
							<span>Choose files…</span>
							<span class="hint">or drop them onto the page</span>
						</button>
						<List store={props.store} close={close} />
					</div>
				)}
			</Popup>
		</>
	);
}

/** Says that a file is looked at, not the store, and leads back. */
export function UploadNote(props: { store: Store }) {
	const id = uploadOf(props.store.state.query);
	const [name, setName] = useState("");
	useEffect(() => {
		if (!id) return;
		const abort = new AbortController();
		askJSON<Upload[]>("uploads", new URLSearchParams(), abort.signal).then((all) => setName(all.find((u) => u.id === id)?.name ?? ""), () => {});
		return () => abort.abort();
	}, [id]);
	if (!id) return null;
	return (
		<aside class="note" aria-label="A file is shown">
			The file <b>{name || id}</b>, as it was dropped here; it is in no other answer.{" "}
			<button type="button" class="quiet link" onClick={() => props.store.set(LOOK_ANEW)}>
				back to the store
			</button>
		</aside>
	);
}
