/** The end of a run: everything is deleted, and nothing may be left. */
import { setTimeout as pause } from "node:timers/promises";
import { until } from "../bed/until.ts";
import type { Bed } from "./bed/bed.ts";
import type { FaultContext } from "./faults/fault.ts";
import { leftoversOfHosts, leftoversOfServices } from "./observe/leftovers.ts";
import type { Recorder } from "./observe/recorder.ts";

const LOOK_MS = 500;
const WITHIN_MS = 60_000;
/** Requests in flight when the load ends are answered first. */
const LAST_ANSWERS_MS = 3_000;

export async function takeDown({ bed, recorder, engines, load }: FaultContext): Promise<void> {
  for (const name of bed.services) load.pause(name);
  await pause(LAST_ANSWERS_MS);
  await endGateway(bed, recorder);
  for (const name of bed.services) await bed.objects.deleteService(name);
  const hosts = [...bed.hosts.values()];
  const nodes = [...bed.nodes.values()];
  const ofServices = await untilNothing(() => leftoversOfServices(bed.client, hosts, nodes, engines));
  for (const host of hosts) {
    recorder.note({ type: "part", part: "agent", host: host.name, change: "ended" });
    await host.agent.kill("SIGTERM");
    await bed.objects.deleteHost(host.name);
  }
  const ofHosts = await untilNothing(() => leftoversOfHosts(bed.client));
  recorder.note({ type: "leftovers", items: [...ofServices, ...ofHosts] });
}

/** The gateway looks every 10 s for ends that were lost half a minute ago. */
const COUNTED_WITHIN_MS = 45_000;

/** Its slots are free once the access log is read, and its usage is written when it stops. */
async function endGateway({ gateway }: Bed, recorder: Recorder): Promise<void> {
  const deadline = performance.now() + COUNTED_WITHIN_MS;
  const look = async () => {
    const metrics = await gateway.metrics();
    return { inFlight: sumOf(metrics, "requests_in_flight"), queued: sumOf(metrics, "queued_requests") };
  };
  // One that has just been restarted answers soon.
  let left = await until(look, { timeoutMs: COUNTED_WITHIN_MS });
  while (left.inFlight + left.queued > 0 && performance.now() < deadline) {
    await pause(LOOK_MS);
    left = await look();
  }
  await gateway.part.kill("SIGTERM");
  recorder.note({ type: "gatewayEnd", ...left, recorded: await gateway.recordedRequests() });
}

function sumOf(metrics: string, name: string): number {
  const lines = metrics.matchAll(new RegExp(`^metalbridge_gateway_${name}\\{.*\\} (\\d+)$`, "gm"));
  return [...lines].reduce((sum, [, value]) => sum + Number(value), 0);
}

async function untilNothing(look: () => Promise<readonly string[]>): Promise<readonly string[]> {
  const deadline = performance.now() + WITHIN_MS;
  for (;;) {
    const left = await look();
    if (left.length === 0 || performance.now() > deadline) return left;
    await pause(LOOK_MS);
  }
}
