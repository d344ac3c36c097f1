/**
 * A simulated farm for rollouts: hosts with room, replicas that start, serve, fail and end; nothing happens
 * but by `step` and events.
 */
import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";
import { planHostsRollout, planRemovalsFirst } from "../rollout.ts";
import type { HostsRolloutInput, RolloutPlan } from "../types.ts";

export interface Settings {
  readonly maxSurge: number;
  readonly maxUnavailable: number;
  /** Room for so many replicas on each host. */
  readonly rooms: readonly number[];
}

interface One {
  readonly name: string;
  readonly ordinal: number;
  readonly revision: string;
  readonly host: string;
  readonly at: number;
  /** True if a replica of this revision failed in this slot, so this one is unproven until it is Ready. */
  readonly isSuspect: boolean;
  /** Unsettled: it crashed before and is Ready for a moment. */
  state: "starting" | "ready" | "failing" | "unsettled" | "leaving";
}

/** The results of one pass of the planner. */
export interface Pass {
  readonly plan: RolloutPlan;
  readonly readyBefore: number;
  readonly readyAfter: number;
  readonly liveBefore: number;
  readonly failingBefore: number;
  readonly liveAfter: number;
}

export class World {
  desired = 0;
  revision = "good-0";
  readonly draining = new Set<string>();
  readonly replicas: One[] = [];
  #current: string | undefined;
  #made = 0;
  readonly #settings: Settings;

  constructor(settings: Settings) {
    this.#settings = settings;
  }

  /** Plans and applies once, as the reconciler does. */
  pass(): Pass {
    const readyBefore = this.readySlots();
    const liveBefore = this.live().length;
    const failingBefore = this.live().filter(isFailing).length;
    const input = this.#input();
    const plan = planHostsRollout(input);
    const unplaced = new Set<number>();
    for (const { ordinal, revision } of plan.desiredSlots) {
      const host = this.#roomFor([]);
      if (host === undefined) unplaced.add(ordinal);
      else this.#create(ordinal, revision, host);
    }
    const fits = (_: number, without: readonly InferenceReplica[]) =>
      this.#roomFor(without.map(({ metadata }) => metadata.name)) !== undefined;
    const gone = [...plan.removals, ...planRemovalsFirst(input, plan, unplaced, fits)];
    for (const { replica } of gone) this.#end(replica.metadata.name);
    const { state } = plan;
    const isComplete =
      state.old === 0 && state.updatedReady === this.desired && state.stoppedBy === undefined;
    if (isComplete && this.desired > 0) this.#current = this.revision;
    return {
      plan,
      readyBefore,
      readyAfter: this.readySlots(),
      liveBefore,
      failingBefore,
      liveAfter: this.live().length,
    };
  }

  /** One replica gets on, chosen by `dice`; false where nothing can. */
  progress(dice: number): boolean {
    const movable = this.replicas.filter(({ state }) => state === "starting" || state === "leaving");
    const one = movable[dice % Math.max(1, movable.length)];
    if (one === undefined) return false;
    if (one.state === "leaving") this.replicas.splice(this.replicas.indexOf(one), 1);
    else one.state = one.revision.startsWith("bad") ? "failing" : "ready";
    return true;
  }

  /** A replica that serves serves no more, for a while or, with its host, for good. */
  trip(dice: number, isForGood: boolean): void {
    const serving = this.replicas.filter(({ state }) => state === "ready");
    const one = serving[dice % Math.max(1, serving.length)];
    if (one === undefined) return;
    if (isForGood) this.replicas.splice(this.replicas.indexOf(one), 1);
    else one.state = "starting";
  }

  /** Makes failing replicas Ready for a moment, or fail again. */
  flicker(isUp: boolean): void {
    for (const one of this.live()) {
      if (isUp && one.state === "failing") one.state = "unsettled";
      else if (!isUp && one.state === "unsettled") one.state = "failing";
    }
  }

  live(): readonly One[] {
    return this.replicas.filter(({ state }) => state !== "leaving");
  }

  readySlots(): number {
    const serving = this.live().filter(({ state, ordinal }) => state === "ready" && ordinal < this.desired);
    return new Set(serving.map(({ ordinal }) => ordinal)).size;
  }

  #input(): HostsRolloutInput {
    const replicas = this.replicas.map(asReplica);
    const failing = this.replicas.filter(isFailing);
    return {
      ...this.#settings,
      desired: this.desired,
      revision: this.revision,
      replicas,
      displaced: new Set(),
      draining: this.draining,
      failing: new Map(failing.map(({ name }) => [name, "fails"])),
      unsettled: new Set(this.replicas.filter(({ state }) => state === "unsettled").map(({ name }) => name)),
      fallback: this.#current,
      known: new Set(this.replicas.map(({ revision }) => revision)).add(this.#current ?? ""),
    };
  }

  #roomFor(without: readonly string[]): string | undefined {
    return this.#settings.rooms
      .map((room, index) => ({ host: `mac-${index}`, room }))
      .filter(({ host }) => !this.draining.has(host))
      .map(({ host, room }) => {
        const taken = this.replicas.filter((one) => one.host === host && !without.includes(one.name)).length;
        return { host, left: room - taken };
      })
      .filter(({ left }) => left > 0)
      .sort((a, b) => b.left - a.left)[0]?.host;
  }

  #create(ordinal: number, revision: string, host: string): void {
    this.#made += 1;
    const name = `chat-${ordinal}-${this.#made}`;
    const isSuspect = this.live()
      .filter(isFailing)
      .some((one) => one.ordinal === ordinal && one.revision === revision);
    this.replicas.push({ name, ordinal, revision, host, at: this.#made, isSuspect, state: "starting" });
  }

  #end(name: string): void {
    const one = this.replicas.find((replica) => replica.name === name);
    if (one !== undefined) one.state = "leaving";
  }
}

function isFailing({ state, isSuspect }: One): boolean {
  return state === "failing" || (state === "starting" && isSuspect);
}

function asReplica({ name, revision, host, at, state }: One): InferenceReplica {
  return {
    metadata: {
      name,
      creationTimestamp: `2026-01-01T00:00:${String(at).padStart(4, "0")}Z`,
      deletionTimestamp: state === "leaving" ? "now" : undefined,
    },
    spec: { template: { revision, hostName: host } },
    status: {
      phase: state === "ready" || state === "unsettled" ? "Ready" : "Starting",
      conditions: [{ type: "HostReachable", status: "True" }],
    },
  } as unknown as InferenceReplica;
}
