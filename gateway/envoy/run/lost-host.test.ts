/** A host that loses its power while Envoy keeps a connection to it: nothing closes that. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, it } from "vitest";
import { describeUnless } from "../../../test/bed/describe-unless.ts";
import { whyNoEnvoy } from "../../../test/bed/envoy.ts";
import { openNetwork, type Station, whyNoNetwork } from "../../../test/bed/network.ts";
import { run } from "../../../test/bed/run.ts";
import { until } from "../../../test/bed/until.ts";
import { grant, startEngine, startEnvoyBed } from "./fixtures/envoy-bed.ts";

const PORT = 8080;
const ANSWERS = `require("node:http").createServer((_, response) => response.end("{}")).listen(${PORT}, () => console.log("ready"))`;

describeUnless(whyNoEnvoy ?? whyNoNetwork(), "a host without power", () => {
  it("costs a request on a kept connection some seconds, and no error while another replica serves", async () => {
    await using network = await openNetwork(["lost"]);
    const station = network.station("lost");
    await using _ = await startIn(station);
    await using other = await startEngine(() => ({ body: "{}" }));
    await using bed = await startEnvoyBed();
    const lost = { address: station.address, port: PORT, isHealthy: true };
    const cluster = { name: "default/a", endpoints: [lost, other], slowStartMs: 0, keepsConnections: true };
    await bed.envoy.apply([cluster]);
    bed.decisions.respond = () =>
      grant("default/a", {
        "x-gateway-destination-endpoint": `${lost.address}:${PORT},127.0.0.1:${other.port}`,
      });
    await until(() => bed.chat(), { everyMs: 5, timeoutMs: 20_000 });
    await run("ip", ["-n", station.namespace, "link", "set", "eth0", "down"]);
    const begun = performance.now();
    await bed.chat();
    expect(other.received).toHaveLength(1);
    expect(performance.now() - begun).toBeLessThan(40_000);
  }, 90_000);
});

async function startIn({ inside }: Station): Promise<AsyncDisposable> {
  const [program = "", ...args] = [...inside, process.execPath, "-e", ANSWERS];
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
  await once(child.stdout, "data");
  return {
    [Symbol.asyncDispose]: async () => {
      const exited = once(child, "exit");
      child.kill("SIGKILL");
      await exited;
    },
  };
}
