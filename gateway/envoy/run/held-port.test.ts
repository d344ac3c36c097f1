/** The port of the gateway while Envoy is killed under load, does not start, or is away for long. */
import { once } from "node:events";
import { rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import path from "node:path";
import { expect, it } from "vitest";
import { describeUnless } from "../../../test/bed/describe-unless.ts";
import { envoyPath, whyNoEnvoy } from "../../../test/bed/envoy.ts";
import { freePort } from "../../../test/bed/ports.ts";
import { until } from "../../../test/bed/until.ts";
import { keepLines } from "../../../test/fixtures/log-lines.ts";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { manualClock } from "../../testing/manual-clock.ts";
import {
  type EnvoyBed,
  JSON_TYPE,
  send,
  serve,
  startEngine,
  startEnvoyBed,
  startServer,
} from "./fixtures/envoy-bed.ts";
import { createHeldPort } from "./held-port.ts";

const QUICK = { everyMs: 5, timeoutMs: 20_000 } as const;
const EVERY_MS = 20;
const EXITED = "envoy exited; restarting it";
const isLinux = process.platform === "linux";

describeUnless(whyNoEnvoy ?? (isLinux ? undefined : "only Linux can hold a port"), "a killed Envoy", () => {
  it("costs the requests that it had, and no connection is refused", async () => {
    await using engine = await startEngine();
    await using bed = await startEnvoyBed();
    await serve(bed, engine);
    const load = startLoad(bed);
    await load.more(25);
    for (let kills = 1; kills <= 2; kills += 1) {
      expect(load.failures).toEqual([]);
      process.kill(bed.pid(), "SIGKILL");
      const isSeen = () => expect(bed.logged.filter(({ message }) => message === EXITED)).toHaveLength(kills);
      await until(isSeen, QUICK);
      load.envoyIsDead();
      const stranger = createServer().listen(bed.port, "127.0.0.1");
      const [refused] = await once(stranger, "error");
      expect(refused).toMatchObject({ code: "EADDRINUSE" });
      await load.more(50);
    }
    const lost = await load.stop();
    expect(load.failures).toEqual([]);
    expect(lost.filter((failure) => failure.includes("ECONNREFUSED"))).toEqual([]);
    // Those that Envoy had, or that waited in the queue of its socket, are lost: their number depends on the load.
  });

  it("has a connection pass that waited, with one request of any size and the gateway's own id", async () => {
    await using engine = await startEngine();
    await using folder = await temporaryFolder();
    const program = path.join(folder.path, "envoy");
    writeFileSync(program, `#!/bin/sh\n[ -e "$0.broken" ] && exit 3\nexec ${envoyPath} "$@"\n`, {
      mode: 0o755,
    });
    await using bed = await startEnvoyBed({ envoy: program });
    await serve(bed, engine);
    writeFileSync(`${program}.broken`, "");
    process.kill(bed.pid(), "SIGKILL");
    await until(() => expect(bed.envoy.isRunning()).toBe(false), QUICK);
    const headers = { ...JSON_TYPE, "x-request-id": "of-the-client", connection: "keep-alive" };
    const body = JSON.stringify({ model: "a", filler: "x".repeat(2 ** 20) });
    const call = send(bed.port, "/v1/chat/completions", { headers, body });
    rmSync(`${program}.broken`);
    const { status, headers: answered } = await call;
    expect({ status, connection: answered.connection }).toEqual({ status: 200, connection: "close" });
    expect(answered["x-request-id"]).not.toBe("of-the-client");
    expect(engine.received.at(-1)?.body).toBe(body);
    const direct = await send(bed.port, "/v1/chat/completions", { headers, body: {} });
    expect(direct.headers.connection).not.toBe("close");
  });

  it("that exits at once is started ever more slowly, the log has its words, and names a program that takes its port", async () => {
    await using engine = await startEngine();
    await using folder = await temporaryFolder();
    const program = path.join(folder.path, "envoy");
    const words = "no such option";
    writeFileSync(
      program,
      `#!/bin/sh\nif [ -e "$0.broken" ]; then echo "${words}" >&2; exit 3; fi\nexec ${envoyPath} "$@"\n`,
      { mode: 0o755 },
    );
    // IPv6: the port cannot be held, as on a Mac.
    await using bed = await startEnvoyBed({
      envoy: program,
      listen: { address: "::1", port: await freePort() },
    });
    const ask = () =>
      fetch(`http://[::1]:${bed.port}/v1/chat/completions`, {
        method: "POST",
        headers: JSON_TYPE,
        body: "{}",
      });
    await bed.envoy.apply([{ name: "default/a", endpoints: [engine], slowStartMs: 0 }]);
    await until(async () => expect((await ask()).status).toBe(200), QUICK);
    writeFileSync(`${program}.broken`, "");
    process.kill(bed.pid(), "SIGKILL");
    const exits = () => bed.logged.filter(({ message }) => message === EXITED).map(({ data }) => data);
    await until(() => expect(exits()).toHaveLength(4), QUICK);
    expect(exits()[0]).toMatchObject({ exit: { signal: "SIGKILL" } });
    for (const data of exits().slice(1)) expect(data).toMatchObject({ exit: { code: 3 }, says: words });
    const stranger = createServer().listen({ host: "::1", port: bed.port, exclusive: true });
    await once(stranger, "listening");
    await until(
      () =>
        expect(bed.logged.at(-1)).toMatchObject({
          message: "cannot start envoy; retrying",
          data: { err: { code: "PortTaken" } },
        }),
      QUICK,
    );
    rmSync(`${program}.broken`);
    stranger.close();
    await until(async () => expect((await ask()).status).toBe(200), QUICK);
  });
});

describeUnless(isLinux ? undefined : "only Linux can hold a port", "a held port", () => {
  const open = async (dir: string, isPlain = true) => {
    const clock = manualClock();
    const lifetime = new AbortController();
    const { signal } = lifetime;
    const passTo = path.join(dir, "held.sock");
    const held = createHeldPort({ passTo, isPlain, clock, log: keepLines([]), signal });
    const port = await freePort();
    await held.hold({ address: "127.0.0.1", port });
    /** Until this is true, each time after those that wait have asked again. */
    const advanceUntil = async (check: () => boolean) => {
      while (!check()) {
        clock.advance(200);
        await new Promise((resolve) => setTimeout(resolve));
      }
    };
    return { port, held, clock, passTo, advanceUntil, [Symbol.dispose]: () => lifetime.abort() };
  };
  const isSettled = (call: Promise<unknown>) => {
    let settled = false;
    const settle = () => {
      settled = true;
    };
    call.then(settle, settle);
    return () => settled;
  };

  it("answers after half a minute with what is down and what to do, and passes requests once Envoy listens", async () => {
    await using folder = await temporaryFolder();
    using on = await open(folder.path);
    const call = send(on.port, "/v1/messages", { body: "x".repeat(2 ** 20) });
    await on.advanceUntil(isSettled(call));
    expect(on.clock.monotonicMs()).toBeGreaterThanOrEqual(30_000);
    const { status, headers, text } = await call;
    expect({ status, ...headers }).toMatchObject({
      status: 503,
      "retry-after": "5",
      "x-should-retry": "true",
    });
    const { error, type } = JSON.parse(text);
    expect({ type, ...error }).toMatchObject({ type: "overloaded_error", code: "gateway_unavailable" });
    expect(error.message).toMatch(/^Envoy, .* is not running\..*retry.*log of the gateway/);
    const waiting = [send(on.port, "/one"), send(on.port, "/two")];
    await using envoy = await startServer(on.passTo, ({ path: body }) => ({ body }));
    await on.advanceUntil(isSettled(Promise.all(waiting)));
    expect((await Promise.all(waiting)).map((one) => one.text)).toEqual(["/one", "/two"]);
    expect(envoy.received).toHaveLength(2);
  });

  it.each(["end", "resetAndDestroy"] as const)(
    "drops the connection of a client that leaves by %s",
    async (leave) => {
      await using folder = await temporaryFolder();
      using on = await open(folder.path);
      const client = connect(on.port, "127.0.0.1");
      await once(client, "connect");
      client.write("GET /left HTTP/1.1\r\n\r\n");
      const closed = once(client, "close");
      client[leave]();
      await closed;
      const other = send(on.port, "/stays");
      await using envoy = await startServer(on.passTo, ({ path: body }) => ({ body }));
      await on.advanceUntil(isSettled(other));
      expect(envoy.received.map(({ path: received }) => received)).toEqual(["/stays"]);
    },
  );

  it("closes a connection for TLS without a response", async () => {
    await using folder = await temporaryFolder();
    using on = await open(folder.path, false);
    const call = send(on.port, "/");
    const closed = expect(call).rejects.toThrow(/socket hang up|ECONNRESET/);
    await on.advanceUntil(isSettled(call));
    await closed;
  });

  it("passes connections of an address that it leaves, closes them if it leaves for loopback, and refuses others once it is released", async () => {
    await using folder = await temporaryFolder();
    using on = await open(folder.path);
    const { held, port } = on;
    const asked = Promise.withResolvers<void>();
    const finish = Promise.withResolvers<void>();
    const joined = send(port, "/joined");
    const envoy = await startServer(on.passTo, async ({ path: body }) => {
      asked.resolve();
      await finish.promise;
      return { body };
    });
    await on.advanceUntil(isSettled(asked.promise));
    await held.hold({ address: "0.0.0.0", port });
    finish.resolve();
    expect((await joined).text).toBe("/joined");
    await envoy[Symbol.asyncDispose]();
    const left = send(port, "/left").catch((error: unknown) => error);
    const later = connect(port, "127.0.0.1").on("error", () => {});
    await once(later, "connect");
    await held.hold({ address: "127.0.0.1", port });
    expect(await left).toBeInstanceOf(Error);
    const holding = held.hold({ address: "0.0.0.0", port });
    held.release();
    await holding;
    await held.hold({ address: "127.0.0.1", port });
    await expect(send(port, "/")).rejects.toThrow(/ECONNREFUSED/);
  });
});

/** A request on a connection of its own every 20 ms. */
function startLoad(bed: EnvoyBed) {
  const open = new Set<symbol>();
  const atDeath = new Set<symbol>();
  let answered = 0;
  const failures: string[] = [];
  const lost: string[] = [];
  const calls: Promise<void>[] = [];
  const ask = async (): Promise<void> => {
    const id = Symbol();
    open.add(id);
    try {
      await bed.chat();
      answered += 1;
    } catch (error) {
      (atDeath.has(id) ? lost : failures).push(String(error));
    }
    open.delete(id);
  };
  const timer = setInterval(() => calls.push(ask()), EVERY_MS);
  return {
    failures,
    /** What has failed was lost with it, and what fails of the requests that are open now. */
    envoyIsDead: () => {
      lost.push(...failures.splice(0));
      for (const id of open) atDeath.add(id);
    },
    /** Resolves after so many more answers. */
    more: async (count: number) => {
      const enough = answered + count;
      await until(() => expect(answered).toBeGreaterThanOrEqual(enough), QUICK);
    },
    stop: async () => {
      clearInterval(timer);
      await Promise.all(calls);
      return lost;
    },
  };
}
