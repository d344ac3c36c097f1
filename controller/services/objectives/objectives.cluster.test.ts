/** Service level objectives with the real kind of the Prometheus operator, and that of Pyrra by its documentation. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { findMonitoringCrds } from "../../../scripts/setup/definitions.mjs";
import { getCondition } from "../../../src/api/conditions.ts";
import { type Bench, inferenceService, startBench } from "../../../test/controller/bench.ts";

const NS = "watched";
const RULES = "prometheusrules.monitoring.coreos.com";
const OBJECTIVES = "servicelevelobjectives.pyrra.dev";
const PYRRA = new URL("fixtures/pyrra.yaml", import.meta.url).pathname;
const monitoring = findMonitoringCrds();
const withRules = monitoring === undefined ? test.skip : test;
let bench: Bench;

beforeAll(async () => {
  bench = await startBench({ flags: { ruleLabels: "release=monitoring" } });
  await bench.objects.createNamespace(NS);
  await bench.model(NS, "tiny");
  await bench.agent("mac-1");
});
afterAll(() => bench?.[Symbol.asyncDispose]());

const slo = { objective: "99.5", indicator: "latency", latencyThreshold: "2s" };
const readyUntil = (expected: object | undefined) =>
  bench.serviceUntil(NS, "chat", ({ status }) => {
    const found = getCondition(status?.conditions, "SLOReady");
    if (expected === undefined) expect(found).toBeUndefined();
    else expect(found).toMatchObject(expected);
  });
const namesUntil = (kind: string, ...names: readonly string[]) =>
  bench.objects.until(NS, kind, (items: { metadata: { name: string } }[]) =>
    expect(items.map(({ metadata }) => metadata.name).sort()).toEqual(names),
  );
/** What a user would apply: without the server's fields. */
const written = ({ apiVersion, kind, metadata, spec }: Awaited<ReturnType<typeof bench.objects.get>>) => ({
  apiVersion,
  kind,
  metadata: { name: `${metadata.name}-copy`, namespace: NS },
  spec,
});

test("a cluster without the kinds is named in the conditions, and the service runs", async () => {
  await bench.apply(inferenceService(NS, "chat", { slo }));
  await readyUntil({ status: "False", reason: "SLOKindsMissing" });
  const { status } = await bench.serviceUntil(NS, "chat", ({ status }) => expect(status?.ready).toBe("1/1"));
  expect(getCondition(status?.conditions, "SpecHonored")).toMatchObject({
    status: "False",
    message: expect.stringContaining("spec.slo: "),
  });
});

withRules("the rules appear once the kind is installed, and an edit is undone", async () => {
  await bench.objects.install(monitoring ?? "");
  await namesUntil(RULES, "chat");
  await readyUntil({ status: "True", message: expect.stringContaining("bucket of 2.5 s") });
  const rule = await bench.objects.get(NS, `${RULES}/chat`);
  expect(rule.metadata.labels).toMatchObject({ release: "monitoring", "metalbridge.dev/service": "chat" });
  await bench.objects.create(written(rule), { dryRun: true });
  await bench.objects.patch(NS, `${RULES}/chat`, { spec: { groups: [] } });
  await bench.objects.until(NS, `${RULES}/chat`, ({ spec }) => expect(spec).toEqual(rule.spec));
  const honored = await bench.service(NS, "chat");
  expect(getCondition(honored.status?.conditions, "SpecHonored")?.status).toBe("True");
});

withRules("with Pyrra its object replaces the rules, and the rules that Pyrra makes of it stay", async () => {
  await bench.objects.install(PYRRA);
  await namesUntil(OBJECTIVES, "chat");
  await namesUntil(RULES);
  const objective = await bench.objects.get(NS, `${OBJECTIVES}/chat`);
  await bench.objects.create(written(objective), { dryRun: true });
  const { name, namespace, labels } = objective.metadata;
  const ofPyrra = {
    apiVersion: "monitoring.coreos.com/v1",
    kind: "PrometheusRule",
    metadata: { name, namespace, labels },
    spec: { groups: [] },
  };
  await bench.objects.apply(ofPyrra);
  await bench.objects.patch(NS, "isvc/chat", { spec: { slo: { objective: "99" } } });
  await bench.objects.until(NS, `${OBJECTIVES}/chat`, ({ spec }) => expect(spec.target).toBe("99"));
  await namesUntil(RULES, "chat");
});

withRules(
  "an object of another owner keeps its name, and the field and the service take theirs along",
  async () => {
    const foreign = {
      apiVersion: "pyrra.dev/v1alpha1",
      kind: "ServiceLevelObjective",
      metadata: { name: "taken", namespace: NS },
      spec: { target: "90", window: "7d", indicator: {} },
    };
    await bench.objects.apply(foreign);
    await bench.objects.patch(NS, "isvc/chat", { spec: { slo: { name: "taken" } } });
    await readyUntil({ status: "False", reason: "ObjectNameTaken" });
    expect((await bench.objects.get(NS, `${OBJECTIVES}/taken`)).spec.target).toBe("90");
    await bench.objects.patch(NS, "isvc/chat", { spec: { slo: { name: "fast" } } });
    await namesUntil(OBJECTIVES, "fast", "taken");
    await bench.objects.patch(NS, "isvc/chat", { spec: { slo: null } });
    await namesUntil(OBJECTIVES, "taken");
    await readyUntil(undefined);
    await bench.objects.patch(NS, "isvc/chat", { spec: { slo } });
    await namesUntil(OBJECTIVES, "chat", "taken");
    await bench.objects.remove(NS, "isvc/chat");
    await namesUntil(OBJECTIVES, "taken");
  },
);
