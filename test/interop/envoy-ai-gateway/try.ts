/**
 * Both real controllers with the objects that our controller writes: charts of Envoy Gateway and Envoy AI Gateway in pods of a
 * real node, and requests through the Envoy that they start to llama-server on three hosts.
 */

import { setTimeout as after } from "node:timers/promises";
import type { InteropCheck } from "../../../controller/pods/workload/fixtures/interop-facts.ts";
import type { NodeImage } from "../../../scripts/images/for-tests.ts";
import { getCondition } from "../../../src/api/conditions.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { INFERENCE_SERVICES } from "../../../src/api/kinds.ts";
import { killEngines } from "../../bed/engines.ts";
import { whyNoRealNode } from "../../bed/node/parts.ts";
import { NAMESPACE } from "../../bed/services.ts";
import { until } from "../../bed/until.ts";
import { temporaryFolder } from "../../fixtures/temporary-folder.ts";
import { type PodsBed, startPodsBed } from "../../nodes/bed.ts";
import { startNameServer } from "./dns.ts";
import {
  createGateway,
  type Dns,
  GATEWAY,
  type GatewayPlace,
  installGateways,
  untilServing,
} from "./install.ts";
import { ensureGatewayImages, renderCharts, VERSION } from "./programs.ts";

const HOSTS = ["host-1", "host-2", "host-3"];
const NODE = "node-1";
const OBJECTS = [
  "backends.gateway.envoyproxy.io",
  "backendtrafficpolicies.gateway.envoyproxy.io",
  "aiservicebackends.aigateway.envoyproxy.io",
  "aigatewayroutes.aigateway.envoyproxy.io",
  "httproutes.gateway.networking.k8s.io",
];

/** A text: why they cannot be had here. */
export async function tryEnvoyAIGateway(
  note: (text: string) => void,
  report: (version: string, point: InteropCheck) => void,
): Promise<string | undefined> {
  const why = whyNoRealNode();
  if (why !== undefined) return why;
  const images = await ensureGatewayImages();
  if (typeof images === "string") return images;
  note("start a cluster with a node and three hosts");
  await using bed = await startGatewayBed(images);
  note("install Envoy Gateway and Envoy AI Gateway");
  const host = bed.cluster.network.gateway;
  await using server = await startNameServer(host);
  await installBoth(bed, { host, server });
  note("start a service, and wait for the Envoy of the Gateway");
  const place = await serve(bed);
  for await (const point of tried(bed, place)) report(VERSION, point);
  return undefined;
}

export function startGatewayBed(images: readonly NodeImage[]): Promise<PodsBed> {
  return startPodsBed({
    nodes: [{ name: NODE, images }],
    agents: HOSTS.map((hostName) => ({ hostName, config: { disk: { reserve: 0 } } })),
    controllerArgs: [
      ...["--gateway-mode", "EnvoyAIGateway"],
      ...["--gateway-ref", `${GATEWAY.namespace}/${GATEWAY.name}`],
    ],
  });
}

export async function installBoth({ kubectl }: PodsBed, dns: Dns): Promise<void> {
  await using folder = await temporaryFolder();
  await installGateways(kubectl, await renderCharts(folder.path), dns);
  await createGateway(kubectl, dns);
}

export async function* tried(bed: PodsBed, place: GatewayPlace): AsyncGenerator<InteropCheck> {
  for (const [point, check] of pointsOf(bed, place)) {
    const differs = await check().then(
      () => undefined,
      (error: Error) => error.message.split("\n")[0],
    );
    yield { point, differs };
  }
}

/** One service on all hosts, and the Envoy that is started because it has a route. */
export async function serve(bed: PodsBed): Promise<GatewayPlace> {
  const endpoint = { modelNames: [{ name: "gpt-4o" }] };
  await bed.apply("chat", { replicas: 3, endpoint, placement: { on: "Hosts", spread: "Required" } });
  await bed.until("chat", { phase: "Ready", ready: "3/3" });
  return untilServing(bed.kubectl);
}

type Check = () => Promise<unknown>;
type Points = readonly (readonly [string, Check])[];

const HI = [{ role: "user", content: "hi" }];
const MANY = 40;
/** Two failed checks, with their timeouts. */
const HEALTH_CHECKS_SECONDS = 6;

