import { render } from "preact";
import { ApiError, askEarly } from "./api";
import { App } from "./app";
import { ErrorBox } from "./parts/states";
import { openReport } from "./report";
import { parseState, selectionParams } from "./state";
import "./style.css";

/** The first picture, while the page itself is still being put together. */
function askFirst(): void {
	const state = parseState(new URL(location.href));
	const { view, trace, span, root } = state;
	if (document.getElementById("report") || trace || span || root || !["icicle", "flame", "inverted", "sandwich"].includes(view)) return;
	const params = selectionParams(state);
	if (view === "inverted") params.set("inverted", "1");
	askEarly("flamegraph", params);
}

askFirst();

window.__state = { loading: true };
const box = document.getElementById("app")!;
openReport().then(
	() => render(<App />, box),
	(cause) => render(<ErrorBox error={new ApiError(-1, `This report can't be shown: ${cause.message}`, "It may have been cut on its way: ask for it again.")} />, box),
);
