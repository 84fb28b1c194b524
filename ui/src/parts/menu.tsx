// menu.tsx - menus and pop-ups: opened at a point or under a button, walked with the arrow keys, closed by Escape or a
// click elsewhere.

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

export interface MenuItem {
	label: string;
	hint?: string;
	action?(): void;
	disabled?: string; // why
	separator?: boolean;
}

/** What had the focus before this was there has it again afterwards. */
function useFocusBack(): void {
	const [before] = useState(() => document.activeElement as HTMLElement | null);
	useEffect(() => () => before?.focus({ preventScroll: true }), []);
}

export function Menu(props: { label: string; items: MenuItem[]; x: number; y: number; onClose(): void }) {
	const box = useRef<HTMLDivElement>(null);
	useFocusBack();
	const [at, setAt] = useState({ x: props.x, y: props.y });
	useLayoutEffect(() => {
		const rect = box.current!.getBoundingClientRect();
		setAt({
			x: Math.max(4, Math.min(props.x, innerWidth - rect.width - 4)),
			y: Math.max(4, Math.min(props.y, innerHeight - rect.height - 4)),
		});
		box.current!.querySelector<HTMLElement>("button:not(:disabled)")?.focus();
	}, [props.x, props.y]);
	useEffect(() => {
		const outside = (event: Event) => {
			if (!box.current!.contains(event.target as Node)) props.onClose();
		};
		addEventListener("pointerdown", outside, true);
		addEventListener("blur", props.onClose);
		return () => {
			removeEventListener("pointerdown", outside, true);
			removeEventListener("blur", props.onClose);
		};
	}, []);
	const key = (event: KeyboardEvent) => {
		const buttons = [...box.current!.querySelectorAll<HTMLElement>("button:not(:disabled)")];
		const i = buttons.indexOf(document.activeElement as HTMLElement);
		if (event.key === "Escape" || event.key === "Tab") props.onClose();
		else if (event.key === "ArrowDown") buttons[(i + 1) % buttons.length]?.focus();
		else if (event.key === "ArrowUp") buttons[(i - 1 + buttons.length) % buttons.length]?.focus();
		else if (event.key === "Home") buttons[0]?.focus();
		else if (event.key === "End") buttons[buttons.length - 1]?.focus();
		else if (event.key !== "Enter" && event.key !== " ") return event.stopPropagation();
		else return event.stopPropagation();
		event.preventDefault();
		event.stopPropagation();
	};
	return (
		<div ref={box} class="menu" role="menu" aria-label={props.label} style={{ left: `${at.x}px`, top: `${at.y}px` }} onKeyDown={key}>
			{props.items.map((item, i) =>
				item.separator ? (
					<div key={i} class="separator" role="separator" />
				) : (
					<button
						key={i}
						type="button"
						role="menuitem"
						aria-keyshortcuts={item.hint}
						disabled={!!item.disabled}
						title={item.disabled}
						onClick={() => {
							props.onClose();
							item.action?.();
						}}
					>
						<span>{item.label}</span>
						{item.hint && <kbd aria-hidden="true">{item.hint}</kbd>}
					</button>
				),
			)}
		</div>
	);
}

/** A button that opens a pop-up under itself. */
export function Popup(props: { label: ComponentChildren; title: string; class?: string; children(close: () => void): ComponentChildren }) {
	const [open, setOpen] = useState(false);
	const box = useRef<HTMLDivElement>(null);
	useEffect(() => {
		if (!open) return;
		const outside = (event: Event) => {
			if (!box.current!.contains(event.target as Node)) setOpen(false);
		};
		addEventListener("pointerdown", outside, true);
		return () => removeEventListener("pointerdown", outside, true);
	}, [open]);
	/* Never beyond the window's edges, whatever it holds. */
	const body = useRef<HTMLDivElement>(null);
	useLayoutEffect(() => {
		const element = body.current;
		if (!open || !element) return;
		const place = () => {
			element.style.translate = "";
			const rect = element.getBoundingClientRect();
			const right = document.documentElement.clientWidth - 4;
			const dx = rect.right > right ? right - rect.right : 0;
			element.style.translate = `${Math.round(Math.max(dx, 4 - rect.left))}px`;
		};
		place();
		const observer = new ResizeObserver(place);
		observer.observe(element);
		return () => observer.disconnect();
	}, [open]);
	const close = () => {
		setOpen(false);
		box.current!.querySelector("button")?.focus();
	};
	return (
		<div
			class="popup"
			ref={box}
			onFocusOut={(event) => event.relatedTarget && !box.current!.contains(event.relatedTarget as Node) && setOpen(false)}
			onKeyDown={(event) => {
				if (open && event.key === "Escape") {
					event.stopPropagation();
					close();
				}
			}}
		>
			<button type="button" class={props.class} title={props.title} aria-haspopup="dialog" aria-expanded={open} onClick={() => setOpen(!open)}>
				{props.label}
			</button>
			{open && (
				<div ref={body} class="popup-body" role="dialog" aria-label={props.title}>
					{props.children(close)}
				</div>
			)}
		</div>
	);
}

/** Fills the page until closed; the rest is out of reach of Tab meanwhile. */
export function Dialog(props: { title: string; onClose(): void; children: ComponentChildren }) {
	const box = useRef<HTMLDialogElement>(null);
	useFocusBack();
	useEffect(() => {
		box.current!.showModal();
	}, []);
	return (
		<dialog ref={box} aria-label={props.title} onClose={props.onClose} onClick={(event) => event.target === event.currentTarget && event.currentTarget.close()}>
			<header>
				<h2>{props.title}</h2>
				<button type="button" class="quiet" aria-label="Close" onClick={() => box.current!.close()}>
					✕
				</button>
			</header>
			{props.children}
		</dialog>
	);
}