function pointsOf(bed: PodsBed, place: GatewayPlace): Points {
  const ask = asker(place.envoy);
  const chat = (model: string, more: object = {}) =>
    ask("/v1/chat/completions", { model, messages: HI, max_tokens: 8, ...more });
  return [...namesAndPaths(bed, place, ask, chat), ...failures(bed, chat), ...changes(bed, chat)];
}

type Ask = ReturnType<typeof asker>;
type Chat = (model: string, more?: object) => Promise<Answer>;

function namesAndPaths(bed: PodsBed, place: GatewayPlace, ask: Ask, chat: Chat): Points {
  const long = [{ role: "user", content: "a ".repeat(50_000) }];
  return [
    ["GatewayReady is True, and status.gateway names the model", () => untilRouted(bed, "chat")],
    [
      "the address in the status of the Gateway answers",
      () => until(() => askInside(bed, place), { timeoutMs: 30_000 }),
    ],
    ["a chat by the name of the service", async () => expectAnswer(await chat("chat"), 200, /"usage"/)],
    ["a chat by NAMESPACE/NAME", async () => expectAnswer(await chat("default/chat"), 200, /"choices"/)],
    ["a chat by a further name", async () => expectAnswer(await chat("gpt-4o"), 200, /"choices"/)],
    ["a stream", async () => expectAnswer(await chat("chat", { stream: true }), 200, /data: \[DONE\]/)],
    [
      "a message of Anthropic's API",
      async () => {
        const body = { model: "chat", messages: HI, max_tokens: 8 };
        expectAnswer(await ask("/anthropic/v1/messages", body), 200, /"content"/);
      },
    ],
    ["an unknown model is 404", async () => expectAnswer(await chat("other"), 404, /./)],
    [
      "/v1/models lists all names",
      async () => {
        const seen = await ask("/v1/models");
        for (const name of ["chat", "default/chat", "gpt-4o"])
          expectAnswer(seen, 200, new RegExp(`"id":"${name}"`));
      },
    ],
    // The engine, whose context is shorter, rejects it.
    [
      "a prompt of 100 KB reaches the engine",
      async () => expectAnswer(await chat("chat", { messages: long }), 400, /context/),
    ],
  ];
}

function failures(bed: PodsBed, chat: Chat): Points {
  const kill = async (index: number, seconds: number) => {
    const agent = bed.farm.agents[index];
    if (agent === undefined) throw new Error(`there is no agent ${index}`);
    // Nothing is left that would withdraw the endpoint.
    await agent.part().kill("SIGKILL");
    killEngines(agent.stateDir);
    const listed = await endpointsOf(bed);
    await after(seconds * 1_000);
    await expectMany(chat, "chat");
    if ((await endpointsOf(bed)) !== listed) throw new Error("the endpoint was withdrawn meanwhile");
  };
  return [
    ["a host of three dies: no request fails", () => kill(0, 0)],
    ["a second host dies: no request fails after two health checks", () => kill(1, HEALTH_CHECKS_SECONDS)],
    [
      "both come back",
      async () => {
        for (const agent of bed.farm.agents.slice(0, 2)) agent.restart();
        await until(() => askEach(bed));
        await expectMany(chat, "chat");
      },
    ],
    [
      "an endpoint is withdrawn: no request fails",
      async () => {
        const whole = await endpointsOf(bed);
        await scale(bed, "chat", HOSTS.length - 1);
        await until(async () => {
          expectAnswer(await chat("chat"), 200, /"choices"/);
          if ((await endpointsOf(bed)) === whole) throw new Error("the Backend still has the endpoint");
        });
        await expectMany(chat, "chat");
        await scale(bed, "chat", HOSTS.length);
        await until(() => askEach(bed));
      },
    ],
  ];
}

