/** The real kubectl against one kubeconfig, bounded in time. */
import { execFile } from "node:child_process";
import { readPartsConfig } from "../../local/control-plane/config.ts";
import { findClusterParts } from "../../local/control-plane/parts.ts";

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
  return (args, options = {}) =>
    new Promise((resolve, reject) => {
      const child = execFile(
        kubectl ?? "kubectl",
        [...args],
        {
          env: { ...NO_COLLECTION, PATH, HOME, KUBECONFIG: kubeconfig, ...options.env },
          timeout: options.timeoutMs ?? ownTimeoutMs(args) ?? 90_000,
          maxBuffer: 64 * 1024 * 1024,
        },
        (error, stdout, stderr) => {
          if (error === null) resolve(stdout);
          else reject(new KubectlFailed(args, error.code ?? error.signal ?? "unknown", stderr));
        },
      );
      child.stdin?.on("error", () => {});
      child.stdin?.end(options.input ?? "");
    });
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
