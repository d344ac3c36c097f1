/** The lists that the webhook answers from, and why one of them is not complete yet. */
import { describeError } from "../../src/api/errors.ts";
import { explainFailure } from "../../src/kube/errors.ts";
import type { ApiFailure, KubeObject, Reflector } from "../../src/kube/types.ts";
import { type ReflectorOptions, startReflector } from "../../src/kube/watch/reflector.ts";

type Shared = Pick<ReflectorOptions<KubeObject>, "connection" | "clock" | "log" | "signal">;
type Selected<T extends KubeObject> = Pick<
  ReflectorOptions<T>,
  "kind" | "namespace" | "labelSelector" | "fieldSelector"
>;

export interface Lists {
  /** Starts one, by the name that operators know it by. */
  readonly start: <T extends KubeObject>(
    what: string,
    selected: Selected<T>,
    onChange?: ReflectorOptions<T>["onChange"],
  ) => Reflector<T>;
  /** Those that have never been complete, one sentence each. */
  readonly missing: () => readonly string[];
}

export function createLists({ connection, clock, log, signal }: Shared): Lists {
  const failures = new Map<string, ApiFailure | undefined>();
  return {
    start: (what, selected, onChange = () => {}) => {
      failures.set(what, undefined);
      return startReflector({
        ...selected,
        connection,
        clock,
        log,
        signal,
        onChange,
        onSynced: () => failures.delete(what),
        onFailure: (failure) => {
          if (failures.has(what)) failures.set(what, failure);
        },
      });
    },
    missing: () =>
      [...failures].map(([what, failure]) => {
        const why = failure === undefined ? "" : `: ${describeError(explainFailure(failure))}`;
        return `the preflight webhook has not listed ${what} yet${why}`;
      }),
  };
}
