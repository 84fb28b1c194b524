// What tests and benchmarks may read from outside.
interface Window {
	__state: Record<string, unknown>;
	__draw?: { ms: number; boxes: number };
}
declare module "*.css";
