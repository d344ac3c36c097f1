/** All streams and the topics that they watch: a change is computed once, and sent to every stream that may see it. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import type { ClusterChange } from "../../../src/cluster/informers.ts";
import { missingRight, notWatched } from "../../../src/console/missing-right.ts";
import type { AccessQuestion, ApiRefusal, Topic } from "../../../src/console/protocol.ts";
import type { Clock } from "../../../src/util/ports.ts";
import { refusalOf } from "../refusal.ts";
import {
  createReaderRights,
  isSeen,
  mainQuestion,
  NAMED,
  type Scope,
  type ScopeQuestions,
  scopeOf,
} from "./scope.ts";
import { type ConsoleStream, changeEvent } from "./stream.ts";
import { type OpenTable, openTable, type TableParts, topicText } from "./tables.ts";
import { marksOf, modelKeysOf, type ParsedTopic } from "./topics.ts";

/** The person behind a stream. */
export interface StreamReader {
  readonly id: string;
  /** Shown where the reader may list it, even while it has no objects. */
  readonly namespace?: string | undefined;
  readonly mayAccess: (question: AccessQuestion) => Promise<boolean>;
  /** False after the session. */
  readonly isSignedIn: () => Promise<boolean>;
}

/** Changes within this time are sent together. */
const GATHER_MS = 250;
/** All streams together use at most a fifth of one core. */
const PAUSE_PER_WORK = 4;
const BEAT_MS = 15_000;
/** Rights are checked again with every second beat, as long as a grant is cached. */
const BEATS_PER_CHECK = 2;
/** Requests are answered between two batches. */
const ROWS_PER_TURN = 250;

const SIGNED_OUT: ApiRefusal = { code: "SignInNeeded", message: "the session has expired; sign in again" };

interface WatchedTopic extends OpenTable {
  readonly parsed: ParsedTopic;
  readonly streams: Set<ConsoleStream>;
}

export class Hub {
  readonly #parts: TableParts;
  readonly #clock: Clock;
  readonly #topics = new Map<Topic, WatchedTopic>();
  readonly #readers = new Map<ConsoleStream, StreamReader>();
  /** By the reader's id: shared by its streams. */
  readonly #rights = new Map<string, ScopeQuestions["seen"]>();
  #beats = 0;
  /** Streams whose rights are being checked. */
  readonly #checking = new Set<ConsoleStream>();
  #cancelFlush: (() => void) | undefined;
  #isFlushing = false;
  #pauseUntilMs = 0;
  #cancelBeat: (() => void) | undefined;
  #awaySinceMs: number | undefined;

  constructor(parts: TableParts) {
    this.#parts = parts;
    this.#clock = parts.state.clock;
  }

  get streams(): number {
    return this.#readers.size;
  }

