// states.tsx - what stands where a picture would: empty says what to do next, an error what happened and what to try.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Answer, ApiError } from "../api";
import { copyText } from "./said";

export function Command(props: { text: string }) {
	const [copied, setCopied] = useState(false);
	return (
		<div class="command">
			<code>{props.text}</code>
			<button
				type="button"
				class="quiet"
				onClick={() => copyText(props.text, "the command").then(setCopied)}
				onBlur={() => setCopied(false)}
			>
				{copied ? "copied" : "copy"}
			</button>
		</div>
	);
}

/** Where the program itself has no advice. */
function adviceFor(error: ApiError): string {
	if (error.status === 400) return "Nothing is lost: change what is asked for in the bar above.";
	if (error.status === 401) return "Open the URL with its token again: the program printed it when it started.";
	if (error.status === 404) return "It may have been at another time, or under another filter.";
	return error.status >= 500 ? "It may pass: the page asks again. The program's log says more." : "";
}

/** `children`: what helps, to click on. */
export function ErrorBox(props: { error: ApiError; children?: ComponentChildren }) {
	const hint = props.error.hint || adviceFor(props.error);
	return (
		<div class="state error" role="alert">
			<h2>{props.error.message}</h2>
			{hint && <p>{hint}</p>}
			{props.children && <div class="row">{props.children}</div>}
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
