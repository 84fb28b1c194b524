import { render } from "preact";
import { ApiError } from "./api";
import { App } from "./app";
import { ErrorBox } from "./parts/states";
import { openReport } from "./report";
import "./style.css";

window.__state = { loading: true };
const box = document.getElementById("app")!;
openReport().then(
	() => render(<App />, box),
	(cause) => render(<ErrorBox error={new ApiError(-1, `This report can't be shown: ${cause.message}`, "It may have been cut on its way: ask for it again.")} />, box),
);
