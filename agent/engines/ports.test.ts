import { once } from "node:events";
import { createServer } from "node:net";
import { describe, expect, it } from "vitest";
import { choosePort, isLoopback } from "./ports.ts";

async function listenOn(port: number, host: string) {
  const server = createServer().listen(port, host);
  await once(server, "listening");
  return { [Symbol.asyncDispose]: async () => void server.close() };
}

describe("the port of an engine", () => {
  // Below those of the agents that other tests start.
  const range = [20900, 20903] as const;

  it("is the previous one if it is free, else the first free one", async () => {
    const taken = new Set([20900]);
    expect(await choosePort({ range, taken })).toBe(20901);
    expect(await choosePort({ range, taken, previous: 20903 })).toBe(20903);
    expect(await choosePort({ range, taken, previous: 20900 })).toBe(20901);
    expect(await choosePort({ range, taken, previous: 80 })).toBe(20901);
  });

  it.each(["127.0.0.1", "0.0.0.0"])("is never one that a stranger listens on at %s", async (host) => {
    await using _stranger = await listenOn(20901, host);
    expect(await choosePort({ range, taken: new Set([20900]), previous: 20901 })).toBe(20902);
  });

  it("is refused where all are taken or the address is not up", async () => {
    const taken = new Set([20900, 20901, 20902, 20903]);
    await expect(choosePort({ range, taken })).rejects.toMatchObject({ code: "PortsExhausted" });
    const gone = choosePort({ range, taken: new Set(), address: "192.0.2.1" });
    await expect(gone).rejects.toMatchObject({ code: "HostAddressMissing" });
  });

  it("knows loopback addresses", () => {
    expect(["127.0.0.1", "127.1.2.3", "::1", "10.0.0.1", "1270.0.0.1"].map(isLoopback)).toEqual([
      true,
      true,
      true,
      false,
      false,
    ]);
  });
});
