/** What is still there after everything was deleted. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { LABEL_SERVICE, NAMESPACE_HOSTS } from "../../../src/api/group.ts";
import { INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../../../src/api/kinds.ts";
import {
  CONTROLLER_REVISIONS,
  DEPLOYMENTS,
  ENDPOINT_SLICES,
  LEASES,
  PODS,
  SERVICES,
} from "../../../src/kube/kinds.ts";
import type { Kind, KubeClient, KubeObject } from "../../../src/kube/types.ts";
import type { RealNode } from "../../bed/node/node.ts";
import type { TestHost } from "../bed/host.ts";
import type { EngineWatch } from "./engines.ts";
import { podTraces } from "./pod-engines.ts";

/** After services and models are gone: processes, run directories, kept wishes, ports, objects. */
export async function leftoversOfServices(
  client: KubeClient,
  hosts: readonly TestHost[],
  nodes: readonly RealNode[],
  engines: EngineWatch,
): Promise<readonly string[]> {
  engines.look();
  const kinds: readonly Kind<KubeObject>[] = [INFERENCE_SERVICES, INFERENCE_REPLICAS, MODELS];
  const labeled: readonly Kind<KubeObject>[] = [
    SERVICES,
    ENDPOINT_SLICES,
    CONTROLLER_REVISIONS,
    DEPLOYMENTS,
    PODS,
  ];
  const objects = await Promise.all([
    ...kinds.map((kind) => namesOf(client, kind)),
    ...labeled.map((kind) => namesOf(client, kind, LABEL_SERVICE)),
  ]);
  const onHosts = hosts.flatMap((host) => [...filesOf(host), ...portsOf(host)]);
  return [...engines.processes(), ...onHosts, ...nodes.flatMap(podTraces), ...objects.flat()];
}

/** After the Hosts are gone and the agents ended. */
export async function leftoversOfHosts(client: KubeClient): Promise<readonly string[]> {
  return namesOf(client, LEASES, undefined, NAMESPACE_HOSTS);
}

function filesOf({ name, stateDir }: TestHost): readonly string[] {
  return ["engines", "desired"].flatMap((folder) => {
    const full = path.join(stateDir, folder);
    return existsSync(full) ? readdirSync(full).map((entry) => `${name}: ${folder}/${entry}`) : [];
  });
}

/** Those of shared daemons among them. */
const FIRST_PORT = 20_900;
const LAST_PORT = 21_999;
const LISTENING = "0A";

/** Engine ports with a listener, as seen by a process inside the host's namespace: the agent. */
function portsOf({ name, agent }: TestHost): readonly string[] {
  const pid = agent.pid();
  if (pid === undefined) return [];
  const lines = readFileSync(`/proc/${pid}/net/tcp`, "utf8").trim().split("\n").slice(1);
  return lines.flatMap((line) => {
    const [, local = "", , state] = line.trim().split(/\s+/);
    const port = Number.parseInt(local.split(":")[1] ?? "", 16);
    return state === LISTENING && port >= FIRST_PORT && port <= LAST_PORT ? [`${name}: port ${port}`] : [];
  });
}

async function namesOf(
  client: KubeClient,
  kind: Kind<KubeObject>,
  labelSelector?: string,
  namespace?: string,
): Promise<readonly string[]> {
  const list = await client.list(kind, {
    labelSelector,
    namespace,
  });
  if (!list.ok) return [`${kind.plural} could not be listed: ${list.error.message}`];
  return list.value.items.map(({ metadata }) => {
    const held = metadata.finalizers?.length ? `, held by ${metadata.finalizers.join(", ")}` : "";
    const going = metadata.deletionTimestamp === undefined ? "" : " (being deleted)";
    return `${kind.plural}/${metadata.name}${going}${held}`;
  });
}
