import { once } from "node:events";
import { createServer } from "node:net";
import { describe, expect, it } from "vitest";
import { chooseEnginePort } from "./engine-port.ts";

async function listenOn(port: number, host: string) {
  const server = createServer().listen(port, host);
  await once(server, "listening");
  return { [Symbol.asyncDispose]: async () => void server.close() };
}

describe("the port of an engine", () => {
  // These ports are below those of the agents that other tests start.
  const range = [20600, 20603] as const;

  it("an engine gets its previous port if that is free, otherwise the first free port", async () => {
    const taken = new Set([20600]);
    expect(await chooseEnginePort({ range, taken })).toBe(20601);
    expect(await chooseEnginePort({ range, taken, previous: 20603 })).toBe(20603);
    expect(await chooseEnginePort({ range, taken, previous: 20600 })).toBe(20601);
    expect(await chooseEnginePort({ range, taken, previous: 80 })).toBe(20601);
  });

  it.each(["127.0.0.1", "0.0.0.0"])(
    "an engine never gets a port that another program listens on at %s",
    async (host) => {
      await using _stranger = await listenOn(20601, host);
      expect(await chooseEnginePort({ range, taken: new Set([20600]), previous: 20601 })).toBe(20602);
    },
  );

  it("no port is assigned if all ports are in use or the address is not up", async () => {
    const taken = new Set([20600, 20601, 20602, 20603]);
    await expect(chooseEnginePort({ range, taken })).rejects.toMatchObject({ code: "PortsExhausted" });
    const gone = chooseEnginePort({ range, taken: new Set(), address: "192.0.2.1" });
    await expect(gone).rejects.toMatchObject({ code: "HostAddressMissing" });
  });
});