  streamsOf(reader: string): number {
    return [...this.#readers.values()].filter(({ id }) => id === reader).length;
  }

  /** Undefined for a stream of another reader. */
  find(id: string, reader: string): ConsoleStream | undefined {
    for (const [stream, owner] of this.#readers) if (stream.id === id && owner.id === reader) return stream;
    return undefined;
  }

  add(stream: ConsoleStream, reader: StreamReader): void {
    this.#readers.set(stream, reader);
    stream.start(this.#clock.nowMs());
    if (this.#awaySinceMs !== undefined) stream.setAway(this.#awaySinceMs);
    this.#cancelBeat ??= this.#clock.after(BEAT_MS, () => this.#beat());
  }

  remove(stream: ConsoleStream): void {
    const reader = this.#readers.get(stream);
    this.#readers.delete(stream);
    if (reader !== undefined && this.streamsOf(reader.id) === 0) this.#rights.delete(reader.id);
    for (const topic of stream.topics) this.#leave(stream, topic);
  }

  /** Ends the stream if the API server does not accept the reader's token. */
  async showFirst(stream: ConsoleStream, topics: readonly ParsedTopic[]): Promise<void> {
    await this.show(stream, topics).catch((err: unknown) => this.#signOut(stream, err));
  }

  /** Topics that the stream already has continue. Resolves once the rights to the others are known. */
  async show(stream: ConsoleStream, topics: readonly ParsedTopic[]): Promise<void> {
    const wanted = new Map(topics.map((parsed) => [topicText(parsed), parsed]));
    for (const topic of stream.topics) if (!wanted.has(topic)) this.#leave(stream, topic);
    const added = [...wanted].filter(([topic]) => !stream.has(topic));
    for (const [topic, parsed] of added) this.#join(stream, topic, parsed);
    for (const [topic, parsed] of added) await this.#check(stream, topic, parsed);
  }

  changed(change: ClusterChange): void {
    const { reads, lookup } = this.#parts.state;
    lookup.update(change);
    if (this.#topics.size === 0) return;
    const modelsOf = (key: string) => {
      const service = reads.services.get(key);
      return service === undefined ? [] : modelKeysOf(service);
    };
    for (const [topic, key] of marksOf(change, modelsOf)) this.#topics.get(topic)?.table.mark(key);
    this.#flushSoon();
  }

  /** The row of a topic that does not follow from objects may have changed. */
  markAll(topic: Topic): void {
    this.#topics.get(topic)?.table.markAll();
    this.#flushSoon();
  }

  /** The first list of a kind is complete: topics that wait for it can be shown. */
  synced(): void {
    for (const topic of this.#topics.keys()) this.#checkAll(topic);
  }

  /** Notifies all streams since when the API server has not answered; undefined once it does. */
  setAway(sinceMs: number | undefined): void {
    this.#awaySinceMs = sinceMs;
    for (const stream of this.#readers.keys()) stream.setAway(sinceMs);
  }

  close(): void {
    this.#cancelFlush?.();
    this.#cancelBeat?.();
    for (const stream of [...this.#readers.keys()]) {
      this.remove(stream);
      stream.end();
    }
  }

  #join(stream: ConsoleStream, topic: Topic, parsed: ParsedTopic): void {
    const watched = this.#topics.get(topic) ?? {
      ...openTable(parsed, this.#parts, (isOtherRefusal) => {
        this.#flushSoon();
        if (isOtherRefusal) this.#checkAll(topic);
      }),
      parsed,
      streams: new Set<ConsoleStream>(),
    };
    this.#topics.set(topic, watched);
    watched.streams.add(stream);
    stream.open(topic, watched.table);
  }

  #leave(stream: ConsoleStream, topic: Topic): void {
    stream.close(topic);
    const watched = this.#topics.get(topic);
    watched?.streams.delete(stream);
    if (watched?.streams.size !== 0) return;
    watched.stop?.();
    this.#topics.delete(topic);
  }

  #checkAll(topic: Topic): void {
    const { parsed, streams = [] } = this.#topics.get(topic) ?? {};
    for (const stream of streams)
      if (parsed !== undefined)
        void this.#check(stream, topic, parsed).catch((err: unknown) => this.#signOut(stream, err));
  }

  /** Rejects with ApiUnauthorized. While the API server does not answer, what was allowed stays so. */
  async #check(stream: ConsoleStream, topic: Topic, parsed: ParsedTopic): Promise<void> {
    const reader = this.#readers.get(stream);
    if (reader === undefined) return;
    try {
      const { mayAccess } = reader;
      const scope = await scopeOf(parsed, { mayAccess, seen: this.#rightsOf(reader) });
      const refusal = this.#topics.get(topic)?.refusal?.();
      if (scope === undefined) stream.refuse(topic, missingRight(mainQuestion(parsed)));
      else if (refusal !== undefined) stream.refuse(topic, refusalOf(refusal));
      else this.#allow(stream, topic, { parsed, scope });
    } catch (error) {
      if (!(error instanceof MetalbridgeError) || error.code === "ApiUnauthorized") throw error;
      if (!stream.isAllowed(topic)) stream.refuse(topic, refusalOf(error));
    }
  }

  /** What the server has not listed, or may not list, is not shown as absent. */
  #allow(
    stream: ConsoleStream,
    topic: Topic,
    { parsed, scope }: { readonly parsed: ParsedTopic; readonly scope: Scope },
  ): void {
    const reads = "name" in parsed ? this.#parts.state.reads[NAMED[parsed.at]] : undefined;
    const namespace = "namespace" in parsed ? parsed.namespace : undefined;
    if (reads?.covers(namespace) === false) {
      const { group, resource } = mainQuestion(parsed);
      stream.refuse(topic, notWatched(group, resource, namespace));
    } else if (reads?.isSynced() !== false) stream.allow(topic, scope);
  }

  #rightsOf({ id, mayAccess, namespace: own }: StreamReader): ScopeQuestions["seen"] {
    const namespaces = () => this.#namespaces(own);
    const seen = this.#rights.get(id) ?? createReaderRights({ mayAccess, namespaces, clock: this.#clock });
    this.#rights.set(id, seen);
    return seen;
  }

  /** Those of services, Models and replicas, and the reader's own. Pods of services are in them too. */
  #namespaces(own: string | undefined): readonly string[] {
    const { services, models, replicas } = this.#parts.state.reads;
    const all = [services, models, replicas].flatMap((reads) =>
      reads.list().map(({ metadata }) => metadata.namespace ?? "default"),
    );
    return [...new Set(own === undefined ? all : [...all, own])].sort();
  }

  #beat(): void {
    this.#beats += 1;
    const isCheck = this.#beats % BEATS_PER_CHECK === 0;
    for (const stream of this.#readers.keys()) {
      stream.beat(this.#clock.nowMs());
      void this.#recheck(stream, isCheck);
    }
    for (const { recheck } of this.#topics.values()) recheck?.();
    this.#flushSoon();
    this.#cancelBeat = this.#readers.size === 0 ? undefined : this.#clock.after(BEAT_MS, () => this.#beat());
  }

  async #recheck(stream: ConsoleStream, withRights: boolean): Promise<void> {
    if (this.#checking.has(stream)) return;
    this.#checking.add(stream);
    try {
      if ((await this.#readers.get(stream)?.isSignedIn()) === false) return this.#signOut(stream, undefined);
      for (const topic of withRights ? stream.topics : []) {
        const parsed = this.#topics.get(topic)?.parsed;
        if (parsed !== undefined) await this.#check(stream, topic, parsed);
      }
    } catch (err) {
      this.#signOut(stream, err);
    } finally {
      this.#checking.delete(stream);
    }
  }

  #signOut(stream: ConsoleStream, err: unknown): void {
    this.#parts.log.debug({ err }, "the stream of a console ends: its session has expired");
    stream.end(SIGNED_OUT);
    this.remove(stream);
  }

  #flushSoon(): void {
    if (this.#isFlushing || this.#cancelFlush !== undefined) return;
    if (![...this.#topics.values()].some(({ table }) => table.hasWork())) return;
    const waitMs = Math.max(GATHER_MS, this.#pauseUntilMs - this.#clock.monotonicMs());
    this.#cancelFlush = this.#clock.after(waitMs, () => void this.#flush());
  }

  async #flush(): Promise<void> {
    this.#cancelFlush = undefined;
    this.#isFlushing = true;
    let workMs = 0;
    for (const [topic, watched] of this.#topics) {
      while (watched.table.hasWork()) {
        const startedMs = this.#clock.monotonicMs();
        const keys = watched.table.flush(ROWS_PER_TURN);
        if (keys.length > 0) deliver(topic, watched, keys);
        workMs += this.#clock.monotonicMs() - startedMs;
        await nextTurn();
      }
    }
    this.#isFlushing = false;
    this.#pauseUntilMs = this.#clock.monotonicMs() + workMs * PAUSE_PER_WORK;
    this.#flushSoon();
  }
}

/** Streams with the same scope get the same bytes. */
function deliver(topic: Topic, { table, streams }: WatchedTopic, keys: readonly string[]): void {
  const events = new Map<string, Buffer | undefined>();
  const eventOf = (scope: Scope): Buffer | undefined => {
    if (events.has(scope.key)) return events.get(scope.key);
    const visible = keys.filter((key) => isSeen(scope, table.rightOf(key)));
    const event =
      visible.length === 0
        ? undefined
        : Buffer.from(changeEvent(topic, visible, (key) => table.textOf(key, scope)));
    events.set(scope.key, event);
    return event;
  };
  for (const stream of streams) stream.deliver(topic, keys, eventOf);
}
