/**
 * Decides when pods are replaced: after a change of their template, once the old pods are idle, or because of their age. Until
 * then the Deployment is paused with the new template in it, so it still scales and replaces failed pods. Pure.
 */

import {
  ANNOTATION_IN_FLIGHT,
  ANNOTATION_RENEWED_AT,
  ANNOTATION_WAITING_SINCE,
} from "../../src/api/group.ts";
import type { InferenceServiceSpec } from "../../src/api/inference-service/index.ts";
import type { Deployment, Pod, PodTemplate } from "../../src/kube/workload-objects.ts";
import { isoSeconds } from "../../src/util/iso-seconds.ts";
import { engineOf, isLive, isReadyPod } from "./pods.ts";
import { podRevisionOf } from "./workload/revision.ts";
import { hasDevices, renewalStrategy, SURGE_ONE } from "./workload/strategy.ts";

export interface PodsRolloutInput {
  readonly spec: InferenceServiceSpec;
  /** The Deployment built from the spec. */
  readonly desired: Deployment;
  readonly current: Deployment | undefined;
  readonly pods: readonly Pod[];
  /** Renewal time of the desired pods. Absent: the one of the current template. */
  readonly renewed?: { readonly at: string | undefined };
}

/** Requests in flight by pod; undefined if they cannot be read. */
export type InFlight = ReadonlyMap<string, number | undefined>;

/** The reason why pods of an older template are not replaced yet. */
export interface Deferral {
  readonly reason: "PodsBusy" | "IdleCheckFailed" | "IdleCheckUnsupported";
  readonly message: string;
}

export interface Rollout {
  /** The Deployment to apply. */
  readonly deployment: Deployment;
  readonly deferral?: Deferral;
  /** Set if the wait has reached its limit while requests are or may be in flight. */
  readonly isForced?: true;
  readonly recheckAfterMs?: number;
}

const PROBE_INTERVAL_MS = 5_000;
/** A pod's lifetime may exceed the maximum of a timer. */
const MAX_RECHECK_MS = 86_400_000;

/** Pods whose requests in flight `planPodsRollout` needs. */
export function podsToProbe(input: PodsRolloutInput, nowMs: number): readonly Pod[] {
  const { limitMs, old } = changeOf(input, nowMs);
  return limitMs === undefined ? [] : old.filter(mayServe);
}

export function planPodsRollout(input: PodsRolloutInput, inFlight: InFlight, nowMs: number): Rollout {
  const { deployment, old, limitMs, sinceMs, dueInMs } = changeOf(input, nowMs);
  const due = dueInMs === undefined ? {} : { recheckAfterMs: Math.min(dueInMs, MAX_RECHECK_MS) };
  const busy =
    limitMs === undefined ? [] : old.filter((pod) => mayServe(pod) && inFlight.get(pod.metadata.name) !== 0);
  if (limitMs === undefined || busy.length === 0) return { deployment, ...due };
  const leftMs = sinceMs + limitMs - nowMs;
  if (leftMs <= 0) return { deployment, ...due, isForced: true };
  return {
    deployment: paused(deployment, sinceMs),
    deferral: deferralOf(busy, old.length, inFlight, sinceMs + limitMs),
    recheckAfterMs: Math.min(PROBE_INTERVAL_MS, leftMs),
  };
}

interface Change {
  readonly deployment: Deployment;
  /** Live pods of another template than the desired one. */
  readonly old: readonly Pod[];
  /** Undefined if there is nothing to wait for. */
  readonly limitMs: number | undefined;
  readonly sinceMs: number;
  /** Time until the oldest pod reaches its maximum age. */
  readonly dueInMs?: number;
}

