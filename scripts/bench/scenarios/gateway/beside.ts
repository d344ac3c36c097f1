/** The same prompts through nginx, Envoy alone and LiteLLM, at a rate that LiteLLM keeps up with. */

import { Agent } from "node:http";
import type { GatewayBed } from "../../beds/gateway.ts";
import { measured, type ScenarioResult, summaryOf } from "../../beds/measurement.ts";
import { type OtherProxy, startLiteLlm, startNginx, startPlainEnvoy } from "../../beds/proxies.ts";
import { addedTo, type GatewayWays, SERVICE, timesOf } from "./latency.ts";
import { ask, chatPath, type Way } from "./requests.ts";
import { measureSlots } from "./slots.ts";

const BYTES = 2_000;
const PACE = { perSecond: 10, requests: 40 };
const BLOCKS = 5;
/** Ours, to LiteLLM's. */
const SHARE = { max: 0.1 };

export async function measureBeside(
  bed: GatewayBed,
  { direct, gateway }: Pick<GatewayWays, "direct" | "gateway">,
): Promise<readonly ScenarioResult[]> {
  const upstream = new URL(direct.url).host;
  const nginx = await wayOf("nginx", await startNginx(bed, upstream));
  const envoy = await wayOf("Envoy alone", await startPlainEnvoy(bed, bed.gateway.envoy, upstream));
  const liteLlm = await wayOf("LiteLLM", await startLiteLlm(bed, upstream, SERVICE));
  const others = [nginx, envoy, liteLlm].filter((way) => typeof way !== "string");
  const times = await timesOf([direct, gateway, ...others], BYTES, PACE, BLOCKS);
  const name = `prompt of 2 KB, ${PACE.perSecond} requests/s: added p50 per block`;
  const added = (way: Way) => addedTo(times(direct), times(way), "p50");
  const row = (what: string, way: Way | string) =>
    typeof way === "string"
      ? measured(`${what}, ${name}: not had: ${way}`, "ms", [])
      : measured(`${what}, ${name}`, "ms", added(way));
  const port = Number(new URL(direct.url).port);
  const rows = [
    row("gateway", gateway),
    row("nginx", nginx),
    row("Envoy alone", envoy),
    row("LiteLLM", liteLlm),
    ...(typeof envoy === "string" ? [] : await measureSlots(bed, port, { gateway, envoy })),
  ];
  if (typeof liteLlm === "string") return rows;
  const share = summaryOf(added(gateway)).p50 / summaryOf(added(liteLlm)).p50;
  return [...rows, measured(`gateway, ${name}, to that of LiteLLM`, "ratio", [share], SHARE)];
}

/** One that does not answer like the daemon is not measured. */
async function wayOf(name: string, proxy: OtherProxy | string): Promise<Way | string> {
  if (typeof proxy === "string") return proxy;
  const way = { name, url: chatPath(proxy.url), headers: proxy.headers };
  const agent = new Agent();
  return ask(
    way,
    agent,
    JSON.stringify({ model: SERVICE, messages: [{ role: "user", content: "Hi" }] }),
  ).then(
    () => way,
    (error: unknown) => String(error),
  );
}
