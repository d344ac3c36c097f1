/** Which hosts download a Model before any service needs it. Pure. */
import { MetalbridgeError } from "../api/errors.ts";
import { DEFAULT_ACCELERATOR } from "../api/fields/hardware.ts";
import { selectorMatches } from "../api/fields/kubernetes.ts";
import { type Host, PREFETCH_MAX, type PrefetchOrder } from "../api/host.ts";
import type { Model } from "../api/model.ts";
import { isReadByHost, isRemote, parseSource } from "../models/source/source.ts";
import { hostBudget } from "./budget.ts";
import { formatOf } from "./resolve.ts";
import { candidateRuntimes } from "./runtime-choice.ts";
import { toReplicaModel } from "./template.ts";

/** Whether the spec asks for it, and hosts can do it: weights that a host has already, or that only pods use, are not fetched. */
export function isPrefetched({ spec }: Model): boolean {
  if (!spec.prefetch && spec.prefetchHosts === undefined) return false;
  const accelerator = spec.hardware?.accelerator ?? DEFAULT_ACCELERATOR;
  if (accelerator !== DEFAULT_ACCELERATOR && spec.prefetchHosts === undefined) return false;
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

/** What a host is asked to fetch, by Model. A Model whose source is not resolved yet asks for nothing. */
export function prefetchOrders(host: Host, models: readonly Model[]): PrefetchOrder[] {
  return models
    .filter((model) => isResolved(model) && isPrefetchHost(model, host))
    .map(orderOf)
    .sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))
    .slice(0, PREFETCH_MAX);
}

function orderOf(model: Model): PrefetchOrder {
  const { gguf: _, ...rest } = toReplicaModel(model, formatOf(model));
  return { namespace: model.metadata.namespace ?? "default", name: model.metadata.name, model: rest };
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
