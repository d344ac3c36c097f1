/** Hosts that download a Model before a service needs it. Pure. */

import { MetalbridgeError } from "../api/errors.ts";
import { DEFAULT_MODEL_ACCELERATOR } from "../api/fields/hardware.ts";
import { selectorMatches } from "../api/fields/kubernetes.ts";
import { type Host, PREFETCH_BYTES_MAX, PREFETCH_MAX, type PrefetchOrder } from "../api/host.ts";
import { isBeingDeleted } from "../api/metadata.ts";
import type { Model } from "../api/model.ts";
import { keyOf } from "../api/names.ts";
import { isReadByHost, isRemote, parseSource } from "../models/source/parse.ts";
import { compareText } from "../util/text.ts";
import { hostBudget } from "./placement/budget.ts";
import { formatOf } from "./resolve.ts";
import { candidateRuntimes } from "./runtime-choice.ts";
import { toReplicaModel } from "./template.ts";

/** True if the spec requests it and hosts can do it: weights that a host already has, or that only pods use, are not prefetched. */
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

/** Selects the hosts in prefetchHosts, whatever they can run; without it, all hosts with a runtime and enough memory. */
export function isPrefetchHost(model: Model, host: Host): boolean {
  if (!isPrefetched(model) || isBeingDeleted(host)) return false;
  const { prefetchHosts } = model.spec;
  if (prefetchHosts === undefined) return couldRun(model, host);
  const { names = [], selector } = prefetchHosts;
  const { name, labels } = host.metadata;
  return (names.length === 0 || names.includes(name)) && selectorMatches(selector, labels);
}

/**
 * The models that a host must prefetch. A Model whose source is not resolved is skipped. If not all orders fit into the Host,
 * each namespace gets an equal share.
 */
export function prefetchOrders(host: Host, models: readonly Model[]): PrefetchOrder[] {
  const requested = models
    .filter((model) => isResolved(model) && isPrefetchHost(model, host))
    .map(prefetchOrderOf)
    .sort((a, b) => compareText(keyOf(a), keyOf(b)));
  const bytesOf = new Map<string, number>();
  /** Sorted by the total size of the orders of the namespace up to each order. */
  const inTurn = requested
    .map((order) => {
      const cumulativeBytes = (bytesOf.get(order.namespace) ?? 0) + sizeOf(order);
      bytesOf.set(order.namespace, cumulativeBytes);
      return { order, cumulativeBytes };
    })
    .sort((a, b) => a.cumulativeBytes - b.cumulativeBytes);
  let left = PREFETCH_BYTES_MAX;
  const chosen = new Set<PrefetchOrder>();
  for (const { order } of inTurn) {
    if (sizeOf(order) > left) continue;
    left -= sizeOf(order);
    chosen.add(order);
  }
  return requested.filter((order) => chosen.has(order));
}

/** Models that the host would prefetch if its Host object had room for their orders. */
export function modelsWithoutRoom(host: Host, models: readonly Model[]): Model[] {
  const orders = host.status?.prefetch?.wanted ?? [];
  const names = new Set(orders.map(keyOf));
  const usedBytes = orders.reduce((sum, order) => sum + sizeOf(order), 0);
  const isWithoutRoom = (order: PrefetchOrder) =>
    !names.has(keyOf(order)) && usedBytes + sizeOf(order) > PREFETCH_BYTES_MAX;
  return models.filter(
    (model) => isResolved(model) && isPrefetchHost(model, host) && isWithoutRoom(prefetchOrderOf(model)),
  );
}

// Cached because many hosts need the same orders; cached objects do not change.
const ordersByModel = new WeakMap<Model, PrefetchOrder>();
const sizes = new WeakMap<PrefetchOrder, number>();

/** Namespace, name and weights of a Model, without its header, which agents read from the file. */
export function weightsOrderOf(model: Model) {
  const { gguf: _, ...weights } = toReplicaModel(model, formatOf(model));
  const { namespace = "default", name } = model.metadata;
  return { namespace, name, model: weights };
}

/** As the Host stores it: without an empty list, which an apply does not keep. */
function prefetchOrderOf(model: Model): PrefetchOrder {
  const known = ordersByModel.get(model);
  if (known !== undefined) return known;
  const { model: all, ...named } = weightsOrderOf(model);
  const { files, ...weights } = all;
  const order = { ...named, model: files.length === 0 ? weights : all };
  ordersByModel.set(model, order);
  return order;
}

/** Size in the API server's JSON, which encodes some characters in six bytes; at least an equal share of the list. */
function sizeOf(order: PrefetchOrder): number {
  const known = sizes.get(order);
  if (known !== undefined) return known;
  const { length } = new TextEncoder().encode(JSON.stringify(order).replace(/[<>&\u2028\u2029]/g, "\\u0000"));
  const size = Math.max(length, PREFETCH_BYTES_MAX / PREFETCH_MAX);
  sizes.set(order, size);
  return size;
}

function isResolved(model: Model): boolean {
  const { status, metadata } = model;
  return (
    !isBeingDeleted(model) &&
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

/** The parts of a Model that determine its prefetch orders; empty if no host prefetches it. */
export function prefetchText(model: Model | undefined): string {
  if (model === undefined || !isPrefetched(model)) return "";
  const { weightsBytes } = model.status ?? {};
  return JSON.stringify([prefetchOrderOf(model), isResolved(model), model.spec.prefetchHosts, weightsBytes]);
}