function changeOf(input: PodsRolloutInput, nowMs: number): Change {
  const { spec, desired, current, pods } = input;
  const { strategy = SURGE_ONE } = desired.spec;
  const live = pods.filter(isLive);
  const last = current?.spec.template;
  const unrenewed = unrenewedOf(input);
  const isSettled =
    live.length >= (current?.spec.replicas ?? 1) &&
    live.every((pod) => isReadyPod(pod) && isOf(pod, unrenewed));
  const dueMs = isSettled ? dueTime(spec, live) : undefined;
  const isDue = dueMs !== undefined && dueMs <= nowMs;
  // The due time rather than the current time, so that all passes agree until the cache shows the change.
  const template = isDue ? withRenewal(unrenewed, isoSeconds(dueMs)) : unrenewed;
  const old = live.filter((pod) => !isOf(pod, template));
  const isRenewal = old.length > 0 && old.every((pod) => podRevisionOf(pod) === podRevisionOf(template));
  const since = current?.metadata.annotations?.[ANNOTATION_WAITING_SINCE];
  const isReleased = since === undefined && last !== undefined && isOf(last, template);
  return {
    deployment: {
      ...desired,
      spec: {
        ...desired.spec,
        strategy: isRenewal
          ? renewalStrategy(strategy, hasDevices(template.spec), live.length)
          : desired.spec.strategy,
        template,
      },
    },
    old,
    limitMs: old.length === 0 || isReleased ? undefined : limitOf(spec, isRenewal),
    sinceMs: Date.parse(since ?? "") || nowMs,
    dueInMs: dueMs === undefined || isDue ? undefined : dueMs - nowMs,
  };
}

/** Time at which the oldest of these pods reaches its maximum age. */
function dueTime({ maxPodLifetimeSeconds }: InferenceServiceSpec, pods: readonly Pod[]): number | undefined {
  if (maxPodLifetimeSeconds === undefined || pods.length === 0) return undefined;
  const created = pods
    .map(({ metadata }) => Date.parse(metadata.creationTimestamp ?? ""))
    .filter(Number.isFinite);
  return created.length === 0 ? undefined : Math.min(...created) + maxPodLifetimeSeconds * 1000;
}

/** Maximum wait in milliseconds; undefined for no wait. */
function limitOf(spec: InferenceServiceSpec, isRenewal: boolean): number | undefined {
  const { waitForIdle, idleTimeoutSeconds, force } = spec.rolloutPolicy ?? {};
  const waits = waitForIdle === true && force !== true;
  const seconds =
    (isRenewal ? spec.maxPodLifetimeIdleTimeoutSeconds : undefined) ?? (waits ? idleTimeoutSeconds : 0) ?? 0;
  return seconds === 0 ? undefined : seconds * 1000;
}

function paused(deployment: Deployment, sinceMs: number): Deployment {
  const { metadata, spec } = deployment;
  const annotations = { ...metadata.annotations, [ANNOTATION_WAITING_SINCE]: isoSeconds(sinceMs) };
  return { ...deployment, metadata: { ...metadata, annotations }, spec: { ...spec, paused: true } };
}

function unrenewedOf({ desired, current, renewed }: PodsRolloutInput): PodTemplate {
  const { at } = renewed ?? { at: current && renewalOf(current.spec.template) };
  return withRenewal(desired.spec.template, at);
}

function withRenewal(template: PodTemplate, at: string | undefined): PodTemplate {
  if (at === undefined) return template;
  const annotations = { ...template.metadata?.annotations, [ANNOTATION_RENEWED_AT]: at };
  return { ...template, metadata: { ...template.metadata, annotations } };
}

type Templated = Pick<PodTemplate, "metadata">;

/** Time at which earlier pods of this template were replaced because of their age or their node. */
export function renewalOf({ metadata }: Templated): string | undefined {
  return metadata?.annotations?.[ANNOTATION_RENEWED_AT];
}

export function isOf(one: Templated, template: Templated): boolean {
  return podRevisionOf(one) === podRevisionOf(template) && renewalOf(one) === renewalOf(template);
}

/** Until its startup probe has succeeded, a pod receives no requests. */
function mayServe(pod: Pod): boolean {
  return engineOf(pod)?.started === true;
}

function deferralOf(busy: readonly Pod[], old: number, inFlight: InFlight, untilMs: number): Deferral {
  const unknown = busy.filter(({ metadata }) => inFlight.get(metadata.name) === undefined);
  const unsupported = unknown.filter(
    ({ metadata }) => metadata.annotations?.[ANNOTATION_IN_FLIGHT] === undefined,
  );
  const end = `; they are replaced at ${isoSeconds(untilMs)} at the latest`;
  if (unknown.length === 0)
    return { reason: "PodsBusy", message: `${busy.length} of ${old} old pods have requests in flight${end}` };
  const [first] = unsupported.length > 0 ? unsupported : unknown;
  const name = first?.metadata.name ?? "";
  return unsupported.length > 0
    ? { reason: "IdleCheckUnsupported", message: `${name} does not report its requests in flight${end}` }
    : { reason: "IdleCheckFailed", message: `the requests in flight of ${name} cannot be read${end}` };
}
