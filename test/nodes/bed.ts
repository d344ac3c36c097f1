/** Services in pods of real nodes: a cluster, our controller with the rights of an installation, and an origin of weights. */
import { readFile } from "node:fs/promises";
import path from "node:path";
import { expect } from "vitest";
import type { TinyModelOptions } from "../../local/demo/tiny-model.ts";
import { OUR_IMAGE } from "../../scripts/images/for-tests.ts";
import { INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import { PODS, SERVICES } from "../../src/kube/kinds.ts";
import type { Kind, KubeObject } from "../../src/kube/types.ts";
import type { Pod } from "../../src/kube/workload-objects.ts";
import { allKinds, type Clients, startClients } from "../bed/load/clients.ts";
import type { ClientOrder } from "../bed/load/protocol.ts";
import { model, serviceAnywhere } from "../bed/manifests.ts";
import type { NodeOptions, RealNode } from "../bed/node/node.ts";
import { NAMESPACE, question } from "../bed/services.ts";
import { startFleet, type TestFleet, type TestFleetOptions } from "../bed/test-fleet.ts";
import { type UntilOptions, until } from "../bed/until.ts";
import { type RealCluster, type RealClusterOptions, startRealCluster } from "../cluster/node.ts";
import { temporaryFolder } from "../fixtures/temporary-folder.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { startBadOrigin } from "../integration/bad-origin.ts";

export interface PodsBedOptions {
  readonly nodes?: readonly NodeOptions[];
  readonly model?: TinyModelOptions;
  /** Size of `/large.gguf`. */
  readonly largeBytes?: number;
  /** Further ones of the origin, by path. */
  readonly files?: Readonly<Record<string, TinyModelOptions | Uint8Array>>;
  readonly controllerArgs?: readonly string[];
  readonly agents?: TestFleetOptions["agents"];
  readonly apiServerArgs?: RealClusterOptions["apiServerArgs"];
  readonly controllerManagerArgs?: RealClusterOptions["controllerManagerArgs"];
}

export interface PodsBed extends AsyncDisposable {
  readonly cluster: RealCluster;
  readonly kubectl: RealCluster["kubectl"];
  readonly farm: TestFleet;
  /** URL of a server on this machine, which nodes and pods reach: `/good.gguf` and what startBadOrigin has. */
  readonly origin: string;
  /** A Model and an InferenceService of one name. */
  readonly apply: (name: string, service?: object, model?: object) => Promise<void>;
  readonly patch: (what: string, change: object) => Promise<void>;
  /** Until the status matches. */
  readonly until: (name: string, status: object, wait?: UntilOptions) => Promise<void>;
  readonly untilModel: (name: string, status: object) => Promise<void>;
  readonly pods: (service: string) => Promise<readonly Pod[]>;
  readonly url: (service: string) => Promise<string>;
  /** One question from this node, through the ClusterIP; rejects with what curl said. */
  readonly ask: (node: RealNode, service: string, options?: object) => Promise<string>;
  /** Clients on this node that ask the service until they are stopped. */
  readonly clients: (node: RealNode, service: string, orders?: readonly ClientOrder[]) => Promise<Clients>;
}

export async function startPodsBed(options: PodsBedOptions = {}): Promise<PodsBed> {
  await using stack = new AsyncDisposableStack();
  const dir = stack.use(await temporaryFolder()).path;
  const { nodes = [{ name: "node-1" }], apiServerArgs = [], controllerManagerArgs = [] } = options;
  const cluster = stack.use(await startRealCluster({ nodes, apiServerArgs, controllerManagerArgs }));
  const { kubeconfig, kubectl, network } = cluster;
  const weights = path.join(dir, "tiny.gguf");
  await writeTinyGguf(weights, options.model);
  const { url: origin } = stack.use(
    await startBadOrigin(
      await readFile(weights),
      options.largeBytes ?? 0,
      network.gateway,
      await filesOf(dir, options.files),
    ),
  );
  const farm = stack.use(
    await startFleet({
      kubeconfig,
      address: network.gateway,
      agents: options.agents ?? [],
      controllerArgs: [...CONTROLLER_ARGS, ...(options.controllerArgs ?? [])],
    }),
  );
  const { objects } = farm;
  const url = async (service: string) => {
    const { clusterIP, ports } = (await objects.read(SERVICES, service)).spec;
    return `http://${clusterIP}:${ports[0].port}`;
  };
  const untilStatus = async (kind: Kind<KubeObject>, name: string, status: object, wait?: UntilOptions) => {
    const matches = async () => expect((await objects.read(kind, name)).status).toMatchObject(status);
    await until(matches, wait).catch(async (error) => {
      const seen = await kubectl(["get", "isvc,models,jobs,pods,pvc,events", "-n", NAMESPACE, "-o", "yaml"]);
      throw new Error(`${error}\n${seen}\n${farm.controller().log().slice(-4_000)}`);
    });
  };
  const kept = stack.move();
  return {
    cluster,
    kubectl,
    farm,
    origin,
    url,
    apply: async (name, service = {}, model = {}) => {
      await objects.apply(...served(name, origin, service, model));
    },
    patch: async (what, change) => {
      await objects.patch(NAMESPACE, what, change);
    },
    until: (name, status, wait) => untilStatus(INFERENCE_SERVICES, name, status, wait),
    untilModel: (name, status) => untilStatus(MODELS, name, status),
    pods: (service) => objects.list(PODS, `metalbridge.dev/service=${service}`),
    ask: async (node, service, asked = { max_tokens: 8 }) => {
      const target = `${await url(service)}/v1/chat/completions`;
      return node.run("curl", "-sS", "-m", "60", "--fail-with-body", target, "-d", question(asked));
    },
    clients: async (node, service, clients = allKinds()) =>
      startClients(network.station(node.name).namespace, { url: await url(service), clients }),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

async function filesOf(dir: string, files: PodsBedOptions["files"] = {}) {
  const read = Object.entries(files).map(async ([name, file]) => {
    if (file instanceof Uint8Array) return [name, file] as const;
    const written = path.join(dir, path.basename(name));
    await writeTinyGguf(written, file);
    return [name, await readFile(written)] as const;
  });
  return Object.fromEntries(await Promise.all(read));
}

// Where networks of tests are.
const CONTROLLER_ARGS = ["--image", OUR_IMAGE, "--allow-networks", "10.78.0.0/16"];

/** A Model of the origin's weights and an InferenceService of one name. */
export function served(
  name: string,
  origin: string,
  service: object = {},
  spec: object = {},
): readonly object[] {
  return [
    model(name, `${origin}/good.gguf`, { hardware: { accelerator: "cpu" }, ...spec }),
    serviceAnywhere(name, { rollout: { drainSeconds: 5 }, ...service }),
  ];
}
