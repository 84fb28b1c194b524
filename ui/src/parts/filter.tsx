// filter.tsx - the selector, with completion of label names and values from what the store holds.

import { useEffect, useId, useRef, useState } from "preact/hooks";
import { ApiError, askJSON } from "../api";
import { count } from "../format";
import { cursorContext, cursorEnd, labelName, meant, quoted } from "../selector";
import { Icon } from "./icons";
import { askKept, askValues, useTyped } from "./labels";

interface Suggestion {
	text: string;
	hint: string;
	/** Replaces the input from here. */
	from: number;
	/** What is written. */
	insert: string;
	/** It is the whole filter. */
	whole?: boolean;
}

const SHOWN = 12;

async function suggest(text: string, at: number, base: URLSearchParams): Promise<{ list: Suggestion[]; more: boolean }> {
	const context = cursorContext(text, at);
	const params = new URLSearchParams(base);
	params.delete("query");
	if (context.kind === "name") {
		const typed = context.typed.toLowerCase();
		const labels = await askKept<{ name: string }[]>("labels", params);
		const fit = labels.filter((l) => l.name.toLowerCase().includes(typed));
		return { list: fit.slice(0, SHOWN).map((l) => ({ text: l.name, hint: "label", from: context.from, insert: `${labelName(l.name)}="` })), more: fit.length > SHOWN };
	}
	const { values, more } = await askValues(params, context.name, context.typed, SHOWN);
	return { list: values.map((v) => ({ text: v.value, hint: `${count(v.samples)} samples`, from: context.from, insert: quoted(v.value) })), more };
}

/** Why the program would not take it; "": it would. What it can't be asked is for the picture to say. */
async function refusal(text: string): Promise<string> {
	try {
		await askJSON("status", new URLSearchParams({ query: text }));
	} catch (cause) {
		if (cause instanceof ApiError && (cause.status === 400 || cause.status === 404)) return [cause.message, cause.hint].filter(Boolean).join(". ");
	}
	return "";
}

export function Filter(props: { value: string; base: URLSearchParams; label: string; onChange(query: string): void }) {
	const [text, setText] = useState(props.value);
	const [open, setOpen] = useState<Suggestion[]>([]);
	const [more, setMore] = useState(false);
	const [chosen, setChosen] = useState(-1);
	const typed = useTyped();
	const input = useRef<HTMLInputElement>(null);
	const turn = useRef(0);
	const writing = useRef(0);
	const id = useId();
	const [refused, setRefused] = useState("");
	const [focused, setFocused] = useState(false);
	useEffect(() => {
		setText(props.value);
		setRefused("");
	}, [props.value]);

	const complete = (value: string) => {
		const mine = ++turn.current;
		suggest(value, input.current!.selectionStart ?? value.length, props.base).then(
			({ list, more }) => {
				if (mine !== turn.current) return;
				setOpen(list);
				setMore(more);
				setChosen(-1);
			},
			() => mine === turn.current && setOpen([]),
		);
	};
	const close = () => {
		typed.drop();
		turn.current++;
		setOpen([]);
		setChosen(-1);
	};
	const take = (s: Suggestion) => {
		if (s.whole) {
			setText(s.insert);
			return void apply(s.insert);
		}
		const end = cursorEnd(text, s.from, input.current!.selectionStart ?? text.length);
		/* A name's operator and quote may be there already. */
		const rest = s.insert.endsWith('="') ? text.slice(end).replace(/^\s*[=!]~?"?/, "") : text.slice(end);
		const next = text.slice(0, s.from) + s.insert + rest;
		setText(next);
		close();
		requestAnimationFrame(() => {
			input.current!.focus();
			const at = s.from + s.insert.length;
			input.current!.setSelectionRange(at, at);
			if (s.insert.endsWith('="')) complete(next);
		});
	};
	const apply = async (written: string) => {
		close();
		const wanted = written.trim();
		const mine = writing.current;
		const why = wanted && wanted !== props.value ? await refusal(wanted) : "";
		if (mine !== writing.current) return; // typed on meanwhile
		const instead = meant(wanted);
		if (!why && instead.length === 0) return props.onChange(wanted);
		setRefused(instead.length === 1 ? why || "A value stands in quotes" : why && instead.length === 0 ? why : `“${wanted}” is no matcher: a filter says of which label it is a value`);
		setMore(false);
		setOpen(instead.map((insert) => ({ text: insert, hint: "did you mean this?", from: 0, insert, whole: true })));
	};
	const key = (event: KeyboardEvent) => {
		event.stopPropagation();
		if (event.key === "ArrowDown" && open.length) setChosen((chosen + 1) % open.length);
		else if (event.key === "ArrowUp" && open.length) setChosen((chosen - 1 + open.length) % open.length);
		else if (event.key === "Enter") open[chosen] ? take(open[chosen]) : void apply(text);
		else if (event.key === "Tab" && open.length && chosen >= 0) take(open[chosen]);
		else if (event.key === "Escape") {
			if (open.length) close();
			else setText(props.value);
		} else return;
		event.preventDefault();
	};
	return (
		<div class="filter">
			<Icon name="search" />
			<input
				ref={input}
				type="text"
				spellcheck={false}
				autocomplete="off"
				placeholder='service.name="…", thread.name=~"…"'
				role="combobox"
				aria-label={props.label}
				aria-expanded={open.length > 0}
				aria-controls={`${id}list`}
				aria-activedescendant={chosen >= 0 ? `${id}${chosen}` : undefined}
				aria-invalid={refused !== ""}
				aria-describedby={refused && focused ? `${id}refused` : undefined}
				title={refused}
				value={text}
				onInput={(event) => {
					setText(event.currentTarget.value);
					setRefused("");
					writing.current++;
					const { value } = event.currentTarget;
					/* What was offered is of another text: no key may take it. */
					turn.current++;
					setOpen([]);
					setChosen(-1);
					typed.then(() => complete(value));
				}}
				onFocus={() => {
					setFocused(true);
					if (!refused) complete(text);
				}}
				onBlur={() => {
					setFocused(false);
					setTimeout(close, 150);
				}}
				onKeyDown={key}
			/>
			{text !== "" && (
				<button type="button" class="quiet" aria-label="Clear the filter" onClick={() => props.onChange("")}>
					✕
				</button>
			)}
			{(open.length > 0 || (refused && focused)) && (
				<div class="popup-body">
					{refused && (
						<p id={`${id}refused`} class="warn" role="alert">
							{refused}
						</p>
					)}
					{open.length > 0 && (
						<div role="listbox" id={`${id}list`} aria-label="Suggestions">
							{open.map((s, i) => (
								<div
									key={s.text}
									id={`${id}${i}`}
									role="option"
									aria-selected={i === chosen}
									class={i === chosen ? "option chosen" : "option"}
									onPointerDown={(event) => {
										event.preventDefault();
										take(s);
									}}
								>
									<span>{s.text}</span>
									<span class="hint">{s.hint}</span>
								</div>
							))}
						</div>
					)}
					{open.length > 0 && more && <p class="hint">There are more: type on</p>}
				</div>
			)}
		</div>
	);
}
