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
  const range = [21900, 21903] as const;

  it("is the previous one if it is free, else the first free one", async () => {
    const taken = new Set([21900]);
    expect(await choosePort({ range, taken })).toBe(21901);
    expect(await choosePort({ range, taken, previous: 21903 })).toBe(21903);
    expect(await choosePort({ range, taken, previous: 21900 })).toBe(21901);
    expect(await choosePort({ range, taken, previous: 80 })).toBe(21901);
  });

  it.each(["127.0.0.1", "0.0.0.0"])("is never one that a stranger listens on at %s", async (host) => {
    await using _stranger = await listenOn(21901, host);
    expect(await choosePort({ range, taken: new Set([21900]), previous: 21901 })).toBe(21902);
  });

  it("is refused where all are taken or the address is not up", async () => {
    const taken = new Set([21900, 21901, 21902, 21903]);
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
