/** Joins what options add to the leader's work. */
import type { LeaderPart, LeaderPorts, OptionPart } from "../frame/option.ts";
import { type AutoscalingSource, NO_AUTOSCALING_SOURCE } from "../frame/service/autoscaling.ts";
import { type IdleServices, NEVER_IDLE } from "../frame/service/idle-report.ts";
import { NEVER_SEALED, type SealedTransport } from "../frame/service/transport.ts";
import type { ChangeHandlers } from "../frame/watches/contract.ts";
import type { Passes, Queues } from "./queues.ts";

export interface JoinedOptions extends Pick<LeaderPart, "minimumStayMs" | "benchmarkOf"> {
  readonly watches: NonNullable<LeaderPart["watches"]>;
  /** Calls the handlers of options after these. */
  readonly handlersAfter: (own: ChangeHandlers) => ChangeHandlers;
  /** By the name of the queue. */
  readonly passes: Passes;
  readonly enqueueAll: () => void;
  readonly onWorking: () => void;
  readonly idle: IdleServices;
  readonly autoscaling: AutoscalingSource;
  readonly transport: SealedTransport;
}

export function joinOptions(
  options: readonly Pick<OptionPart, "queue" | "lead">[],
  ports: Omit<LeaderPorts, "enqueue">,
  queues: Queues,
): JoinedOptions {
  const joined = options.flatMap(({ queue: name = "", lead }) => {
    const enqueue: LeaderPorts["enqueue"] = (key, afterMs) =>
      afterMs === undefined ? queues[name]?.enqueue(key) : queues[name]?.enqueueAfter(key, afterMs);
    return lead === undefined ? [] : [{ name, enqueue, part: lead({ ...ports, enqueue }) }];
  });
  const parts = joined.map(({ part }) => part);
  const provided = <K extends keyof LeaderPart>(what: K) =>
    parts.map((part) => part[what]).find((one) => one !== undefined);
  return {
    watches: parts.flatMap(({ watches = [] }) => watches),
    handlersAfter: (own) => callEach([own, ...parts.map(({ handlers = {} }) => handlers)]),
    passes: Object.fromEntries(joined.flatMap(({ name, part: { pass } }) => (pass ? [[name, pass]] : []))),
    enqueueAll: () => {
      for (const { part, enqueue } of joined) for (const key of part.keys?.() ?? []) enqueue(key);
    },
    onWorking: () => {
      for (const { onWorking } of parts) onWorking?.();
    },
    minimumStayMs: provided("minimumStayMs"),
    benchmarkOf: provided("benchmarkOf"),
    idle: provided("idle") ?? NEVER_IDLE,
    autoscaling: provided("autoscaling") ?? NO_AUTOSCALING_SOURCE,
    transport: provided("transport") ?? NEVER_SEALED,
  };
}

/** Calls the handlers of a change in order. The first have one for each change. */
function callEach([own, ...others]: readonly [ChangeHandlers, ...Partial<ChangeHandlers>[]]): ChangeHandlers {
  type Handle = (...change: unknown[]) => void;
  const names = Object.keys(own) as (keyof ChangeHandlers)[];
  const all = names.map((name) => {
    const handlers = [own, ...others].flatMap((each) => each[name] ?? []) as Handle[];
    const handleAll: Handle = (...change) => {
      for (const handle of handlers) handle(...change);
    };
    return [name, handleAll];
  });
  return Object.fromEntries(all);
}
