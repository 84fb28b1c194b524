// labels.tsx - inputs that know the labels of the selection, and their values: asked for when they are first needed.

import { useEffect, useId, useRef, useState } from "preact/hooks";
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

export interface Values {
	values: { value: string; samples: number }[];
	/** There are others, lighter than these. */
	more: boolean;
}

/** The heaviest values of a label that have what was typed in them: of all, the program looks. */
export function askValues(base: URLSearchParams, name: string, typed: string, limit: number): Promise<Values> {
	const params = new URLSearchParams(base);
	params.set("name", name);
	params.set("limit", String(limit));
	if (typed) params.set("match", typed);
	return askKept<Values>("label-values", params);
}

const TYPING_MS = 120;

/** Once nothing was typed for a moment: a question is not for every key. */
export function useTyped(): { then(act: () => void): void; drop(): void } {
	const timer = useRef<number | undefined>(undefined);
	const drop = () => window.clearTimeout(timer.current);
	useEffect(() => drop, []);
	return {
		drop,
		then(act) {
			drop();
			timer.current = window.setTimeout(act, TYPING_MS);
		},
	};
}

interface InputProps {
	text: string;
	base: URLSearchParams;
	class?: string;
	onInput?(value: string): void;
	onChange?(value: string): void;
}

function Completed(props: InputProps & { value: string; placeholder: string; load(typed: string): Promise<string[]> }) {
	const id = useId();
	const [known, setKnown] = useState<string[]>([]);
	const [text, setText] = useState(props.value);
	const typed = useTyped();
	const turn = useRef(0);
	useEffect(() => setText(props.value), [props.value]);
	const complete = (value: string) => {
		const mine = ++turn.current;
		const show = (list: string[]) => mine === turn.current && setKnown(list);
		props.load(value.trim()).then(show, () => show([]));
	};
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
				onFocus={() => complete(text)}
				onKeyDown={(event) => event.key !== "Escape" && event.stopPropagation()}
				onInput={(event) => {
					const { value } = event.currentTarget;
					setText(value);
					props.onInput?.(value.trim());
					typed.then(() => complete(value));
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
	const load = async (typed: string) => {
		const name = props.name();
		return name ? (await askValues(props.base, name, typed, 200)).values.map((v) => v.value) : [];
	};
	return <Completed {...props} value="" placeholder="value" load={load} />;
}
