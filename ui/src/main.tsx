import { render } from "preact";
import { App } from "./app";
import "./style.css";

window.__state = { loading: true };
render(<App />, document.getElementById("app")!);
