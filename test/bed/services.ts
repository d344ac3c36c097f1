/** What the tests of the whole system do with a service: apply it, wait for it, look at it, talk to it through its ClusterIP. */
import path from "node:path";
import { expect } from "vitest";
import { INFERENCE_REPLICAS, INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { ENDPOINT_SLICES, SERVICES } from "../../src/kube/kinds.ts";
import { model, serviceAnywhere } from "./manifests.ts";
import type { NodeNetwork } from "./node-network.ts";
import type { Untyped } from "./objects.ts";
import type { Part } from "./part.ts";
import type { TestFleet } from "./test-fleet.ts";
import { until } from "./until.ts";

export const NAMESPACE = "default";

export type Services = ReturnType<typeof servicesOf>;

/** All in the default namespace of the farm's cluster. */
export function servicesOf(farm: TestFleet, network: NodeNetwork) {
  return {
    untilHostsReady,
    applyService,
    untilReady,
    serviceStatus,
    statusUntil,
    replicaOf,
    replicaUntil,
    sliceIsReady,
    sliceUntil,
    clusterIp,
    chat,
    post,
    ask,
  };

  /** Until replicas can be placed on every host: its agent has reported an engine, and the controller has seen the agent. */
  async function untilHostsReady(): Promise<void> {
    const names = farm.agents.map(({ hostName }) => hostName);
    const isTrue = (type: string) => expect.objectContaining({ type, status: "True" });
    await Promise.all(
      names.map((name) =>
        farm.objects.until("", `mbhost/${name}`, (found) =>
          expect(found?.status?.conditions).toEqual(
            expect.arrayContaining([isTrue("Ready"), isTrue("Reachable")]),
          ),
        ),
      ),
    );
  }

  async function applyService(name: string, file: string, spec: object): Promise<void> {
    const service = serviceAnywhere(name, { rollout: { drainSeconds: 5 }, ...spec });
    await farm.objects.apply(model(name, path.join(farm.modelsDir, file)), service);
  }

  /** Until it is Ready, and kube-proxy, a sync period behind, leads its ClusterIP to an engine. */
  async function untilReady(name: string): Promise<void> {
    await farm.objects
      .until(NAMESPACE, `isvc/${name}`, (found) => expect(found?.status?.phase).toBe("Ready"))
      .catch(async (error) => {
        const seen = await farm.kubectl(["get", "isvc,irep,mdl,mbhost,endpointslices", "-A", "-o", "yaml"]);
        throw new Error(
          [error, seen, ...[farm.controller(), ...farm.agents.map((agent) => agent.part())].map(tail)].join(
            "\n",
          ),
        );
      });
    await untilConnected(name);
  }

  /** Whatever accepts a connection is an engine: kube-proxy refuses connections where it knows of no endpoint. */
  async function untilConnected(name: string): Promise<void> {
    const { clusterIP, ports } = (await farm.objects.read(SERVICES, name)).spec;
    await network.untilConnected(clusterIP, ports[0].port);
  }

  async function serviceStatus(name: string) {
    return (await farm.objects.read(INFERENCE_SERVICES, name)).status;
  }

  function statusUntil<T>(name: string, check: (status: Untyped) => T): Promise<T> {
    return farm.objects.until(NAMESPACE, `isvc/${name}`, (found) => check(found?.status));
  }

  async function replicaOf(service: string) {
    const items = await farm.objects.list(INFERENCE_REPLICAS, `metalbridge.dev/service=${service}`);
    expect(items).toHaveLength(1);
    return items[0];
  }

  /** Its one replica, once it passes the check. */
  function replicaUntil<T>(service: string, check: (replica: Untyped) => T): Promise<T> {
    const labelSelector = `metalbridge.dev/service=${service}`;
    const checkOnly = (items: readonly Untyped[]) => {
      expect(items).toHaveLength(1);
      return check(items[0]);
    };
    return farm.objects.until(NAMESPACE, "irep", checkOnly, { labelSelector });
  }

  async function sliceIsReady(service: string): Promise<boolean> {
    return anyIsReady(await farm.objects.list(ENDPOINT_SLICES, `kubernetes.io/service-name=${service}`));
  }

  async function sliceUntil(service: string, isReady: boolean): Promise<void> {
    const labelSelector = `kubernetes.io/service-name=${service}`;
    const check = (slices: readonly Slice[]) => expect(anyIsReady(slices)).toBe(isReady);
    await farm.objects.until(NAMESPACE, "endpointslices", check, { labelSelector });
  }

  async function clusterIp(service: string, namespace = NAMESPACE): Promise<string> {
    return (await farm.objects.read(SERVICES, service, namespace)).spec.clusterIP;
  }

  /** One question, asked once: why it failed, or undefined. */
  async function ask(service: string, options: object): Promise<string | undefined> {
    const url = `http://${await clusterIp(service)}:8080/v1/chat/completions`;
    const { code, stdout, stderr } = await network.curlInside([
      ...["-m", "10", "--fail-with-body", url, "-d", question(options)],
    ]);
    return code === 0 ? undefined : `curl ended with ${code}: ${stderr}${stdout}`;
  }

  async function chat(service: string, options: object, namespace = NAMESPACE) {
    return post(service, "/v1/chat/completions", question(options), namespace);
  }

  /** Through the ClusterIP; retried until kube-proxy, a sync period behind, has followed. */
  async function post(service: string, route: string, body: string, namespace = NAMESPACE) {
    const url = `http://${await clusterIp(service, namespace)}:8080${route}`;
    return until(
      async () => {
        const { code, stdout, stderr } = await network.curlInside(["-m", "10", url, "-d", body]);
        expect(code, stderr).toBe(0);
        return JSON.parse(stdout);
      },
      { everyMs: 200 },
    );
  }
}

function anyIsReady(slices: readonly Slice[]): boolean {
  return slices.some(({ endpoints }) => endpoints?.some(({ conditions }) => conditions.ready));
}

function tail(part: Part): string {
  return part.log().slice(-4_000);
}

interface Slice {
  readonly endpoints: readonly { readonly conditions: { readonly ready: boolean } }[] | null;
}

/** Body of a chat completion. */
export function question(options: object): string {
  return JSON.stringify({ messages: [{ role: "user", content: "Tell me about the sea." }], ...options });
}
