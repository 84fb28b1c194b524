// table.tsx - a table of any length: only the rows in sight exist. Columns sort; rows are chosen by mouse or keyboard.

import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";

export interface Column<Row> {
	key: string;
	title: string;
	/** CSS width, e.g. "7ch"; none: the rest. */
	width?: string;
	number?: boolean;
	sortable?: boolean;
	cell(row: Row): ComponentChildren;
	tip?(row: Row): string;
}

export interface TableProps<Row> {
	label: string;
	columns: Column<Row>[];
	rows: Row[];
	sort?: string;
	/** The least first. */
	ascending?: boolean;
	onSort?(key: string): void;
	onChoose?(row: Row, index: number): void;
	onMenu?(row: Row, x: number, y: number): void;
	/** The row that keys act on is another. */
	onCursor?(row: Row): void;
	chosen?: number;
	onEnd?(): void;
}

const ROW_HEIGHT = 24;

export function Table<Row>(props: TableProps<Row>) {
	const box = useRef<HTMLDivElement>(null);
	const [view, setView] = useState({ top: 0, height: 600 });
	const [moved, setCursor] = useState(0);
	const cursor = Math.min(moved, Math.max(0, props.rows.length - 1)); // there may be fewer now
	const id = useId();
	const [focused, setFocused] = useState(false);
	useLayoutEffect(() => {
		const element = box.current!;
		const update = () => setView({ top: element.scrollTop, height: element.clientHeight });
		const observer = new ResizeObserver(update);
		observer.observe(element);
		element.addEventListener("scroll", update, { passive: true });
		return () => {
			observer.disconnect();
			element.removeEventListener("scroll", update);
		};
	}, []);
	const first = Math.max(0, Math.floor(view.top / ROW_HEIGHT) - 8);
	const last = Math.min(props.rows.length, Math.ceil((view.top + view.height) / ROW_HEIGHT) + 8);
	useLayoutEffect(() => {
		if (last >= props.rows.length && props.rows.length > 0) props.onEnd?.();
	}, [last, props.rows.length]);

	const move = (to: number) => {
		const next = Math.max(0, Math.min(props.rows.length - 1, to));
		setCursor(next);
		if (props.rows[next]) props.onCursor?.(props.rows[next]);
		const y = next * ROW_HEIGHT;
		const element = box.current!;
		if (y < element.scrollTop) element.scrollTop = y;
		else if (y + 2 * ROW_HEIGHT > element.scrollTop + element.clientHeight) element.scrollTop = y + 2 * ROW_HEIGHT - element.clientHeight;
	};
	const key = (event: KeyboardEvent) => {
		if (event.target !== box.current && event.key === "Enter") return; // of a heading
		const page = Math.floor(view.height / ROW_HEIGHT) - 1;
		const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -props.rows.length, End: props.rows.length };
		if (event.key in steps) move(cursor + steps[event.key]);
		else if (event.key === "Enter" && props.rows[cursor]) props.onChoose?.(props.rows[cursor], cursor);
		else if ((event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey)) && props.onMenu && props.rows[cursor]) {
			const at = (document.getElementById(`${id}${cursor}`) ?? box.current!).getBoundingClientRect();
			props.onMenu(props.rows[cursor], at.left + 40, at.top + ROW_HEIGHT);
		} else return;
		event.preventDefault();
		event.stopPropagation();
	};
	const template = props.columns.map((c) => c.width ?? "minmax(12ch, 1fr)").join(" ");
	return (
		<div ref={box} class="table" role="grid" aria-label={props.label} aria-rowcount={props.rows.length + 1} aria-colcount={props.columns.length} aria-activedescendant={focused && cursor >= first && cursor < last ? `${id}${cursor}` : undefined} tabIndex={0} onKeyDown={key} onFocus={(event) => setFocused(event.target === box.current)} onBlur={() => setFocused(false)}>
			<div class="table-head" role="row" aria-rowindex={1} style={{ gridTemplateColumns: template }}>
				{props.columns.map((c) => (
					<div
						key={c.key}
						role="columnheader"
						class={c.number ? "cell number" : "cell"}
						aria-sort={props.sort === c.key ? (props.ascending ? "ascending" : "descending") : c.sortable ? "none" : undefined}
					>
						{c.sortable ? (
							<button type="button" onClick={() => props.onSort?.(c.key)}>
								{c.title}
								{props.sort !== c.key ? "" : props.ascending ? " ▴" : " ▾"}
							</button>
						) : (
							c.title
						)}
					</div>
				))}
			</div>
			<div role="rowgroup" style={{ height: `${props.rows.length * ROW_HEIGHT}px`, position: "relative" }}>
				{props.rows.slice(first, last).map((row, k) => {
					const index = first + k;
					return (
						<div
							key={index}
							id={`${id}${index}`}
							role="row"
							aria-rowindex={index + 2}
							aria-selected={index === props.chosen}
							class={`row${index === props.chosen ? " chosen" : ""}${index === cursor ? " cursor" : ""}`}
							style={{ gridTemplateColumns: template, top: `${index * ROW_HEIGHT}px` }}
							onClick={() => {
								setCursor(index);
								props.onChoose?.(row, index);
							}}
							onContextMenu={(event) => {
								if (!props.onMenu) return;
								event.preventDefault();
								props.onMenu(row, event.clientX, event.clientY);
							}}
						>
							{props.columns.map((c) => (
								<div key={c.key} role="gridcell" class={c.number ? "cell number" : "cell"} title={c.tip?.(row)}>
									{c.cell(row)}
								</div>
							))}
						</div>
					);
				})}
			</div>
		</div>
	);
}
