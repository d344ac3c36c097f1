import { describe, expect, test } from "vitest";
import { inferenceServiceSchema } from "../../../src/api/inference-service/index.ts";
import { createPublicNames, serviceNamesOf } from "../../../src/gateway/public-names.ts";
import type { EndpointSlice } from "../../../src/kube/objects.ts";
import type { Pod } from "../../../src/kube/workload-objects.ts";
import { routeSettingsOf } from "./config.ts";
import { readyEndpoints } from "./endpoints.ts";
import { gatewayOf, routeNamesOf, routeObjects } from "./plan.ts";
import { routeCondition } from "./route.ts";

const GATEWAY = { namespace: "infra", name: "gw" };

function service(name: string, spec: object = {}, minute = 0) {
  return inferenceServiceSchema.parse({
    metadata: {
      name,
      namespace: "apps",
      uid: `uid-${name}`,
      creationTimestamp: `2026-01-01T00:0${minute}:00Z`,
    },
    spec: { modelRef: "m", runtime: "llamacpp", ...spec },
  });
}

function namesIn(services: readonly ReturnType<typeof service>[], of = services[0], adapters: string[] = []) {
  const table = createPublicNames();
  for (const one of services) table.set(serviceNamesOf(one));
  const isRouted = (key: string) => key !== "apps/unrouted";
  const hasEndpoints = (key: string) => !key.endsWith("-idle");
  return routeNamesOf(of ?? service("none"), adapters, table, { isRouted, hasEndpoints });
}

describe("the Gateway of a service", () => {
  const none = routeSettingsOf({ gatewayMode: "None" });
  const all = routeSettingsOf({ gatewayMode: "EnvoyAIGateway", gatewayRef: "infra/gw" });
  const withGateway = (gateway: object | undefined) => service("chat", { endpoint: { gateway } });
  test.each([
    ["no service without a setting", undefined, none, undefined],
    ["every service by the controller's mode", undefined, all, GATEWAY],
    ["not one that declines", { enabled: false }, all, undefined],
    [
      "one that asks, on its own Gateway",
      { enabled: true, gatewayRef: { name: "own" } },
      none,
      { namespace: "apps", name: "own" },
    ],
    ["another namespace", { enabled: true, gatewayRef: { name: "gw", namespace: "infra" } }, none, GATEWAY],
    ["unset where nothing names it", { enabled: true }, none, "unset"],
  ])("%s", (_, gateway, settings, expected) => {
    expect(gatewayOf(withGateway(gateway), settings)).toEqual(expected);
  });
});

test("a route matches all names of the service, and replaces those that the engine may not know", () => {
  const chat = service("chat", { endpoint: { modelNames: [{ name: "gpt-4o" }] } });
  const names = namesIn([chat]);
  expect(names).toEqual({ known: ["chat"], replaced: ["apps/chat", "gpt-4o"], shared: [] });
  const endpoints = [{ address: "10.0.4.11", port: 40123 }];
  const { backend, aiBackend, route, policy } = routeObjects({
    service: chat,
    gateway: GATEWAY,
    endpoints,
    names,
  });
  for (const object of [backend, aiBackend, route, policy])
    expect(object.metadata).toMatchObject({
      ...{ name: "chat", namespace: "apps" },
      labels: { "metalbridge.dev/service": "chat", "metalbridge.dev/service-uid": "uid-chat" },
    });
  expect(backend.spec).toEqual({ endpoints: [{ ip: endpoints[0] }], tls: undefined });
  expect(aiBackend.spec).toMatchObject({
    schema: { name: "OpenAI" },
    backendRef: { group: "gateway.envoyproxy.io", kind: "Backend", name: "chat" },
    headerMutation: { set: [{ name: "x-metalbridge-cluster", value: "apps/chat" }] },
  });
  const match = (value: string) => ({ headers: [{ type: "Exact", name: "x-ai-eg-model", value }] });
  const rest = { modelsOwnedBy: "metalbridge", timeouts: { request: "1h" } };
  expect(route.spec.parentRefs).toEqual([
    { group: "gateway.networking.k8s.io", kind: "Gateway", ...GATEWAY },
  ]);
  expect(route.spec.rules).toEqual([
    { matches: [match("chat")], backendRefs: [{ name: "chat" }], ...rest },
    {
      matches: [match("apps/chat"), match("gpt-4o")],
      backendRefs: [{ name: "chat", modelNameOverride: "chat" }],
      ...rest,
    },
  ]);
  expect(policy.spec).toMatchObject({
    targetRefs: [{ kind: "HTTPRoute", name: "chat" }],
    healthCheck: { active: { type: "HTTP", http: { path: "/health" } }, panicThreshold: 1 },
  });
});

