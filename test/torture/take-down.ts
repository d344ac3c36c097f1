/** The end of a run: everything is deleted, and nothing may be left. */
import { setTimeout as pause } from "node:timers/promises";
import type { FaultContext } from "./faults/fault.ts";
import { leftoversOfHosts, leftoversOfServices } from "./observe/leftovers.ts";

const LOOK_MS = 500;
const WITHIN_MS = 60_000;
/** Requests in flight when the load ends are answered first. */
const LAST_ANSWERS_MS = 3_000;

export async function takeDown({ bed, recorder, engines, load }: FaultContext): Promise<void> {
  for (const name of bed.services) load.pause(name);
  await pause(LAST_ANSWERS_MS);
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

async function untilNothing(look: () => Promise<readonly string[]>): Promise<readonly string[]> {
  const deadline = performance.now() + WITHIN_MS;
  for (;;) {
    const left = await look();
    if (left.length === 0 || performance.now() > deadline) return left;
    await pause(LOOK_MS);
  }
}
