/** Exec plugins of a kubeconfig, bounded: client-node starts them without a limit and with an open stdin. */
import { type SpawnOptions, spawn } from "node:child_process";
import type { KubeConfig } from "@kubernetes/client-node/dist/config.js";
import { ExecAuth } from "@kubernetes/client-node/dist/exec_auth.js";

type Start = (command: string, args: readonly string[] | undefined, options: SpawnOptions) => unknown;

/** A plugin that takes longer is killed, so that one that hangs does not leave a process behind at each attempt. */
export function boundPlugins(config: KubeConfig, timeoutMs: number): void {
  // Neither the list nor the function is part of client-node's declared interface.
  const { authenticators } = config as unknown as { readonly authenticators: readonly unknown[] };
  const start: Start = (command, args = [], options) =>
    spawn(command, [...args], {
      ...options,
      stdio: ["ignore", "pipe", "pipe"],
      timeout: timeoutMs,
      killSignal: "SIGKILL",
    });
  for (const one of authenticators) if (one instanceof ExecAuth) Object.assign(one, { execFn: start });
}
