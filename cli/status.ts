/** `metalbridge status`: hosts, services and replicas on one screen. */

import { type Command, Option } from "commander";
import { MANAGER_CONTROLLER, NAMESPACE_SYSTEM } from "../src/api/group.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES } from "../src/api/kinds.ts";
import { connect } from "../src/kube/client/connect.ts";
import { createClient } from "../src/kube/client/create-client.ts";
import { explainFailure } from "../src/kube/errors.ts";
import { LEASES } from "../src/kube/kinds.ts";
import type { Kind, KubeObject } from "../src/kube/types.ts";
import { writeOut } from "./program/output.ts";
import { leadershipNote, overviewOf } from "./status/overview.ts";
import { renderOverview } from "./status/render.ts";

interface StatusOptions {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly namespace?: string;
  readonly output: "text" | "json";
}

/** Options and action of the verb. */
export function configureStatus(command: Command): void {
  command
    .option("--kubeconfig <file>", "how to reach the cluster (default: KUBECONFIG, then ~/.kube/config)")
    .option("--context <name>", "context of the kubeconfig")
    .option("-n, --namespace <name>", "services and replicas of one namespace only")
    .addOption(
      new Option("-o, --output <format>", "how to print it").choices(["text", "json"]).default("text"),
    )
    .action(status);
}

async function status(options: StatusOptions): Promise<void> {
  const connection = await connect({ kubeconfigPath: options.kubeconfig, context: options.context });
  const client = createClient(connection, { userAgent: "metalbridge-status" });
  const list = async <T extends KubeObject>(kind: Kind<T>): Promise<readonly T[]> => {
    const scope = kind.namespaced && options.namespace !== undefined ? { namespace: options.namespace } : {};
    const result = await client.list(kind, scope);
    if (!result.ok) throw explainFailure(result.error);
    return result.value.items;
  };
  try {
    const [hosts, services, replicas] = await Promise.all([
      list(HOSTS),
      list(INFERENCE_SERVICES),
      list(INFERENCE_REPLICAS),
    ]);
    const lease = await client.get(LEASES, { name: MANAGER_CONTROLLER, namespace: NAMESPACE_SYSTEM });
    // Who may not read the Lease learns nothing of the controller from it.
    const isKnown = lease.ok || lease.error.kind === "notFound";
    const controller = isKnown ? leadershipNote(lease.ok ? lease.value : undefined, Date.now()) : undefined;
    const overview = {
      controller,
      ...overviewOf(hosts, services, replicas),
    };
    const colour = process.stdout.isTTY === true;
    const text =
      options.output === "json"
        ? JSON.stringify(overview, undefined, 2)
        : renderOverview(overview, { colour, width: colour ? process.stdout.columns : undefined });
    writeOut(`${text}\n`);
  } finally {
    connection.close();
  }
}
