import path from "node:path";
import type { Host } from "../../src/api/host.ts";
import { hostSchema } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { testScreens } from "../../test/golden/text.ts";
import { hostEntries, renderHosts } from "./table.ts";

interface Input {
  readonly hosts: readonly Host[];
  readonly replicas: readonly InferenceReplica[];
}

testScreens(path.join(import.meta.dirname, "golden"), ({ hosts, replicas }: Input) =>
  renderHosts(
    hostEntries(
      hosts.map((host) => hostSchema.parse(host)),
      replicas,
    ),
    Date.parse("2026-03-01T12:00:00Z"),
  ),
);
