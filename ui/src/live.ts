// live.ts - follows commits (server-sent events): at most one a second, none while nobody looks at the page.

const GAP_MS = 1000;

export function live(params: URLSearchParams, onCommit: (asof: string) => void): () => void {
	const source = new EventSource(`/api/v1/live?${params}`);
	let last = 0;
	let timer = 0;
	let asof = "";
	const due = () => {
		timer = 0;
		if (document.hidden || !asof) return;
		last = Date.now();
		onCommit(asof);
	};
	const later = () => {
		if (timer === 0) timer = window.setTimeout(due, Math.max(0, last + GAP_MS - Date.now()));
	};
	const commit = (event: MessageEvent) => {
		asof = JSON.parse(event.data).asof;
		later();
	};
	const visible = () => !document.hidden && later();
	source.addEventListener("commit", commit);
	document.addEventListener("visibilitychange", visible);
	return () => {
		source.close();
		clearTimeout(timer);
		document.removeEventListener("visibilitychange", visible);
	};
}
