/** The lists that the webhook reads, and the reasons why some are not complete yet. */
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
  /** Starts a list. `name` is for messages. */
  readonly start: <T extends KubeObject>(
    name: string,
    selected: Selected<T>,
    onChange?: ReflectorOptions<T>["onChange"],
  ) => Reflector<T>;
  /** One sentence for each list that has never been complete. */
  readonly missing: () => readonly string[];
}

export function createLists({ connection, clock, log, signal }: Shared): Lists {
  const failures = new Map<string, ApiFailure | undefined>();
  return {
    start: (name, selected, onChange = () => {}) => {
      failures.set(name, undefined);
      return startReflector({
        ...selected,
        connection,
        clock,
        log,
        signal,
        onChange,
        onSynced: () => failures.delete(name),
        onFailure: (failure) => {
          if (failures.has(name)) failures.set(name, failure);
        },
      });
    },
    missing: () =>
      [...failures].map(([name, failure]) => {
        const detail = failure === undefined ? "" : `: ${describeError(explainFailure(failure))}`;
        return `the preflight webhook has not listed ${name} yet${detail}`;
      }),
  };
}