test("a route lists the owner and the creation time that the Model states", () => {
  const stated = { ownedBy: "meta", createdAt: "2024-07-23T00:00:00Z" };
  const chat = { ...service("chat"), status: { model: stated } };
  const { route } = routeObjects({ service: chat, gateway: GATEWAY, endpoints: [], names: namesIn([chat]) });
  const expected = { modelsOwnedBy: stated.ownedBy, modelsCreatedAt: stated.createdAt };
  expect(route.spec.rules).toEqual(route.spec.rules.map(() => expect.objectContaining(expected)));
});

test("the oldest service has the rule for a shared name, with the others of its Gateway", () => {
  const shared = (weight: number) => ({ endpoint: { modelNames: [{ name: "gpt", weight }] } });
  const services = [
    service("stable", shared(90), 0),
    service("canary", shared(10), 1),
    service("unrouted", shared(5), 2),
  ];
  const shares = [
    { service: "stable", weight: 90 },
    { service: "canary", weight: 10 },
  ];
  expect(namesIn(services).shared).toEqual([{ name: "gpt", shares }]);
  expect(namesIn(services, services[1]).shared).toEqual([]);
  const input = {
    service: services[0] ?? service("none"),
    gateway: GATEWAY,
    endpoints: [],
    names: namesIn(services),
  };
  expect(routeObjects(input).route.spec.rules.at(-1)?.backendRefs).toEqual([
    { name: "stable", modelNameOverride: "stable", weight: 90 },
    { name: "canary", modelNameOverride: "canary", weight: 10 },
  ]);
});

test("a service without endpoints gets no part of a shared name, unless no other has some", () => {
  const shared = (name: string, minute: number) =>
    service(name, { endpoint: { modelNames: [{ name: "gpt", weight: 1 }] } }, minute);
  const [old, young, idle] = [shared("old", 0), shared("young", 1), shared("b-idle", 2)];
  const sharers = (...services: ReturnType<typeof service>[]) =>
    namesIn(services).shared.map(({ shares }) => shares.map((share) => share.service));
  expect(sharers(old, young, idle)).toEqual([["old", "young"]]);
  expect(sharers(shared("a-idle", 0), young)).toEqual([["young"]]);
  expect(sharers(shared("a-idle", 0), idle)).toEqual([["a-idle", "b-idle"]]);
});

test("the name of an adapter reaches the engine, which selects it by that name", () => {
  const modelRefs = [
    { name: "m", role: "main" },
    { name: "style", role: "lora" },
  ];
  const chat = service("chat", { modelRef: undefined, modelRefs });
  expect(namesIn([chat], chat, ["style"]).known).toEqual(["chat", "style"]);
});

test.each([
  ["Hosts", { type: "HTTP", http: { path: "/health" } }],
  ["Pods", { type: "TCP" }],
])("Ollama is checked on %s by what answers there: the gate, or Ollama itself", (on, expected) => {
  const chat = service("chat", { runtime: "ollama" });
  const given = { ...chat, status: { on } };
  const { policy } = routeObjects({
    service: given,
    gateway: GATEWAY,
    endpoints: [],
    names: namesIn([chat]),
  });
  expect(policy.spec.healthCheck).toMatchObject({ active: expected });
});

