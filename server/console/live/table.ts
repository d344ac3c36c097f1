/** The rows of one topic as texts: each is computed once per change, for all streams. */
import { isSeen, type RowRight, type Scope, type SeenKind } from "./scope.ts";

/** The rows of a topic, and the right that shows each. */
export interface RowSource {
  readonly keys: () => Iterable<string>;
  /** Undefined if there is no such row any more. */
  readonly rowOf: (key: string) => object | undefined;
  readonly rightOf: (key: string) => RowRight | undefined;
  /** Applied to rows for readers who do not see all namespaces of the kind. */
  readonly mask?: {
    readonly kind: SeenKind;
    readonly row: (row: object, isSeen: (namespace: string) => boolean) => object;
  };
}

export interface TopicTable {
  /** The row may have changed. */
  readonly mark: (key: string) => void;
  readonly markAll: () => void;
  readonly hasWork: () => boolean;
  /** Computes at most `max` rows, and returns the keys of those that differ from before. */
  readonly flush: (max: number) => readonly string[];
  readonly keys: () => Iterable<string>;
  readonly rightOf: (key: string) => RowRight | undefined;
  /** The current row as JSON. Undefined if it is gone or not for this scope. */
  readonly textOf: (key: string, scope: Scope) => string | undefined;
}

/** Scopes change with rights and namespaces. */
const MAX_SCOPES = 64;

export class Table implements TopicTable {
  readonly #source: RowSource;
  readonly #texts = new Map<string, string>();
  readonly #stale = new Set<string>();
  /** Not computed yet. Streams still have to send them, so they are no change. */
  readonly #fresh: Set<string>;
  /** Computed, but not yet returned by `flush`. */
  readonly #changed = new Set<string>();
  /** Masked texts by the key of their scope. */
  readonly #masked = new Map<string, Map<string, string>>();

  constructor(source: RowSource) {
    this.#source = source;
    this.#fresh = new Set(source.keys());
    this.markAll();
  }

  mark(key: string): void {
    this.#stale.add(key);
  }

  markAll(): void {
    for (const key of this.#source.keys()) this.#stale.add(key);
    for (const key of this.#texts.keys()) this.#stale.add(key);
  }

  hasWork(): boolean {
    return this.#stale.size > 0 || this.#changed.size > 0;
  }

  flush(max: number): readonly string[] {
    let left = max;
    for (const key of this.#stale) {
      if (left === 0) break;
      left -= 1;
      this.#compute(key);
    }
    const changed = [...this.#changed];
    this.#changed.clear();
    return changed;
  }

  keys(): Iterable<string> {
    return new Set([...this.#texts.keys(), ...this.#stale]);
  }

  rightOf(key: string): RowRight | undefined {
    return this.#source.rightOf(key);
  }

  textOf(key: string, scope: Scope): string | undefined {
    if (!isSeen(scope, this.#source.rightOf(key))) return undefined;
    if (this.#stale.has(key)) this.#compute(key);
    const text = this.#texts.get(key);
    const { mask } = this.#source;
    if (text === undefined || mask === undefined || scope.seen.get(mask.kind) === "all") return text;
    const known = this.#masked.get(scope.key) ?? new Map<string, string>();
    if (this.#masked.size >= MAX_SCOPES) this.#masked.clear();
    this.#masked.set(scope.key, known);
    const masked =
      known.get(key) ??
      JSON.stringify(
        mask.row(JSON.parse(text) as object, (namespace) => isSeen(scope, { kind: mask.kind, namespace })),
      );
    known.set(key, masked);
    return masked;
  }

  #compute(key: string): void {
    this.#stale.delete(key);
    const isFresh = this.#fresh.delete(key);
    const row = this.#source.rowOf(key);
    const text = row === undefined ? undefined : JSON.stringify(row);
    if (text === this.#texts.get(key)) return;
    if (text === undefined) this.#texts.delete(key);
    else this.#texts.set(key, text);
    for (const texts of this.#masked.values()) texts.delete(key);
    if (!isFresh) this.#changed.add(key);
  }
}
