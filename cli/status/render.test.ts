import { describe, expect, it } from "vitest";
import type { Host } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { leadershipNote } from "../../src/verdicts/leadership.ts";
import { overviewOf } from "./overview.ts";
import { renderOverview } from "./render.ts";

const condition = (type: string, status: "True" | "False", reason: string) => ({
  type,
  status,
  reason,
  message: "",
  lastTransitionTime: "2026-01-01T00:00:00Z",
});

function host(name: string, conditions: ReturnType<typeof condition>[]): Host {
  return {
    metadata: { name },
    spec: { unschedulable: false, memory: { systemReserve: "8Gi" } },
    status: { conditions, memory: { claimedBytes: 2 ** 30, gpuBudgetBytes: 48 * 2 ** 30 } },
  } as unknown as Host;
}

const service = {
  metadata: { namespace: "default", name: "chat" },
  spec: { modelRef: "qwen3", replicas: 2 },
  status: { phase: "Progressing", readyReplicas: 1, desiredReplicas: 2, message: "one replica is starting" },
} as unknown as InferenceService;

const replica = {
  metadata: { namespace: "default", name: "chat-0-abc" },
  spec: { template: { hostName: "mini-1" }, memory: { claimBytes: 3 * 2 ** 29 } },
  status: { phase: "Ready", port: 21_000, conditions: [condition("HostReachable", "False", "LeaseExpired")] },
} as unknown as InferenceReplica;

const plain = { color: false, width: undefined };

const NOW_MS = Date.parse("2026-01-01T00:10:00Z");

describe("status", () => {
  it("says since when no controller leads", () => {
    const lease = (holderIdentity: string, renewTime: string) => ({
      metadata: { name: "l" },
      spec: { holderIdentity, renewTime },
    });
    const stale = "no controller has led since 2026-01-01T00:00:00.000000Z; the data is from that time";
    expect(leadershipNote(lease("pod-1", "2026-01-01T00:00:00.000000Z"), NOW_MS)).toBe(stale);
    expect(leadershipNote(lease("", "2026-01-01T00:09:59.000000Z"), NOW_MS)).toContain(
      "since 2026-01-01T00:09:59",
    );
    expect(leadershipNote(undefined, NOW_MS)).toBe(
      "no controller has run yet; start one: metalbridge controller",
    );
    expect(leadershipNote(lease("pod-1", "2026-01-01T00:09:50.000000Z"), NOW_MS)).toBeUndefined();
    const overview = { ...overviewOf([], [], []), controller: stale };
    expect(renderOverview(overview, plain).split("\n")[0]).toBe(stale);
  });

  it("believes the controller about reachability before the agent about readiness", () => {
    const gone = host("mini-1", [
      condition("Ready", "True", "AgentReady"),
      condition("Reachable", "False", "LeaseExpired"),
    ]);
    const [line] = overviewOf([gone], [], []).hosts;
    expect(line?.state).toBe("Unreachable (LeaseExpired)");
  });

  it("shows the budget that placement counts with", () => {
    const ready = host("mini-1", [condition("Ready", "True", "AgentReady")]);
    expect(renderOverview(overviewOf([ready], [], []), plain)).toMatch(/mini-1 +Ready +1 GiB of 40 GiB/);
  });

  it("shows a host without a reported status as unknown", () => {
    expect(overviewOf([host("mini-2", [])], [], []).hosts[0]?.state).toBe("Unknown");
  });

  it("shows a green replica on an unreachable host as what it is", () => {
    const screen = renderOverview(overviewOf([], [service], [replica]), plain);
    expect(screen).toContain("Ready, host unreachable");
    expect(screen).toMatch(/default\/chat +Progressing +1\/2 +qwen3 +one replica is starting/);
  });

  it("says what to do where there is nothing yet", () => {
    const screen = renderOverview(overviewOf([], [], []), plain);
    expect(screen).toContain("docs/add-a-host.md");
    expect(screen).toContain("kubectl apply -f examples/quickstart");
  });

  it("has a heading over the messages, cuts none in a pipe and wraps them in a terminal", () => {
    const long = Array.from({ length: 60 }, (_, index) => `word${index}`).join(" ");
    const waiting = { ...service, status: { ...service.status, message: long } } as InferenceService;
    const overview = overviewOf([], [waiting], []);
    expect(renderOverview(overview, plain)).toMatch(/SERVICE .* MESSAGE\n/);
    expect(renderOverview(overview, plain)).toContain(long);
    const lines = renderOverview(overview, { color: false, width: 100 }).split("\n");
    expect(lines.join(" ").replaceAll(/ +/g, " ")).toContain(long);
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(100);
  });

  it("shows a download as a bar with its speed and the time that it still takes", () => {
    const screen = (progress: object) => {
      const status = { phase: "Fetching", message: "fetching the weights", progress };
      return renderOverview(overviewOf([], [], [{ ...replica, status } as InferenceReplica]), plain);
    };
    const GIB = 2 ** 30;
    expect(screen({ bytes: 3 * GIB, totalBytes: 10 * GIB, bytesPerSecond: GIB / 10 })).toContain(
      "fetching the weights [######--------------] 30%, 3 GiB of 10 GiB, 102.4 MiB/s, 70s left",
    );
    expect(screen({ bytes: 0, totalBytes: 40 * GIB, bytesPerSecond: 2 ** 20 })).toContain(
      "] 0%, 0 MiB of 40 GiB, 1 MiB/s, 11h22m left",
    );
    expect(screen({ bytes: GIB, totalBytes: 2 * GIB })).toMatch(/\] 50%, 1 GiB of 2 GiB$/m);
    expect(screen({ bytes: GIB, bytesPerSecond: GIB })).toMatch(/fetching the weights 1 GiB, 1 GiB\/s$/m);
  });

  it("colors only where color is asked for, and never beyond the width", () => {
    const overview = overviewOf(
      [host("mini-1", [condition("Ready", "True", "AgentReady")])],
      [service],
      [replica],
    );
    expect(renderOverview(overview, plain)).not.toContain("\u001b[");
    expect(renderOverview(overview, { color: true, width: 80 })).toContain("\u001b[32mReady");
    for (const line of renderOverview(overview, { color: false, width: 40 }).split("\n")) {
      expect(line.length).toBeLessThanOrEqual(40);
    }
  });
});
