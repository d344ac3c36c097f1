/** The real kubectl against one kubeconfig, bounded in time. */
import { readPartsConfig } from "../../local/control-plane/config.ts";
import { findClusterParts } from "../../local/control-plane/parts.ts";
import { execute } from "./run.ts";

export interface KubectlOptions {
  /** Sent to stdin, for `apply -f -`. */
  readonly input?: string;
  /** By default a minute and a half, or ten seconds more than the `--timeout` that kubectl itself is given. */
  readonly timeoutMs?: number;
  /** Beside PATH, HOME and KUBECONFIG. */
  readonly env?: Readonly<Record<string, string>>;
}

/** Thrown when kubectl ends with another code than 0; `stderr` holds its sentence. */
export class KubectlFailed extends Error {
  readonly code: number | string;
  readonly stderr: string;

  constructor(args: readonly string[], code: number | string, stderr: string) {
    super(`kubectl ${args.join(" ")} ended with ${code}: ${stderr}`);
    this.name = "KubectlFailed";
    this.code = code;
    this.stderr = stderr;
  }
}

export type Kubectl = (args: readonly string[], options?: KubectlOptions) => Promise<string>;

/** It lives for a moment: collecting garbage would take a sixth of its CPU time. */
const NO_COLLECTION = { GOGC: "off", GOMEMLIMIT: "512MiB" };

/** A function that runs kubectl and resolves with its stdout. */
export function kubectlFor(kubeconfig: string): Kubectl {
  const { kubectl } = findClusterParts(readPartsConfig());
  const { PATH, HOME } = process.env;
  return async (args, { input, env, timeoutMs = ownTimeoutMs(args) ?? 90_000 } = {}) => {
    const settings = { ...NO_COLLECTION, PATH, HOME, KUBECONFIG: kubeconfig, ...env };
    const result = await execute(kubectl ?? "kubectl", args, { input, timeoutMs, env: settings });
    if (result.code === 0) return result.stdout;
    throw new KubectlFailed(args, result.code, result.stderr);
  };
}

/** Input of `apply -f -` and `create -f -`. */
export function listOf(...items: readonly object[]): KubectlOptions {
  return { input: JSON.stringify({ apiVersion: "v1", kind: "List", items }) };
}

/** A wait that kubectl itself times out says why. */
function ownTimeoutMs(args: readonly string[]): number | undefined {
  const seconds = args.map((arg) => /^--timeout=(\d+)s$/.exec(arg)?.[1]).find((found) => found !== undefined);
  return seconds === undefined ? undefined : Number(seconds) * 1_000 + 10_000;
}
