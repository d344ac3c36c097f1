/** The tables of the topics that some stream watches. */
import type { MetalbridgeError } from "../../../src/api/errors.ts";
import type { Topic } from "../../../src/console/protocol.ts";
import type { Log } from "../../../src/util/ports.ts";
import { detailSource } from "./details.ts";
import { createFarmTable, type FarmHistory } from "./farm.ts";
import { hostSource, type LiveState, machineSigns, modelSource, serviceSource } from "./lists.ts";
import { type ReadQueues, watchQueues } from "./queues.ts";
import { Table, type TopicTable } from "./table.ts";
import type { ParsedTopic } from "./topics.ts";

export interface TableParts {
  readonly state: LiveState;
  readonly log: Log;
  readonly history: FarmHistory;
  readonly readQueues: ReadQueues;
}

type OnWork = (isOtherRefusal: boolean) => void;

export interface OpenTable {
  readonly table: TopicTable;
  /** Marks rows that change only with time. */
  readonly recheck?: () => void;
  /** Why no reader gets rows now. */
  readonly refusal?: () => MetalbridgeError | undefined;
  readonly stop?: () => void;
}

/**
 * `onWork` is called when the table has marked rows that no change of an object concerns, with true if the refusal is another
 * one than before.
 */
export function openTable(topic: ParsedTopic, parts: TableParts, onWork: OnWork): OpenTable {
  const { state } = parts;
  switch (topic.at) {
    case "hosts":
      return openHosts(state);
    case "services":
      return { table: new Table(serviceSource(state)) };
    case "models":
      return { table: new Table(modelSource(state)) };
    case "farm":
      return { table: createFarmTable(state, parts.history) };
    case "queues":
      return openQueues(parts, onWork);
    case "service":
    case "model":
    case "host":
    case "node":
      return { table: new Table(detailSource(topic, state)) };
    default:
      return topic satisfies never;
  }
}

/** A topic of the protocol, by its parts. */
export function topicText(topic: ParsedTopic): Topic {
  if (!("name" in topic)) return topic.at;
  if ("namespace" in topic) return `${topic.at}/${topic.namespace}/${topic.name}`;
  return `${topic.at}/${topic.name}`;
}

function openHosts(state: LiveState): OpenTable {
  const table = new Table(hostSource(state));
  let signs = machineSigns(state);
  return {
    table,
    recheck: () => {
      const before = signs;
      signs = machineSigns(state);
      for (const [key, sign] of signs) if (before.get(key) !== sign) table.mark(key);
    },
  };
}

function openQueues({ readQueues, state: { clock }, log }: TableParts, onWork: OnWork): OpenTable {
  const { source, ...watched } = watchQueues(readQueues, { clock, log }, (isOtherRefusal) => {
    table.markAll();
    onWork(isOtherRefusal);
  });
  const table = new Table(source);
  return { table, ...watched };
}
