/** Runs a controller that clusters have as pods, such as Karpenter, as a process of this machine. */
import path from "node:path";
import { tailOf } from "../../local/control-plane/process/log-tail.ts";
import { startWatched } from "../../local/control-plane/process/watched-child.ts";
import type { Kubectl } from "./kubectl.ts";
import { until } from "./until.ts";

/** What a program needs of the cluster beside which it runs. */
export interface BesideCluster {
  readonly kubeconfig: string;
  readonly kubectl: Kubectl;
  /** Folder of its own, for its configuration and log. */
  readonly dir: string;
}

export interface ClusterProgram {
  readonly name: string;
  readonly program: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Folder for its log. */
  readonly dir: string;
  /** Where it answers /readyz. */
  readonly healthPort: number;
}

/** Resolves once the program is ready; rejects with the end of its log. */
export async function startClusterProgram(options: ClusterProgram): Promise<AsyncDisposable> {
  const { name, program, args, env = {}, dir, healthPort } = options;
  const logFile = path.join(dir, `${name}.log`);
  const child = startWatched({
    name,
    program,
    args,
    env,
    cwd: dir,
    logFile,
    graceMs: 2_000,
    orphanGraceMs: 1_000,
  });
  const isReady = async () => {
    const answer = await fetch(`http://127.0.0.1:${healthPort}/readyz`);
    if (!answer.ok) throw new Error(`${name} is not ready: ${await answer.text()}`);
  };
  await until(isReady, { ended: child.ended }).catch(async (error: Error) => {
    await child.stop();
    throw new Error(`${error.message}; the end of its log:\n${tailOf(logFile, 2_000)}`);
  });
  return { [Symbol.asyncDispose]: async () => void (await child.stop()) };
}
