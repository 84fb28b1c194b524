// filter.tsx - the selector, with completion of label names and values from what the store holds.

import { useEffect, useRef, useState } from "preact/hooks";
import { count } from "../format";
import { cursorContext, cursorEnd, labelName, quoted } from "../selector";
import { Icon } from "./icons";
import { askKept } from "./labels";

interface Suggestion {
	text: string;
	hint: string;
	/** Replaces the input from here. */
	from: number;
	/** What is written. */
	insert: string;
}

async function suggest(text: string, at: number, base: URLSearchParams): Promise<Suggestion[]> {
	const context = cursorContext(text, at);
	const params = new URLSearchParams(base);
	params.delete("query");
	const typed = context.typed.toLowerCase();
	if (context.kind === "name") {
		const labels = await askKept<{ name: string }[]>("labels", params);
		return labels
			.filter((l) => l.name.toLowerCase().includes(typed))
			.slice(0, 12)
			.map((l) => ({ text: l.name, hint: "label", from: context.from, insert: `${labelName(l.name)}="` }));
	}
	params.set("name", context.name);
	const values = await askKept<{ value: string; samples: number }[]>("label-values", params);
	return values
		.filter((v) => v.value.toLowerCase().includes(typed))
		.slice(0, 12)
		.map((v) => ({ text: v.value, hint: `${count(v.samples)} samples`, from: context.from, insert: quoted(v.value) }));
}

export function Filter(props: { value: string; base: URLSearchParams; error: string; onChange(query: string): void }) {
	const [text, setText] = useState(props.value);
	const [open, setOpen] = useState<Suggestion[]>([]);
	const [chosen, setChosen] = useState(-1);
	const input = useRef<HTMLInputElement>(null);
	const turn = useRef(0);
	useEffect(() => setText(props.value), [props.value]);

	const complete = (value: string) => {
		const mine = ++turn.current;
		suggest(value, input.current!.selectionStart ?? value.length, props.base).then(
			(list) => {
				if (mine !== turn.current) return;
				setOpen(list);
				setChosen(-1);
			},
			() => mine === turn.current && setOpen([]),
		);
	};
	const close = () => {
		turn.current++;
		setOpen([]);
		setChosen(-1);
	};
	const take = (s: Suggestion) => {
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
	const apply = () => {
		close();
		props.onChange(text.trim());
	};
	const key = (event: KeyboardEvent) => {
		event.stopPropagation();
		if (event.key === "ArrowDown" && open.length) setChosen((chosen + 1) % open.length);
		else if (event.key === "ArrowUp" && open.length) setChosen((chosen - 1 + open.length) % open.length);
		else if (event.key === "Enter") open[chosen] ? take(open[chosen]) : apply();
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
				id="filter"
				type="text"
				spellcheck={false}
				autocomplete="off"
				placeholder='service.name="…", thread.name=~"…"'
				role="combobox"
				aria-label="Filter by labels"
				aria-expanded={open.length > 0}
				aria-controls="filter-list"
				aria-activedescendant={chosen >= 0 ? `filter-${chosen}` : undefined}
				aria-invalid={props.error !== ""}
				title={props.error}
				value={text}
				onInput={(event) => {
					setText(event.currentTarget.value);
					complete(event.currentTarget.value);
				}}
				onFocus={() => complete(text)}
				onBlur={() => setTimeout(close, 150)}
				onKeyDown={key}
			/>
			{text !== "" && (
				<button type="button" class="quiet" aria-label="Clear the filter" onClick={() => props.onChange("")}>
					✕
				</button>
			)}
			{open.length > 0 && (
				<div class="popup-body" role="listbox" id="filter-list" aria-label="Suggestions">
					{open.map((s, i) => (
						<div
							key={s.text}
							id={`filter-${i}`}
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
		</div>
	);
}
