/** `metalbridge node` as its DaemonSet runs it, with the credential of one node. */
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { parse, stringify } from "yaml";
import { parseNodeConfig } from "../../agent/node/config.ts";
import { runNode } from "../../agent/node/main.ts";
import { NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import type { TestCluster } from "../cluster/cluster.ts";
import { quietLog } from "../cluster/quiet-log.ts";

/** A credential as kubelet gives it to a pod: bound to the pod, which runs on the node. */
export async function nodeCredential(cluster: TestCluster, node: string, folder: string): Promise<string> {
  const metadata = { name: `metalbridge-node-${node}`, namespace: NAMESPACE_SYSTEM };
  const spec = { nodeName: node, serviceAccountName: "metalbridge-node" };
  const containers = [{ name: "node", image: "x" }];
  const pod = { apiVersion: "v1", kind: "Pod", metadata, spec: { ...spec, containers } };
  await cluster.kubectl(["apply", "--server-side", "-f", "-"], { input: JSON.stringify(pod) });
  const uid = await cluster.kubectl([
    "get",
    "pod",
    metadata.name,
    "-n",
    NAMESPACE_SYSTEM,
    "-o",
    "jsonpath={.metadata.uid}",
  ]);
  const bound = [
    "--bound-object-kind=Pod",
    `--bound-object-name=${metadata.name}`,
    `--bound-object-uid=${uid}`,
  ];
  const token = await cluster.kubectl([
    "create",
    "token",
    "metalbridge-node",
    "-n",
    NAMESPACE_SYSTEM,
    ...bound,
  ]);
  const config = parse(await readFile(cluster.kubeconfig, "utf8"));
  const users = config.users.map(({ name }: { readonly name: string }) => ({
    name,
    user: { token: token.trim() },
  }));
  const file = path.join(folder, `${node}.kubeconfig`);
  await writeFile(file, stringify({ ...config, users }), { mode: 0o600 });
  return file;
}

/** Of a process that has run `metalbridge node` for a while: passes, and answers of the API server. */
export function startNodeDaemon(kubeconfig: string, hostRoot: string, nodeName: string) {
  const seen = { passes: 0, written: 0, answers: [] as string[] };
  const stop = new AbortController();
  // Passes follow each other at once.
  const clock = {
    ...systemClock,
    after: (ms: number, fire: () => void) => systemClock.after(Math.min(ms, 20), fire),
  };
  const running = runNode({
    config: parseNodeConfig({ kubeconfig, hostRoot, nodeName }),
    log: quietLog,
    signal: stop.signal,
    clock,
    onAnswer: (verb, status) => seen.answers.push(`${verb} ${status}`),
    onPass: (isWritten) => {
      seen.passes += 1;
      seen.written += Number(isWritten);
    },
  });
  const end = async () => {
    stop.abort();
    await running;
  };
  return { seen, end };
}
