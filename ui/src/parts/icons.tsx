// icons.tsx - drawn here: fonts do not agree on symbols.

const paths = {
	export: "M8 2v8m0 0L5 7m3 3 3-3M3 13h10",
	open: "M2.5 12.5v-9h4l1.5 2h5.5v2M2.5 12.5l2-5h9.5l-2 5z",
	link: "M6.5 9.5l3-3M7 4.5 8.6 2.9a2.8 2.8 0 0 1 4 4L11 8.5M9 11.5l-1.6 1.6a2.8 2.8 0 0 1-4-4L5 7.5",
	theme: "M8 2a6 6 0 1 0 0 12A6 6 0 1 0 8 2zm0 0v12",
	search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zm3.3 7.8L14 14",
	swap: "M3 5h10m0 0-3-3m3 3-3 3M13 11H3m0 0 3-3m-3 3 3 3",
};

export function Icon(props: { name: keyof typeof paths }) {
	return (
		<svg width="16" height="16" viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
			<path d={paths[props.name]} />
		</svg>
	);
}
