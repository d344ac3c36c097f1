/** Limits exec plugins of a kubeconfig, which client-node starts without a timeout and with an open stdin. */
import { type SpawnOptions, spawn } from "node:child_process";
import type { KubeConfig } from "@kubernetes/client-node/dist/config.js";
import { ExecAuth } from "@kubernetes/client-node/dist/exec_auth.js";

type Start = (command: string, args: readonly string[] | undefined, options: SpawnOptions) => unknown;

/** Kills a plugin after the timeout, so that a plugin that hangs does not leave a process behind at each attempt. */
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
