/** A hub over objects in memory, and browsers that read only when the test lets them. */
import { EventEmitter } from "node:events";
import type { ServerResponse } from "node:http";
import { createParser } from "eventsource-parser";
import { createDensity } from "../../../../fitness/density/density.ts";
import { createFitIndex } from "../../../../fitness/density/fits.ts";
import { memoryOfReplica } from "../../../../fitness/density/held-memory.ts";
import { machineFromHost } from "../../../../fitness/density/place.ts";
import type { Host } from "../../../../src/api/host.ts";
import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../../src/api/inference-service/index.ts";
import type { Model } from "../../../../src/api/model.ts";
import type { ClusterChange } from "../../../../src/cluster/informers.ts";
import type { AccessQuestion, RowsEvent } from "../../../../src/console/protocol.ts";
import type { RequestQueue } from "../../../../src/gateway/request-queues.ts";
import type { KubeObject } from "../../../../src/kube/types.ts";
import { createStore, type StoreChange } from "../../../../src/kube/watch/store.ts";
import type { Node, Pod } from "../../../../src/kube/workload-objects.ts";
import { quietLog } from "../../../../test/cluster/quiet-log.ts";
import { createSteppedClock } from "../../../../test/controller/stepped-clock.ts";
import { startFarmHistory } from "../farm.ts";
import { Hub, type StreamReader } from "../hub.ts";
import { createLookup, type Lookup } from "../lists.ts";
import { ConsoleStream } from "../stream.ts";
import { parseTopic } from "../topics.ts";

/** A response whose browser accepts `room` bytes until it reads. */
export class Browser extends EventEmitter {
  readonly chunks: (Buffer | string)[] = [];
  readonly events: { readonly event: string; readonly data: RowsEvent }[] = [];
  readonly #parser = createParser({
    onEvent: ({ event = "", data }) => void this.events.push({ event, data: JSON.parse(data) as RowsEvent }),
  });
  destroyed = false;
  writableEnded = false;
  room = Number.POSITIVE_INFINITY;

  get writableNeedDrain(): boolean {
    return this.room <= 0;
  }
  writeHead(): void {}
  write(bytes: Buffer | string): boolean {
    this.chunks.push(bytes);
    this.#parser.feed(String(bytes));
    this.room -= bytes.length;
    return this.room > 0;
  }
  end(): void {
    this.writableEnded = true;
    this.emit("close");
  }
  read(): void {
    this.room = Number.POSITIVE_INFINITY;
    this.emit("drain");
  }
  /** Events of one name since the last call. */
  take(event = "rows"): RowsEvent[] {
    const found = this.events.filter((one) => one.event === event).map(({ data }) => data);
    this.events.splice(0);
    return found;
  }
}

type Stores = ReturnType<typeof createStores>;

function createStores() {
  return {
    nodes: listed<Node>(),
    hosts: listed<Host>(),
    replicas: listed<InferenceReplica>(),
    pods: listed<Pod>(),
    services: listed<InferenceService>(),
    models: listed<Model>(),
  };
}

/** A store in place of a watch. */
function listed<T extends KubeObject>() {
  const whenSynced = async () => {};
  return { ...createStore<T>(), isSynced: () => true, covers: (_?: string) => true, whenSynced };
}

export type Rights = (question: AccessQuestion) => boolean | Promise<boolean>;

/** Settles what continues in turns of the event loop. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 30; turn += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** All readers may do everything unless their rights say otherwise. */
export function createLiveRig(queues: readonly RequestQueue[] = []) {
  const stores = createStores();
  const clock = createSteppedClock();
  const density = createDensity(createFitIndex([]));
  const stop = new AbortController();
  const counts = { rows: 0, readings: 0 };
  const lookup = countedLookup(createLookup(), counts);
  /** `problem`: no gateway can be read. */
  const gateways: { problem?: string | undefined } = {};
  const readQueues = async () => {
    counts.readings += 1;
    const { problem } = gateways;
    return problem === undefined
      ? { queues: [...queues], answered: 1 }
      : { queues: [], answered: 0, problem };
  };
  const history = startFarmHistory(stores, clock, {
    signal: stop.signal,
    onSample: () => hub.markAll("farm"),
  });
  const hub = new Hub({
    state: { reads: stores, lookup, density, clock },
    log: quietLog,
    history,
    readQueues,
  });
  let version = 0;
  const put = <K extends keyof Stores>(kind: K, object: KubeObject): void => {
    version += 1;
    const versioned = { ...object, metadata: { ...object.metadata, resourceVersion: String(version) } };
    if (kind === "hosts") density.setPlace("Host", object.metadata.name, machineFromHost(versioned as Host));
    if (kind === "replicas") holdReplica(versioned as InferenceReplica);
    const change = stores[kind].put(versioned as never);
    if (change !== undefined) hub.changed(changeOf(kind, change));
  };
  const holdReplica = (replica: InferenceReplica): void => {
    const { hostName: name } = replica.spec.template;
    density.setHeld(replica.metadata.name, { kind: "Host", name }, memoryOfReplica(replica));
  };
  return {
    hub,
    stores,
    clock,
    density,
    counts,
    gateways,
    put,
    drop: <K extends keyof Stores>(kind: K, object: KubeObject): void => {
      const change = stores[kind].drop(object as never);
      if (change !== undefined) hub.changed(changeOf(kind, change));
    },
    /** Opens a stream; `show` replaces its topics. */
    open: (reader: Partial<StreamReader> & { readonly may?: Rights } = {}) => {
      const browser = new Browser();
      const stream = new ConsoleStream("id", browser as unknown as ServerResponse);
      browser.once("close", () => hub.remove(stream));
      const { may = () => true, ...rest } = reader;
      const mayAccess = async (question: AccessQuestion) => may(question);
      hub.add(stream, { id: "ada", mayAccess, isSignedIn: async () => true, ...rest });
      const show = async (...topics: string[]): Promise<void> => {
        await hub.show(
          stream,
          topics.flatMap((topic) => parseTopic(topic) ?? []),
        );
        await settle();
      };
      return { browser, stream, show };
    },
    /** Changes within 250 ms are sent together. */
    flush: async (): Promise<void> => {
      clock.advance(1_000);
      await new Promise((resolve) => setTimeout(resolve, 2));
      await settle();
    },
    beat: async (): Promise<void> => {
      clock.advance(15_000);
      await new Promise((resolve) => setTimeout(resolve, 2));
      await settle();
      clock.advance(1_000);
      await new Promise((resolve) => setTimeout(resolve, 2));
      await settle();
    },
    [Symbol.dispose]: (): void => {
      stop.abort();
      hub.close();
    },
  };
}

/** Counts the rows of services that are computed. */
function countedLookup(lookup: Lookup, counts: { rows: number }): Lookup {
  return {
    ...lookup,
    podsOf: (service) => {
      counts.rows += 1;
      return lookup.podsOf(service);
    },
  };
}

function changeOf(name: keyof Stores, { key, object, before }: StoreChange<unknown>): ClusterChange {
  return { name, key, after: object, before } as ClusterChange;
}
