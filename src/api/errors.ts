/** The catalog of error codes, and the error that carries them. The code is also the reason of conditions and Events. */
import { agentErrors } from "./errors/agent.ts";
import { apiErrors } from "./errors/api.ts";
import { autoscalingErrors } from "./errors/autoscaling.ts";
import { backendErrors } from "./errors/backend.ts";
import { benchmarkErrors } from "./errors/benchmark.ts";
import { cliErrors } from "./errors/cli.ts";
import { consoleErrors } from "./errors/console.ts";
import { doctorErrors } from "./errors/doctor.ts";
import { engineErrors } from "./errors/engine.ts";
import type { ErrorEntry } from "./errors/entry.ts";
import { gatewayErrors } from "./errors/gateway.ts";
import { idleErrors } from "./errors/idle.ts";
import { installErrors } from "./errors/install.ts";
import { objectiveErrors } from "./errors/objectives.ts";
import { placementErrors } from "./errors/placement.ts";
import { podErrors } from "./errors/pods.ts";
import { remoteErrors } from "./errors/remote.ts";
import { replicaErrors } from "./errors/replica.ts";
import { rolloutErrors } from "./errors/rollout.ts";
import { routeErrors } from "./errors/routes.ts";
import { sourceErrors } from "./errors/source.ts";

export const errorCatalog = {
  ...sourceErrors,
  ...engineErrors,
  ...agentErrors,
  ...apiErrors,
  ...placementErrors,
  ...rolloutErrors,
  ...replicaErrors,
  ...cliErrors,
  ...doctorErrors,
  ...installErrors,
  ...remoteErrors,
  ...podErrors,
  ...autoscalingErrors,
  ...backendErrors,
  ...benchmarkErrors,
  ...idleErrors,
  ...objectiveErrors,
  ...routeErrors,
  ...gatewayErrors,
  ...consoleErrors,
} as const satisfies Record<string, ErrorEntry>;

export type ErrorCode = keyof typeof errorCatalog;

export interface Remedy {
  readonly summary: string;
  readonly command?: string;
}

/** An expected failure: a stable code, a sentence on what happened, and a remedy. Anything else that is thrown is a bug. */
export class MetalbridgeError extends Error {
  readonly code: ErrorCode;
  readonly remedy: Remedy;

  constructor(code: ErrorCode, message: string, remedy?: Remedy, options?: ErrorOptions) {
    super(message, options);
    this.name = "MetalbridgeError";
    this.code = code;
    this.remedy = remedy ?? defaultRemedy(code);
  }
}

/** The remedy in the catalog. */
export function defaultRemedy(code: ErrorCode): Remedy {
  const { do: summary, command }: ErrorEntry = errorCatalog[code];
  return { summary, command };
}

/** The remedy in the catalog with what is known in place of `<service>`, `<host>`, `<port>` and the like. */
export function remedyOf(
  code: ErrorCode,
  known: Readonly<Record<string, string | number | undefined>>,
): Remedy {
  const { summary, command } = defaultRemedy(code);
  const filled = command?.replaceAll(/<([a-z]+)>/g, (placeholder, name) => `${known[name] ?? placeholder}`);
  return { summary, command: filled };
}

/** One line for conditions, events and logs: what happened, then what to do. */
export function describeError(error: MetalbridgeError): string {
  const { summary, command } = error.remedy;
  return command === undefined ? `${error.message}; ${summary}` : `${error.message}; ${summary}: ${command}`;
}
