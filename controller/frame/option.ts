/** The contract of an option: a feature that the controller is built and works without. `options/registry.ts` lists them. */
import type { z } from "zod";
import type { ConditionUpdate } from "../../src/api/conditions.ts";
import type { ModelStatus } from "../../src/api/model.ts";
import type { Routes } from "../../src/http/routes.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import type { Queue, Recheck } from "../../src/kube/queue.ts";
import type { KubeClient, Reflector } from "../../src/kube/types.ts";
import type { WatchedReflector } from "../../src/kube/watch/catch-up.ts";
import type { MoveResult } from "./move-tracker.ts";
import type { ControllerPorts } from "./ports.ts";
import type { ControllerScheduler } from "./scheduler/scheduler.ts";
import type { AutoscalingSource } from "./service/autoscaling.ts";
import type { IdleServices } from "./service/idle-report.ts";
import type { SealedTransport } from "./service/transport.ts";
import type { ChangeHandlers, WatchOptions } from "./watches/contract.ts";

/** `Needs` are settings of other parts that it reads. */
export interface Option<Shape extends z.ZodRawShape = never, Needs = object> {
  /** Its settings, as keys of the controller's. */
  readonly shape?: Shape;
  /** A setting that can only be on if machines are scored. */
  readonly needsFitness?: keyof Shape & string;
  /** Called in every controller, also in one that does not lead. */
  readonly start: (
    config: ([Shape] extends [never] ? object : z.output<z.ZodObject<Shape>>) & Needs,
    ports: ProcessPorts,
  ) => OptionPart | Promise<OptionPart>;
}

export interface ProcessPorts extends Pick<ControllerPorts, "clock" | "log" | "fitness" | "hostsOnly"> {
  readonly connection: KubeConnection;
  readonly signal: AbortSignal;
  /** True if nothing is served and written. */
  readonly isDryRun?: boolean;
  /** A client with a separate connection, which closes with the signal. */
  readonly connectApart: (maxRequests: number) => Promise<KubeClient>;
  /** Called with the port of a listener once it listens. */
  readonly onListening: (port: number) => void;
}

/** What an option does in this process. */
export interface OptionPart {
  /** Served beside /healthz and /metrics. */
  readonly routes?: Routes;
  /** Why this controller is not ready, one line each. */
  readonly notReady?: () => readonly string[];
  /** Resolves once it has stopped after the signal. */
  readonly ended?: Promise<void>;
  /** Called when this process begins to lead, before the first lists. */
  readonly onLead?: (
    ports: Pick<ControllerPorts, "client" | "clock" | "log"> & Pick<WatchOptions, "connection" | "signal">,
  ) => void;
  /** Name of its queue. */
  readonly queue?: string;
  /** Joins the leader's work. The watches have started, and their first lists may not be complete. */
  readonly lead?: (ports: LeaderPorts) => LeaderPart;
}

export interface LeaderPorts extends ControllerPorts, WatchOptions {
  readonly scheduler: ControllerScheduler;
  readonly countMove: (result: MoveResult) => void;
  /** Enqueues a key in its own queue. */
  readonly enqueue: (key: string, afterMs?: number) => void;
  readonly services: Queue<string>;
  readonly models: Queue<string>;
}

/** What an option does while this process leads. */
export interface LeaderPart {
  /** Watches of its own. Nothing runs before their lists are complete. */
  readonly watches?: readonly (Pick<Reflector<never>, "whenSynced"> & WatchedReflector)[];
  /** Called after those of the frame. */
  readonly handlers?: Partial<ChangeHandlers>;
  /** One pass over a key of its queue. */
  readonly pass?: (key: string, signal: AbortSignal) => Promise<Recheck | undefined>;
  /** Keys of the first passes, once every list is complete. */
  readonly keys?: () => readonly string[];
  /** Called once the queues run. */
  readonly onWorking?: () => void;
  /** Minimum time that a replica stays before a score may move it. */
  readonly minimumStayMs?: number;
  readonly autoscaling?: AutoscalingSource;
  readonly idle?: IdleServices;
  readonly transport?: SealedTransport;
  readonly benchmarkOf?: (model: string) => ModelBenchmarks | undefined;
}

/** Reason of the condition of a measured Model, and of its Event. */
export const BENCHMARKED = "Benchmarked";

export interface ModelBenchmarks {
  readonly benchmarks: ModelStatus["benchmarks"];
  /** Undefined if the Model is not to be measured, or not resolved yet. */
  readonly condition: Pick<ConditionUpdate, "status" | "reason" | "message"> | undefined;
}
