/** Which hosts download a Model before any service needs it. Pure. */
import { MetalbridgeError } from "../api/errors.ts";
import { DEFAULT_MODEL_ACCELERATOR } from "../api/fields/hardware.ts";
import { selectorMatches } from "../api/fields/kubernetes.ts";
import { type Host, PREFETCH_BYTES_MAX, PREFETCH_MAX, type PrefetchOrder } from "../api/host.ts";
import type { Model } from "../api/model.ts";
import { isReadByHost, isRemote, parseSource } from "../models/source/parse.ts";
import { hostBudget } from "./placement/budget.ts";
import { formatOf } from "./resolve.ts";
import { candidateRuntimes } from "./runtime-choice.ts";
import { toReplicaModel } from "./template.ts";

/** Whether the spec asks for it, and hosts can do it: weights that a host has already, or that only pods use, are not fetched. */
export function isPrefetched({ spec }: Model): boolean {
  if (!spec.prefetch && spec.prefetchHosts === undefined) return false;
  const accelerator = spec.hardware?.accelerator ?? DEFAULT_MODEL_ACCELERATOR;
  if (accelerator !== DEFAULT_MODEL_ACCELERATOR && spec.prefetchHosts === undefined) return false;
  try {
    const source = parseSource(spec.source);
    return isRemote(source) && !isReadByHost(source, spec.format);
  } catch {
    return false;
  }
}

/** Those that prefetchHosts selects, whatever they can run; without it all that have a runtime and the memory. */
export function isPrefetchHost(model: Model, host: Host): boolean {
  if (!isPrefetched(model) || host.metadata.deletionTimestamp !== undefined) return false;
  const { prefetchHosts } = model.spec;
  if (prefetchHosts === undefined) return couldRun(model, host);
  const { names = [], selector } = prefetchHosts;
  const { name, labels } = host.metadata;
  return (names.length === 0 || names.includes(name)) && selectorMatches(selector, labels);
}

/**
 * What a host is asked to fetch, by Model. A Model whose source is not resolved yet asks for nothing. Where not all fit into
 * the Host, each namespace gets the same share.
 */
export function prefetchOrders(host: Host, models: readonly Model[]): PrefetchOrder[] {
  const asked = models
    .filter((model) => isResolved(model) && isPrefetchHost(model, host))
    .map(orderOf)
    .sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
  const bytesOf = new Map<string, number>();
  /** By what its namespace has asked for up to it. */
  const inTurn = asked
    .map((order) => {
      const upTo = (bytesOf.get(order.namespace) ?? 0) + sizeOf(order);
      bytesOf.set(order.namespace, upTo);
      return { order, upTo };
    })
    .sort((a, b) => a.upTo - b.upTo);
  let left = PREFETCH_BYTES_MAX;
  const chosen = new Set<PrefetchOrder>();
  for (const { order } of inTurn) {
    if (sizeOf(order) > left) continue;
    left -= sizeOf(order);
    chosen.add(order);
  }
  return asked.filter((order) => chosen.has(order));
}

/** Those of these Models that the host would be asked to fetch if its Host had room for them. */
export function modelsWithoutRoom(host: Host, models: readonly Model[]): Model[] {
  const wanted = host.status?.prefetch?.wanted ?? [];
  const names = new Set(wanted.map(keyOf));
  const usedBytes = wanted.reduce((sum, order) => sum + sizeOf(order), 0);
  const isWithoutRoom = (order: PrefetchOrder) =>
    !names.has(keyOf(order)) && usedBytes + sizeOf(order) > PREFETCH_BYTES_MAX;
  return models.filter(
    (model) => isResolved(model) && isPrefetchHost(model, host) && isWithoutRoom(orderOf(model)),
  );
}

/** For many hosts at a time, and objects of a cache do not change. */
const orders = new WeakMap<Model, PrefetchOrder>();
const sizes = new WeakMap<PrefetchOrder, number>();

function orderOf(model: Model): PrefetchOrder {
  const known = orders.get(model);
  if (known !== undefined) return known;
  const { gguf: _, ...rest } = toReplicaModel(model, formatOf(model));
  const { namespace = "default", name } = model.metadata;
  const order = { namespace, name, model: rest };
  orders.set(model, order);
  return order;
}

/** Bytes as the API server stores it, which writes some characters as six; small ones count as their share of the list. */
function sizeOf(order: PrefetchOrder): number {
  const known = sizes.get(order);
  if (known !== undefined) return known;
  const { length } = new TextEncoder().encode(JSON.stringify(order).replace(/[<>&\u2028\u2029]/g, "\\u0000"));
  const size = Math.max(length, PREFETCH_BYTES_MAX / PREFETCH_MAX);
  sizes.set(order, size);
  return size;
}

function keyOf({ namespace, name }: Pick<PrefetchOrder, "namespace" | "name">): string {
  return `${namespace}/${name}`;
}

function isResolved({ status, metadata }: Model): boolean {
  return (
    metadata.deletionTimestamp === undefined &&
    status?.cacheKey !== undefined &&
    (status.observedGeneration ?? 0) >= (metadata.generation ?? 0)
  );
}

function couldRun(model: Model, host: Host): boolean {
  const runtimes = new Set(host.status?.runtimes?.map(({ name }) => name));
  const budget = hostBudget(host);
  const needs = model.status?.weightsBytes ?? model.status?.sizeBytes ?? 0;
  if (budget.known && budget.bytes < needs) return false;
  try {
    return candidateRuntimes(undefined, formatOf(model), "chat").some((runtime) => runtimes.has(runtime));
  } catch (error) {
    if (error instanceof MetalbridgeError) return false;
    throw error;
  }
}

/** What of a Model decides who fetches it, and what; empty where no host does. */
export function prefetchText(model: Model | undefined): string {
  if (model === undefined || !isPrefetched(model)) return "";
  const { weightsBytes } = model.status ?? {};
  return JSON.stringify([orderOf(model), isResolved(model), model.spec.prefetchHosts, weightsBytes]);
}