test("an engine with unknown paths is checked by a connection, and TLS of the gate is verified", () => {
  const chat = service("chat", {
    runtime: "generic",
    command: ["/bin/x"],
    endpoint: { tls: { secretRef: { name: "cert" } } },
  });
  const { backend, policy } = routeObjects({
    service: chat,
    gateway: GATEWAY,
    endpoints: [],
    names: namesIn([chat]),
  });
  expect(policy.spec.healthCheck).toMatchObject({ active: { type: "TCP" } });
  expect(backend.spec).toEqual({
    endpoints: undefined,
    tls: { caCertificateRefs: [{ group: "", kind: "Secret", name: "cert" }], sni: "chat.apps.svc" },
  });
});

test("endpoints are the ready ones of slices and pods, in a fixed order", () => {
  const slice = (address: string, port: number, ready?: boolean) =>
    ({
      metadata: { name: address },
      addressType: "IPv4",
      ports: [{ port }],
      endpoints: [{ addresses: [address], conditions: { ready } }],
    }) as EndpointSlice;
  const pod = (
    podIP: string,
    {
      ready = "True",
      labels = { "metalbridge.dev/service": "chat" },
      deletionTimestamp = undefined as string | undefined,
    } = {},
  ) =>
    ({
      metadata: { name: podIP, labels, deletionTimestamp },
      spec: { containers: [{ name: "engine", image: "x", ports: [{ name: "http", containerPort: 8000 }] }] },
      status: { podIP, conditions: [{ type: "Ready", status: ready }] },
    }) as unknown as Pod;
  const slices = [
    slice("10.0.0.9", 40_000),
    slice("10.0.0.2", 40_001, true),
    slice("10.0.0.3", 1, false),
    { ...slice("10.0.0.4", 1), endpoints: null, ports: null },
  ];
  const pods = [
    pod("10.1.0.1"),
    pod("10.1.0.2", { ready: "False" }),
    pod("10.1.0.3", { labels: { "metalbridge.dev/service": "other" } }),
    pod("10.1.0.4", { deletionTimestamp: "2026-01-01T00:00:00Z" }),
  ];
  const sealed = slice("10.0.0.5", 40_002);
  sealed.metadata.annotations = { "metalbridge.dev/fingerprints": "aa" };
  const relaySlices = [slice("10.2.0.1", 20_001)];
  expect(readyEndpoints("chat", { slices: [...slices, sealed], relaySlices, pods })).toEqual([
    { address: "10.0.0.2", port: 40_001 },
    { address: "10.0.0.9", port: 40_000 },
    { address: "10.1.0.1", port: 8_000 },
    { address: "10.2.0.1", port: 20_001 },
  ]);
});

describe("GatewayReady", () => {
  const condition = (type: string, status: "True" | "False", message = "") => ({
    type,
    status,
    reason: "R",
    message,
  });
  const accepted = condition("Accepted", "True");
  const report = (ofRoute: object[] | undefined, ofHttpRoute?: object[], endpoints = 1) => {
    const route = ofRoute && { status: { conditions: ofRoute } };
    const httpRoute = ofHttpRoute && { status: { parents: [{ conditions: ofHttpRoute }] } };
    const { status, reason, message } = routeCondition({
      gateway: GATEWAY,
      endpoints,
      route,
      httpRoute,
    } as never);
    return `${status} ${reason}: ${message}`;
  };
  test.each([
    [report(undefined), /^Unknown GatewayRouteNotEvaluated: Envoy AI Gateway has not/],
    [report([accepted]), /^Unknown GatewayRouteNotEvaluated: Envoy Gateway has not/],
    [
      report([accepted], [accepted, condition("ResolvedRefs", "True")]),
      /^True RouteAccepted: the route is attached to Gateway infra\/gw$/,
    ],
    [report([accepted], [accepted], 0), /^True RouteAccepted: .* answers 500 until a replica is ready$/],
    [
      report([condition("NotAccepted", "False", "gateway infra/gw not found")]),
      /^False GatewayRouteNotAccepted: R: gateway infra\/gw not found; check that the Gateway exists/,
    ],
    [
      report([accepted], [accepted, condition("ResolvedRefs", "False", "Backend is disabled")]),
      /^False GatewayRouteNotAccepted: R: Backend is disabled/,
    ],
  ])("%s", (text, expected) => {
    expect(text).toMatch(expected);
  });
});
