import { expect, test } from "vitest";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { createRoutes } from "../../../src/http/routes.ts";
import { serveHttp } from "../../../test/bed/http-server.ts";
import { answerLoad, externalMetricsRoutes, failure, requestsOf } from "./api.ts";
import { aggregatorOf } from "./server.ts";

function serviceOf(name: string, status: object, replicas = 1): InferenceService {
  return { metadata: { namespace: "team", name }, spec: { replicas }, status } as unknown as InferenceService;
}

const busy = serviceOf("busy", { readyReplicas: 2, performance: { requestsInFlight: 3.25 } });
const services = [
  busy,
  serviceOf("idle", { readyReplicas: 1 }),
  serviceOf("starting", { readyReplicas: 0, replicas: 1 }),
  serviceOf("mute", { readyReplicas: 1, performance: { tokensPerSecond: 3 } }),
  serviceOf("unread", { readyReplicas: 1, performance: { requestsUnknown: true } }),
  { ...busy, metadata: { namespace: "other", name: "busy" } },
];
const source = {
  list: () => services,
  get: (key: string) => services.find(({ metadata: { namespace, name } }) => `${namespace}/${name}` === key),
};
const BASE = "/apis/external.metrics.k8s.io/v1beta1";
const METRIC = `${BASE}/namespaces/team/metalbridge_requests_in_flight`;

/** Over real HTTP. */
async function ask(url: string) {
  const routes = externalMetricsRoutes(source, () => "2026-11-26T00:00:00Z");
  await using server = await serveHttp(createRoutes({ routes, refuse: failure }));
  const response = await fetch(server.url + url);
  const body: ReturnType<typeof failure>["body"] = JSON.parse(await response.text());
  return { status: response.status, body };
}

test.each<[string, object, number, number | undefined]>([
  ["busy", { readyReplicas: 1, performance: { requestsInFlight: 2 } }, 1, 2],
  ["idle, which engines do not report", { readyReplicas: 1 }, 1, 0],
  [
    "an engine that does not count requests",
    { readyReplicas: 1, performance: { tokensPerSecond: 1 } },
    1,
    undefined,
  ],
  [
    "a ready replica whose requests are not known",
    { readyReplicas: 1, performance: { requestsUnknown: true } },
    1,
    undefined,
  ],
  ["no ready replica", { replicas: 1 }, 1, undefined],
  ["scaled to zero", { replicas: 0 }, 0, 0],
  ["the last replica still stops", { replicas: 1 }, 0, undefined],
])("requests of a service: %s", (_, status, replicas, expected) => {
  expect(requestsOf(serviceOf("chat", status, replicas))).toBe(expected);
});

test("discovery names the metric", async () => {
  expect(await ask(BASE)).toMatchObject({ status: 200, body: { kind: "APIResourceList" } });
  expect(await ask("/apis/external.metrics.k8s.io")).toMatchObject({
    status: 200,
    body: { kind: "APIGroup" },
  });
  expect(await ask("/apis")).toMatchObject({ status: 404, body: { kind: "Status" } });
  expect((await ask(`${BASE}/namespaces/team/other`)).status).toBe(404);
});

test("a metric has the services of its namespace whose load is known, selected by label", async () => {
  expect((await ask(METRIC)).body).toMatchObject({
    kind: "ExternalMetricValueList",
    items: [{ value: "3250m" }, { value: "0m" }],
  });
  const selected = `${METRIC}?labelSelector=${encodeURIComponent("metalbridge.dev/service=busy")}`;
  expect((await ask(selected)).body.items).toEqual([
    {
      metricName: "metalbridge_requests_in_flight",
      metricLabels: { "metalbridge.dev/service": "busy" },
      timestamp: "2026-11-26T00:00:00Z",
      value: "3250m",
    },
  ]);
  expect((await ask(`${METRIC}?labelSelector=a%3Db`)).body.items).toEqual([]);
  expect((await ask(`${METRIC}?labelSelector=a%20in%20(b)`)).status).toBe(400);
});

test("KEDA gets a number, or an error where none is known", () => {
  expect(answerLoad("team/busy", source)).toEqual({ status: 200, body: { requestsInFlight: 3.25 } });
  expect(answerLoad("team/starting", source).status).toBe(503);
  expect(answerLoad("team/mute", source).status).toBe(503);
  expect(answerLoad("team/none", source).status).toBe(404);
});

test("the aggregator is known only with an authority and readable names", () => {
  const ca = "-----BEGIN CERTIFICATE-----";
  const data = { "requestheader-client-ca-file": ca, "requestheader-allowed-names": '["front"]' };
  expect(aggregatorOf(data)).toEqual({ authorities: ca, names: ["front"] });
  expect(aggregatorOf({ "requestheader-client-ca-file": ca })).toEqual({ authorities: ca, names: [] });
  expect(aggregatorOf({ ...data, "requestheader-allowed-names": "front" })).toBeUndefined();
  expect(aggregatorOf({ "requestheader-allowed-names": "[]" })).toBeUndefined();
  expect(aggregatorOf(undefined)).toBeUndefined();
});
