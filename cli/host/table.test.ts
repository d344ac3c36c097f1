import path from "node:path";
import { expect, test } from "vitest";
import { type Host, hostSchema } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { testScreens } from "../../test/golden/text.ts";
import { overviewOf } from "../status/overview.ts";
import { renderOverview } from "../status/render.ts";
import { topLines } from "../top/view.ts";
import { hostEntries, renderHostTable } from "./table.ts";

interface Input {
  readonly hosts: readonly Host[];
  readonly replicas: readonly InferenceReplica[];
}

testScreens(path.join(import.meta.dirname, "golden"), ({ hosts, replicas }: Input) =>
  renderHostTable(
    hostEntries(
      hosts.map((host) => hostSchema.parse(host)),
      replicas,
    ),
    Date.parse("2026-03-01T12:00:00Z"),
  ),
);

test("what a host reports about itself reaches no terminal as a control sequence", () => {
  const parsed = hostSchema.parse({
    apiVersion: "metalbridge.dev/v1alpha1",
    kind: "Host",
    metadata: { name: "mini-1" },
    spec: {},
  });
  // The definitions refuse these characters; a cluster with older ones does not.
  const info = { os: "macOS", osVersion: "26.1\u001b[2J\u001b]0;owned\u0007", agentVersion: "1\u009b31m" };
  const host = { ...parsed, status: { info } } as unknown as typeof parsed;
  const replicas: readonly InferenceReplica[] = [];
  const screens = [
    renderHostTable(hostEntries([host], replicas), 0),
    topLines(
      { hosts: [host], services: [], replicas, requests: { gateways: 0, answered: 0, queues: [] } },
      { title: "", problem: "" },
      { columns: 500, rows: 50 },
    ).join("\n"),
    renderOverview(overviewOf([host], [], replicas), { color: false, width: 200 }),
  ];
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  for (const screen of screens) expect(screen).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
});
