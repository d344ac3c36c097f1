/** What the controller counts. */
import { Counter, Gauge, Registry } from "prom-client";
import type { Caches } from "./cache/caches.ts";

export interface ControllerMetrics {
  readonly registry: Registry;
  readonly setLeading: (isLeading: boolean) => void;
  readonly countPass: (queue: string, outcome: "done" | "failed") => void;
  /** Gauges read these copies whenever they are asked for; undefined ends that. */
  readonly watch: (caches: Caches | undefined) => void;
}

export function createControllerMetrics(): ControllerMetrics {
  const registry = new Registry();
  const registers = [registry];
  let caches: Caches | undefined;
  const leading = new Gauge({
    name: "metalbridge_controller_leading",
    help: "1 while this process leads.",
    registers,
  });
  const passes = new Counter({
    name: "metalbridge_controller_passes_total",
    help: "Passes over one key, by queue and outcome.",
    labelNames: ["queue", "outcome"],
    registers,
  });
  new Gauge({
    name: "metalbridge_controller_inference_services",
    help: "InferenceServices by phase.",
    labelNames: ["phase"],
    registers,
    collect() {
      this.reset();
      for (const { status } of caches?.services.list() ?? []) this.inc({ phase: status?.phase ?? "Pending" });
    },
  });
  new Gauge({
    name: "metalbridge_controller_hosts",
    help: "Hosts by what Reachable says.",
    labelNames: ["reachable"],
    registers,
    collect() {
      this.reset();
      for (const { status } of caches?.hosts.list() ?? []) {
        this.inc({
          reachable: status?.conditions?.find(({ type }) => type === "Reachable")?.status ?? "Unknown",
        });
      }
    },
  });
  return {
    registry,
    setLeading: (isLeading) => leading.set(isLeading ? 1 : 0),
    countPass: (queue, outcome) => passes.inc({ queue, outcome }),
    watch: (copies) => {
      caches = copies;
    },
  };
}
