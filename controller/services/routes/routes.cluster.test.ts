/** Routes of services on Gateways of Envoy AI Gateway, with the real kinds. The tests report what its controllers would. */
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  findAIGatewayCrds,
  findEnvoyGatewayCrds,
  findGatewayApiCrds,
} from "../../../scripts/setup/definitions.mjs";
import { getCondition } from "../../../src/api/conditions.ts";
import { type Bench, inferenceService, startBench } from "../../../test/controller/bench.ts";

const NS = "routed";
const ROUTE = "aigatewayroutes.aigateway.envoyproxy.io";
const BACKEND = "backends.gateway.envoyproxy.io";
const crds = [findGatewayApiCrds(), findEnvoyGatewayCrds(), findAIGatewayCrds()];
const withKinds = crds.includes(undefined) ? test.skip : test;
let bench: Bench;

beforeAll(async () => {
  bench = await startBench({ flags: { gatewayMode: "EnvoyAIGateway", gatewayRef: "infra/gw" } });
  await bench.objects.createNamespace(NS);
  await bench.model(NS, "tiny");
  await bench.agent("mac-1", { address: "10.0.4.11" });
  await bench.agent("mac-2", { address: "10.0.4.12" });
});
afterAll(() => bench?.[Symbol.asyncDispose]());

const untilReady = (name: string, expected: object | undefined) =>
  bench.serviceUntil(NS, name, ({ status }) => {
    const found = getCondition(status?.conditions, "GatewayReady");
    if (expected === undefined) expect(found).toBeUndefined();
    else expect(found).toMatchObject(expected);
  });

const report = (what: string, name: string, status: object) =>
  bench.objects.patch(NS, `${what}/${name}`, { status }, "status");

const condition = (type: string, status: string, message = "") => ({
  ...{ type, status, message, reason: "Tested", lastTransitionTime: "2026-01-01T00:00:00Z" },
});

const addressesUntil = (name: string, expected: readonly string[]) =>
  bench.objects.until(NS, `${BACKEND}/${name}`, (backend) => {
    const endpoints: { ip: { address: string } }[] = backend.spec.endpoints ?? [];
    expect(endpoints.map(({ ip }) => ip.address).sort()).toEqual(expected);
  });

test("a cluster without the kinds is named in the condition, and the service runs", async () => {
  await bench.apply(inferenceService(NS, "chat", { replicas: 2, placement: { spread: "Required" } }));
  await untilReady("chat", { status: "False", reason: "GatewayKindsMissing" });
  await bench.serviceUntil(NS, "chat", ({ status }) => expect(status?.ready).toBe("2/2"));
});

withKinds("the route appears once the kinds are installed, and follows the endpoints", async () => {
  for (const folder of crds) await bench.objects.install(folder ?? "");
  const both = ["10.0.4.11", "10.0.4.12"];
  await addressesUntil("chat", both);
  await untilReady("chat", { status: "Unknown", reason: "GatewayRouteNotEvaluated" });
  for (const kind of [
    ROUTE,
    "aiservicebackends.aigateway.envoyproxy.io",
    "backendtrafficpolicies.gateway.envoyproxy.io",
  ])
    expect((await bench.objects.get(NS, `${kind}/chat`)).metadata.name).toBe("chat");
  for (const [replicas, expected] of [
    [1, [expect.any(String)]],
    [0, []],
    [2, both],
  ] as const) {
    await bench.objects.scale(NS, "isvc/chat", replicas);
    await addressesUntil("chat", expected);
  }
});

