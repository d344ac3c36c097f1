/** `metalbridge host add`: registers a host, and prints the command by which its machine joins. */

import { HOST_TOKEN_SECONDS } from "../../src/api/access/account.ts";
import { joinSecretName } from "../../src/api/access/roles.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { NAMESPACE_HOSTS } from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import { HOSTS } from "../../src/api/kinds.ts";
import { serverOf } from "../../src/kube/client/kubeconfig.ts";
import { SERVICE_ACCOUNTS } from "../../src/kube/kinds.ts";
import { requestToken } from "../../src/kube/token.ts";
import { type Cluster, withCluster } from "../cluster/cluster.ts";
import type { ClusterFlags } from "../cluster/flags.ts";
import { writeErr, writeOut } from "../program/output.ts";
import { need, renewJoinSecret, requirePolicies, writeAccess } from "./access.ts";

export interface AddFlags extends ClusterFlags {
  readonly address?: readonly string[];
  readonly server?: string;
  readonly validFor: number;
}

const DAY_S = 86_400;

/** Every step may be repeated; only the join token is a new one each time. */
export async function hostAdd(name: string, flags: AddFlags): Promise<void> {
  await withCluster("host", flags, async (cluster) => {
    await requirePolicies(cluster);
    aside(await writeHost(cluster, name, flags.address));
    await writeAccess(cluster, name);
    const uid = await renewJoinSecret(cluster, name);
    const account = { name, namespace: NAMESPACE_HOSTS };
    const token = need(
      { verb: "create", kind: SERVICE_ACCOUNTS, ...account },
      await requestToken(cluster.connection, {
        account,
        seconds: Math.round(flags.validFor / 1_000),
        boundTo: { name: joinSecretName(name), uid },
      }),
    );
    const { server, caData } = serverOf({ kubeconfigPath: flags.kubeconfig, context: flags.context });
    const target = flags.server ?? server;
    if (isLoopback(target))
      aside(`${target} is an address of this machine only; for another machine pass --server`);
    aside(
      `run this on the machine, once and within ${flags.validFor / 60_000} min; its own credential is then valid for up to ${HOST_TOKEN_SECONDS / DAY_S} days at a time, and the agent renews it:`,
    );
    const ca = caData === undefined ? "" : ` --ca-data ${caData}`;
    writeOut(`metalbridge join --server ${target}${ca} --token ${token}\n`);
  });
}

async function writeHost(
  { client }: Cluster,
  name: string,
  addresses: readonly string[] | undefined,
): Promise<string> {
  const found = await client.get(HOSTS, { name });
  if (found.ok && addresses === undefined) return `host ${name} is registered already`;
  if (found.ok) {
    const value = { ...found.value.spec, addresses: [...(addresses ?? [])] };
    if (JSON.stringify(found.value.spec.addresses) === JSON.stringify(addresses))
      return `host ${name} is registered already`;
    const guard = { op: "test", path: "/metadata/uid", value: found.value.metadata.uid } as const;
    const set = { op: "add", path: "/spec/addresses", value: value.addresses } as const;
    need({ verb: "patch", kind: HOSTS, name }, await client.jsonPatch(HOSTS, { name }, [guard, set]));
    return `host ${name} may serve on ${value.addresses.join(", ")}`;
  }
  if (found.error.kind !== "notFound") need({ verb: "get", kind: HOSTS, name }, found);
  if (addresses === undefined)
    throw new MetalbridgeError("HostAddressesNeeded", `there is no Host ${name} yet`, {
      summary: "pass the addresses at which cluster nodes reach the machine",
      command: `metalbridge host add ${name} --address <address>`,
    });
  const host = { metadata: { name }, spec: { addresses: [...addresses] } } as unknown as Host;
  need({ verb: "create", kind: HOSTS, name }, await client.create(HOSTS, host));
  return `host ${name} is registered for ${addresses.join(", ")}`;
}

function isLoopback(server: string): boolean {
  return URL.canParse(server) && /^(127\.|localhost$|\[::1\])/.test(new URL(server).hostname);
}

/** On standard error: standard output holds the command alone. */
function aside(line: string): void {
  writeErr(`${line}\n`);
}