function changes(bed: PodsBed, chat: Chat): Points {
  const within = (check: Check) => until(check, { timeoutMs: 60_000, everyMs: 500 });
  return [
    [
      "two services share a name",
      async () => {
        const shared = { endpoint: { modelNames: [{ name: "shared", weight: 50 }] } };
        await bed.apply("canary", { replicas: 1, placement: { on: "Hosts" }, ...shared });
        await bed.patch("isvc/chat", { spec: shared });
        await bed.until("canary", { phase: "Ready", ready: "1/1" });
        await within(async () => expectAnswer(await chat("shared"), 200, /"choices"/));
        await expectMany(chat, "shared");
      },
    ],
    [
      "one of the two has no replica: the other has all requests",
      async () => {
        await scale(bed, "canary", 0);
        await within(async () => expectAnswer(await chat("canary"), 500, /.?/));
        await within(() => expectMany(chat, "shared"));
      },
    ],
    [
      "a service without a replica is 500, and its route stays accepted",
      async () => {
        await scale(bed, "chat", 0);
        await within(async () => expectAnswer(await chat("chat"), 500, /.?/));
        await untilRouted(bed, "chat");
      },
    ],
    [
      "a deleted service leaves no object, and its name is 404",
      async () => {
        await bed.kubectl(["delete", "isvc", "chat", "canary", "--timeout=60s"]);
        await within(async () => {
          const left = await bed.kubectl(["get", OBJECTS.join(","), "-n", NAMESPACE, "-o", "name"]);
          if (left !== "") throw new Error(left);
        });
        await within(async () => expectAnswer(await chat("chat"), 404, /.?/));
      },
    ],
  ];
}

const scale = ({ kubectl }: PodsBed, name: string, count: number) =>
  kubectl(["scale", `isvc/${name}`, `--replicas=${count}`]);

/** As users do, from a machine of the cluster. */
async function askInside({ cluster }: PodsBed, { address }: GatewayPlace): Promise<void> {
  const body = JSON.stringify({ model: "chat", messages: HI, max_tokens: 8 });
  const flags = ["-sS", "-m", "60", "-w", "%{http_code}", "-H", "content-type: application/json", "-d", body];
  const text = await cluster.node(NODE).run("curl", ...flags, `${address}/v1/chat/completions`);
  expectAnswer({ status: Number(text.slice(-3)), text }, 200, /"choices"/);
}

/** Rejects unless the Backend has an endpoint for each host, and all of them answer. */
async function askEach(bed: PodsBed): Promise<void> {
  const ports = (await endpointsOf(bed)).split(" ");
  if (ports.length !== HOSTS.length) throw new Error(`endpoints at ${ports}`);
  for (const port of ports) {
    const { status } = await fetch(`http://${bed.cluster.network.gateway}:${port}/health`);
    if (status !== 200) throw new Error(`port ${port} answers ${status}`);
  }
}

async function endpointsOf({ kubectl }: PodsBed): Promise<string> {
  const path = "jsonpath={.spec.endpoints[*].ip.port}";
  return kubectl(["get", "backends.gateway.envoyproxy.io", "chat", "-n", NAMESPACE, "-o", path]);
}

async function expectMany(chat: Chat, model: string): Promise<void> {
  const seen: number[] = [];
  for (let count = 0; count < MANY; count += 1) seen.push((await chat(model)).status);
  const failed = seen.filter((status) => status !== 200);
  if (failed.length > 0)
    throw new Error(`${failed.length} of ${MANY} failed: ${[...new Set(failed)].join(", ")}`);
}

interface Answer {
  readonly status: number;
  readonly text: string;
}

const asker =
  (url: string) =>
  async (path: string, body?: object): Promise<Answer> => {
    const headers = { "content-type": "application/json" };
    const request = body === undefined ? {} : { method: "POST", headers, body: JSON.stringify(body) };
    const response = await fetch(`${url}${path}`, { ...request, signal: AbortSignal.timeout(60_000) });
    return { status: response.status, text: await response.text() };
  };

function expectAnswer({ status, text }: Answer, expected: number, pattern: RegExp): void {
  if (status !== expected || !pattern.test(text)) throw new Error(`${status} ${text.slice(0, 300)}`);
}

async function untilRouted(bed: PodsBed, name: string): Promise<void> {
  await until(
    async () => {
      const { status } = (await bed.farm.objects.read(INFERENCE_SERVICES, name)) as InferenceService;
      const found = getCondition(status?.conditions, "GatewayReady");
      if (found?.status !== "True" || status?.gateway?.modelName !== name)
        throw new Error(`${found?.status} ${found?.reason}: ${found?.message}`);
    },
    { timeoutMs: 30_000 },
  );
}