withKinds(
  "GatewayReady says what the gateway's controllers report, and status.gateway the model name",
  async () => {
    const { metadata, spec } = await bench.objects.get(NS, `${ROUTE}/chat`);
    const { name, namespace, labels } = metadata;
    await report(ROUTE, "chat", { conditions: [condition("Accepted", "True")] });
    await untilReady("chat", {
      status: "Unknown",
      message: expect.stringContaining("Envoy Gateway has not"),
    });
    await bench.apply({
      ...{
        apiVersion: "gateway.networking.k8s.io/v1",
        kind: "HTTPRoute",
        metadata: { name, namespace, labels },
      },
      spec: { parentRefs: spec.parentRefs },
    });
    const parent = (...conditions: object[]) => ({
      parents: [
        { parentRef: { name: "gw", namespace: "infra" }, controllerName: "example.com/gateway", conditions },
      ],
    });
    const [accepted, refused] = [
      condition("Accepted", "True"),
      condition("ResolvedRefs", "False", "Backend is disabled"),
    ];
    await report("httproute", "chat", parent(accepted, refused));
    await untilReady("chat", { status: "False", reason: "GatewayRouteNotAccepted" });
    await report("httproute", "chat", parent(accepted, condition("ResolvedRefs", "True")));
    const { status } = await untilReady("chat", { status: "True", reason: "RouteAccepted" });
    expect(status?.gateway).toEqual({ routeReady: true, modelName: "chat" });
  },
);

withKinds("a canary is a rule with the weights of both services, on the route of the older", async () => {
  const weighted = (weight: number) => ({ endpoint: { modelNames: [{ name: "gpt", weight }] } });
  const refsUntil = (expected: readonly object[]) =>
    bench.objects.until(NS, `${ROUTE}/a-stable`, ({ spec }) => {
      const rules: { matches: { headers: { value: string }[] }[]; backendRefs: object[] }[] = spec.rules;
      const rule = rules.find(({ matches }) => matches.some(({ headers }) => headers[0]?.value === "gpt"));
      expect(rule?.backendRefs).toMatchObject(expected);
    });
  await bench.apply(inferenceService(NS, "a-stable", { replicas: 0, ...weighted(90) }));
  await refsUntil([{ name: "a-stable" }]);
  await bench.apply(inferenceService(NS, "b-canary", { replicas: 0, ...weighted(10) }));
  await refsUntil([
    { name: "a-stable", weight: 90 },
    { name: "b-canary", weight: 10 },
  ]);
  await bench.apply(inferenceService(NS, "b-canary", { replicas: 0, ...weighted(50) }));
  await refsUntil([{ weight: 90 }, { weight: 50 }]);
  // A service without endpoints has no part, also not on the route of another service.
  await bench.objects.scale(NS, "isvc/b-canary", 1);
  await refsUntil([{ name: "b-canary" }]);
  await bench.objects.scale(NS, "isvc/a-stable", 1);
  await refsUntil([{ weight: 90 }, { weight: 50 }]);
  await bench.objects.remove(NS, "isvc/a-stable", "isvc/b-canary");
});

withKinds(
  "a service that declines the route loses it, and its deletion does not wait for the gateway",
  async () => {
    await bench.objects.patch(NS, "inferenceservice/chat", {
      spec: { endpoint: { gateway: { enabled: false } } },
    });
    const { status } = await untilReady("chat", undefined);
    expect(status?.gateway).toBeUndefined();
    await bench.objects.until(NS, BACKEND, (items) => expect(items).toEqual([]));
    await bench.objects.patch(NS, "inferenceservice/chat", { spec: { endpoint: { gateway: null } } });
    await addressesUntil("chat", ["10.0.4.11", "10.0.4.12"]);
    await bench.objects.until(NS, `${ROUTE}/chat`, (route) => expect(route).toBeDefined());
    // As its controller does, which may be gone.
    await bench.objects.patch(NS, `${ROUTE}/chat`, {
      metadata: { finalizers: ["aigateway.envoyproxy.io/finalizer"] },
    });
    await bench.objects.remove(NS, "isvc/chat");
    expect((await bench.objects.get(NS, BACKEND)).items).toEqual([]);
    await bench.objects.patch(NS, `${ROUTE}/chat`, { metadata: { finalizers: null } });
  },
);
