// live.ts - follows commits of the selection (server-sent events); the page asks again at most once a second, and not
// at all while nobody looks at it.

const GAP_MS = 1000;

export function live(params: URLSearchParams, onCommit: () => void): () => void {
	const source = new EventSource(`/api/v1/live?${params}`);
	let last = 0;
	let timer = 0;
	const due = () => {
		timer = 0;
		if (document.hidden) return;
		last = Date.now();
		onCommit();
	};
	const commit = () => {
		if (timer === 0) timer = window.setTimeout(due, Math.max(0, last + GAP_MS - Date.now()));
	};
	const visible = () => !document.hidden && commit();
	source.addEventListener("commit", commit);
	document.addEventListener("visibilitychange", visible);
	return () => {
		source.close();
		clearTimeout(timer);
		document.removeEventListener("visibilitychange", visible);
	};
}
