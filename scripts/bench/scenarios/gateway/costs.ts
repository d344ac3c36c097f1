/** CPU time of a request, at a rate that the machine keeps up with. */
import type { BenchGateway } from "../../beds/gateway.ts";
import { measured, type ScenarioResult } from "../../beds/measurement.ts";
import { cpuSeconds } from "../idle.ts";
import { promptOf } from "./latency.ts";
import { askAtPace, closeConnections, openConnections, type Way } from "./requests.ts";

const BYTES = 2_000;
const PACE = { perSecond: 200, requests: 2_000 };

/** One row each for the decision service and Envoy. */
export async function measureCosts(gateway: BenchGateway, way: Way): Promise<readonly ScenarioResult[]> {
  const pids = { "decision service": gateway.part().pid, Envoy: gateway.envoyPid() };
  const connections = openConnections();
  const body = promptOf(BYTES);
  await askAtPace(way, connections, body, { ...PACE, requests: PACE.perSecond });
  const before = Object.values(pids).map(cpuSeconds);
  await askAtPace(way, connections, body, PACE);
  const after = Object.values(pids).map(cpuSeconds);
  closeConnections(connections);
  return Object.keys(pids).map((name, index) =>
    measured(`gateway, prompt of 2 KB, ${PACE.perSecond} requests/s: CPU of ${name} per request`, "ms", [
      (((after[index] ?? 0) - (before[index] ?? 0)) / PACE.requests) * 1_000,
    ]),
  );
}
