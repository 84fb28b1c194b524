// states.tsx - what stands where a picture would: empty says what to do next, an error what happened and what to try.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Answer, ApiError } from "../api";

export function copyText(text: string): Promise<void> {
	if (navigator.clipboard) return navigator.clipboard.writeText(text);
	const area = document.createElement("textarea"); // no clipboard API without TLS on a foreign address
	area.value = text;
	document.body.append(area);
	area.select();
	document.execCommand("copy");
	area.remove();
	return Promise.resolve();
}

export function Command(props: { text: string }) {
	const [copied, setCopied] = useState(false);
	return (
		<div class="command">
			<code>{props.text}</code>
			<button
				type="button"
				class="quiet"
				onClick={() => copyText(props.text).then(() => setCopied(true))}
				onBlur={() => setCopied(false)}
			>
				{copied ? "copied" : "copy"}
			</button>
		</div>
	);
}

export function ErrorBox(props: { error: ApiError }) {
	return (
		<div class="state error" role="alert">
			<h2>{props.error.message}</h2>
			{props.error.hint && <p>{props.error.hint}</p>}
		</div>
	);
}

export function Empty(props: { what: string; children?: ComponentChildren }) {
	return (
		<div class="state">
			<h2>{props.what}</h2>
			{props.children}
		</div>
	);
}

/** The parts of an answer that are the same for every view; `children` gets the value, dimmed while a newer one comes. */
export function Show<T>(props: { answer: Answer<T>; children(value: T): ComponentChildren }) {
	const { value, error, loading } = props.answer;
	return (
		<div class={loading && value ? "show loading" : "show"} aria-busy={loading}>
			{error && <ErrorBox error={error} />}
			{value === null && loading && <div class="state quiet-state">Reading…</div>}
			{value !== null && props.children(value)}
		</div>
	);
}
