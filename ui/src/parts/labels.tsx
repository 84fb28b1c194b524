// labels.tsx - inputs that know the labels of the selection, and their values: asked for when they are first needed.

import { useEffect, useId, useState } from "preact/hooks";
import { askJSON } from "../api";

const KEPT_MS = 30_000;
const kept = new Map<string, { at: number; answer: Promise<unknown> }>();

/** Asked once for a selection, not for every key; what comes meanwhile is there after a while. */
export function askKept<T>(path: string, params: URLSearchParams): Promise<T> {
	const key = `${path} ${params}`;
	const old = kept.get(key);
	if (old && Date.now() - old.at < KEPT_MS) return old.answer as Promise<T>;
	for (const [k, { at }] of kept) if (Date.now() - at >= KEPT_MS) kept.delete(k);
	const answer = askJSON<T>(path, params);
	kept.set(key, { at: Date.now(), answer });
	answer.catch(() => kept.delete(key));
	return answer;
}

interface InputProps {
	text: string;
	base: URLSearchParams;
	class?: string;
	onInput?(value: string): void;
	onChange?(value: string): void;
}

function Completed(props: InputProps & { value: string; placeholder: string; load(): Promise<string[]> }) {
	const id = useId();
	const [known, setKnown] = useState<string[]>([]);
	const [text, setText] = useState(props.value);
	useEffect(() => setText(props.value), [props.value]);
	return (
		<label>
			{props.text}{" "}
			<input
				class={props.class}
				list={id}
				value={text}
				placeholder={props.placeholder}
				spellcheck={false}
				autocomplete="off"
				onFocus={() => props.load().then(setKnown, () => setKnown([]))}
				onKeyDown={(event) => event.key !== "Escape" && event.stopPropagation()}
				onInput={(event) => {
					setText(event.currentTarget.value);
					props.onInput?.(event.currentTarget.value.trim());
				}}
				onChange={(event) => props.onChange?.(event.currentTarget.value.trim())}
			/>
			<datalist id={id}>
				{known.map((k) => (
					<option key={k} value={k} />
				))}
			</datalist>
		</label>
	);
}

export function LabelInput(props: InputProps & { value: string }) {
	return <Completed {...props} placeholder="label" load={async () => (await askKept<{ name: string }[]>("labels", props.base)).map((l) => l.name)} />;
}

/** Those of the label that `name` says at the moment. */
export function ValueInput(props: InputProps & { name(): string }) {
	const load = async () => {
		const name = props.name();
		if (!name) return [];
		const params = new URLSearchParams(props.base);
		params.set("name", name);
		return (await askKept<{ value: string }[]>("label-values", params)).slice(0, 200).map((v) => v.value);
	};
	return <Completed {...props} value="" placeholder="value" load={load} />;
}
