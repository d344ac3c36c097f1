import { expect, test } from "vitest";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { createDensity } from "./density.ts";
import { createFitIndex } from "./fits.ts";
import { aHost, catalogRecords } from "./fixtures/fleet.ts";
import { machineFromHost } from "./place.ts";
import { renderDensityReport } from "./report.ts";

const fits = createFitIndex(catalogRecords());
const GIB = 1024 ** 3;
const now = { wallMs: Date.UTC(2026, 5, 1), monotonicMs: 1_000_000 };

function fleet(...hosts: readonly ReturnType<typeof aHost>[]) {
  const density = createDensity(fits);
  for (const host of hosts) density.setPlace("Host", host.metadata.name, machineFromHost(host));
  density.setModel("team/big", "hf://Qwen/Qwen2.5-32B-Instruct");
  density.setService("team/chat", "big");
  const held = { namespace: "team", service: "chat", phase: "Ready", bytes: 20 * GIB, gpus: 0 };
  density.setHeld("team/chat-0", { kind: "Host", name: "mac-1" }, held);
  return density;
}

test("a cluster without problems is healthy, and its machines are listed with their scores", () => {
  const text = renderDensityReport(fleet(aHost("mac-1"), aHost("mac-2")), { services: [] }, now);
  const headings = [...text.matchAll(/^## (.+)$/gm)].map(([, name]) => name);
  expect(headings).toEqual(["Status", "Issues", "Metrics", "Density"]);
  expect(text).toContain("# Metalbridge report\n\n2026-06-01T00:00:00Z\n");
  expect(text).toContain("## Status\n\nHEALTHY\n\n## Issues\n\nNone.\n");
  expect(text).toContain("- memory held by replicas: 20 GiB\n- memory left for new ones: 76 GiB\n");
  expect(text).toMatch(/^\| mac-1 \| Host \| [\d.]+ \| \d+ \| 28 \| {2}\|$/m);
  expect(text).toContain("Stale: none.\n\nTo reschedule:\n\nNone.\n");
});

test("a silent machine makes the cluster degraded: models placed there are listed, with a machine that has enough memory", () => {
  const lastTransitionTime = "2026-01-01T00:00:00Z";
  const conditions = [
    {
      type: "Reachable",
      status: "False" as const,
      reason: "LeaseExpired",
      message: "no renewal",
      lastTransitionTime,
    },
  ];
  const text = renderDensityReport(
    fleet(aHost("mac-1", { status: { conditions } }), aHost("mac-2")),
    { services: [] },
    now,
  );
  expect(text).toContain("## Status\n\nDEGRADED\n\n## Issues\n\n- Host mac-1: no renewal\n");
  expect(text).toContain("Stale: mac-1.");
  expect(text).toMatch(/^- team\/chat: mac-1 is stale; mac-2 has room \(score [\d.]+\)$/m);
});

test("a model whose machine has become too small is assigned to another machine, if one fits", () => {
  const text = renderDensityReport(
    fleet(aHost("mac-1", { memoryGib: 8 }), aHost("mac-2", { memoryGib: 8 })),
    { services: [] },
    now,
  );
  expect(text).toMatch(/^- team\/chat: mac-1 has too little memory for it; no other machine has room$/m);
});

const spec = { replicas: 1, suspend: false } as InferenceService["spec"];
const aService = (name: string, status: InferenceService["status"]) => ({
  metadata: { name, namespace: "team" },
  spec,
  status,
});
const serving = aService("chat", { phase: "Ready", readyReplicas: 1, desiredReplicas: 1 });
const failed = aService("typo", { phase: "Failed", reason: "ModelFailed", message: "Model typo: not found" });

test.each<[string, readonly ReturnType<typeof aService>[], string, string]>([
  [
    "one failed without a replica",
    [serving, failed],
    "DEGRADED",
    "- team/typo: Failed: Model typo: not found",
  ],
  [
    "one serves less than it should",
    [{ ...serving, status: { phase: "Degraded", readyReplicas: 1, desiredReplicas: 1, message: "1 of 1" } }],
    "DEGRADED",
    "- team/chat: Degraded: 1 of 1",
  ],
  [
    "the controller never saw one",
    [serving, aService("new", undefined)],
    "DEGRADED",
    "- team/new: Pending: the controller has not reported on it",
  ],
  ["the others rest", [serving, aService("idle", { phase: "Idle", desiredReplicas: 1 })], "HEALTHY", "None."],
])("services count although they have no replica: %s", (_, services, status, issues) => {
  const text = renderDensityReport(fleet(aHost("mac-1")), { services }, now);
  expect(text).toContain(`## Status\n\n${status}\n\n## Issues\n\n${issues}\n\n`);
});

test("without a controller the phases of services are old, and the report is not healthy", () => {
  const controller = "no controller has run yet";
  const text = renderDensityReport(fleet(aHost("mac-1")), { services: [serving], controller }, now);
  expect(text).toContain("## Status\n\nDEGRADED\n\n## Issues\n\n- Controller: no controller has run yet\n");
});

test("where nothing is placed, a failed service makes the cluster critical", () => {
  const density = createDensity(fits);
  density.setPlace("Host", "mac-1", machineFromHost(aHost("mac-1")));
  expect(renderDensityReport(density, { services: [failed] }, now)).toContain("CRITICAL");
  expect(renderDensityReport(density, { services: [] }, now)).toContain("HEALTHY");
});

test("memory of a drained machine is not left for new replicas", () => {
  const drained = aHost("mac-2", { spec: { drain: true } });
  expect(renderDensityReport(fleet(aHost("mac-1"), drained), { services: [] }, now)).toContain(
    "left for new ones: 28 GiB",
  );
});

test("a cluster without machines is critical", () => {
  expect(renderDensityReport(createDensity(fits), { services: [] }, now)).toContain(
    "## Status\n\nCRITICAL\n",
  );
});

test("a reader who may not list machines gets the state of the services and what is not shown", () => {
  const seen = { services: [serving], areMachinesHidden: true, missing: ["hosts are not shown."] };
  const text = renderDensityReport(fleet(), seen, now);
  expect(text).toContain(
    "## Status\n\nHEALTHY\n\n## Not shown\n\n- hosts are not shown.\n\n## Issues\n\nNone.\n",
  );
  expect(text).toMatch(/## Metrics\n\n- memory held by replicas: 20 GiB\n- models placed: 1, replicas: 1\n$/);
  expect(renderDensityReport(fleet(), { ...seen, services: [failed] }, now)).toContain("DEGRADED");
});
