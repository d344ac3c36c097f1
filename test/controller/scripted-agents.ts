/** Agents without machines that act on demand, once on each replica that has changed since. */
import { NAMESPACE_HOSTS } from "../../src/api/group.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { LEASES } from "../../src/kube/kinds.ts";
import type { EndpointSlice, Lease } from "../../src/kube/objects.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import type { Clock } from "../../src/util/ports.ts";
import { must } from "../bed/must.ts";
import { type HostOptions, registerHost } from "../bed/scripted-host.ts";
import { type ActOptions, act } from "./agent-side.ts";

export interface ScriptedAgentOptions extends HostOptions, Pick<ActOptions, "statusOf"> {}

export interface ScriptedAgent {
  /** Renews the Lease once. Unless it is silent, it is also renewed while time passes. */
  readonly renew: () => Promise<void>;
  /** Neither acts nor renews any more, like an agent whose machine is off. */
  readonly fallSilent: () => void;
  /** Reads its replicas again: what `statusOf` returns may have changed. */
  readonly look: () => void;
}

export interface ScriptedAgents {
  /** Registers the host, or another agent on it. Each has an address of its own. */
  readonly start: (host: string, options: ScriptedAgentOptions) => Promise<void>;
  /** The last one that was started on this host. */
  readonly of: (host: string) => ScriptedAgent;
  readonly renewAll: () => Promise<void>;
  /** Each acts on its changed replicas. False if there were none. */
  readonly act: (observed: ObservedReplicas) => Promise<boolean>;
}

interface ObservedReplicas {
  readonly replicasOf: (host: string) => readonly InferenceReplica[];
  readonly slice: (key: string) => EndpointSlice | undefined;
}

interface Running extends ScriptedAgent {
  readonly options: ScriptedAgentOptions & { readonly address: string };
  isSilent: boolean;
  /** Versions on which it has acted, by key. */
  readonly acted: Map<string, string>;
}

const FIRST_ADDRESS = 20;

export function createScriptedAgents(client: KubeClient, clock: Clock): ScriptedAgents {
  const agents = new Map<string, Running>();
  return {
    start: async (host, given) => {
      const address = agents.get(host)?.options.address ?? `192.168.7.${FIRST_ADDRESS + agents.size}`;
      const options = { address, ...given };
      await registerHost(client, host, options);
      const agent: Running = {
        options,
        isSilent: false,
        acted: new Map(),
        renew: () => renewLease(client, host, clock.nowMs()),
        fallSilent: () => {
          agent.isSilent = true;
        },
        look: () => agent.acted.clear(),
      };
      agents.set(host, agent);
      await agent.renew();
    },
    of: (host) => {
      const agent = agents.get(host);
      if (agent === undefined) throw new Error(`no agent was started on ${host}`);
      return agent;
    },
    renewAll: async () => {
      for (const { isSilent, renew } of agents.values()) if (!isSilent) await renew();
    },
    act: async ({ replicasOf, slice }) => {
      let hasActed = false;
      for (const [host, { options, isSilent, acted }] of agents) {
        for (const replica of isSilent ? [] : replicasOf(host)) {
          const { namespace, name, resourceVersion } = replica.metadata;
          const key = `${namespace}/${name}`;
          const version = `${resourceVersion} ${slice(key)?.metadata.resourceVersion}`;
          if (acted.get(key) === version) continue;
          acted.set(key, version);
          hasActed = true;
          await act({ client, slice: slice(key), ...options }, replica);
        }
      }
      return hasActed;
    },
  };
}

async function renewLease(client: KubeClient, host: string, nowMs: number): Promise<void> {
  const lease: Lease = {
    metadata: { name: host, namespace: NAMESPACE_HOSTS },
    spec: {
      holderIdentity: `${host}_test`,
      leaseDurationSeconds: 40,
      renewTime: new Date(nowMs).toISOString().replace("Z", "000Z"),
    },
  };
  must(await client.apply(LEASES, lease, { manager: "test" }));
}
