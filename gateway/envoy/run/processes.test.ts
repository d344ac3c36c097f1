/** The life of Envoy and of its configuration: faults of the decision service, changes of endpoints, restarts, upgrades, certificates. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { connect, createServer } from "node:net";
import path from "node:path";
import { connect as connectTls } from "node:tls";
import { expect, it } from "vitest";
import { systemClock } from "../../../src/kube/system-clock.ts";
import { createIdentityReader } from "../../../src/supervise/identity/identity.ts";
import { createSupervisor } from "../../../src/supervise/supervisor.ts";
import { describeUnless } from "../../../test/bed/describe-unless.ts";
import { envoyPath, whyNoEnvoy } from "../../../test/bed/envoy.ts";
import { until } from "../../../test/bed/until.ts";
import { keepLines } from "../../../test/fixtures/log-lines.ts";
import { selfSigned } from "../../../test/fixtures/self-signed.ts";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import type { EnvoyCluster, EnvoyEndpoint } from "../types.ts";
import {
  type EnvoyBed,
  grant,
  JSON_TYPE,
  serve,
  startEngine,
  startEnvoyBed,
  startServer,
} from "./fixtures/envoy-bed.ts";

const QUICK = { everyMs: 5, timeoutMs: 20_000 } as const;

describeUnless(whyNoEnvoy, "the life of Envoy", () => {
  it("holds requests while the decision service restarts, and answers 503 in the dialect of the path while it is gone", async () => {
    await using engine = await startEngine();
    await using bed = await startEnvoyBed();
    await serve(bed, engine);
    const requests = loop(bed);
    await requests.some();
    await bed.decisions[Symbol.asyncDispose]();
    // Envoy has asked more than once for a request that it holds.
    await until(
      async () =>
        expect(await bed.envoy.metrics()).toMatch(/_upstream_rq_retry\{.*metalbridge-decide"\} ([3-9]|\d\d)/),
      QUICK,
    );
    rmSync(bed.decisionSocket, { force: true });
    const next = await startServer(bed.decisionSocket, () => grant("default/a"));
    await requests.some();
    expect(await requests.stop()).toEqual([]);
    await next[Symbol.asyncDispose]();
    const [openAi, anthropic, list] = await Promise.all([
      ...["/v1/chat/completions", "/v1/messages"].map((where) => bed.call(where, { body: {} })),
      bed.call("/v1/models", { method: "GET" }),
    ]);
    for (const { text } of [openAi, anthropic, list].flatMap((one) => one ?? []))
      expect(JSON.parse(text).error.message).toMatch(
        /^The decision service, .* does not answer.*log of the gateway/,
      );
    expect(openAi).toMatchObject({ status: 503, headers: { "retry-after": "1", ...JSON_TYPE } });
    expect(JSON.parse(openAi?.text ?? "").error.code).toBe("gateway_unavailable");
    expect(JSON.parse(anthropic?.text ?? "").error.type).toBe("overloaded_error");
    await startServer(bed.decisionSocket).then((last) => last[Symbol.asyncDispose]());
  });

  it("follows endpoints at once, and lets requests end whose endpoint or cluster is removed", async () => {
    await using old = await startEngine();
    await using fresh = await startEngine();
    await using bed = await startEnvoyBed();
    await serve(bed, old);
    let finish = () => {};
    const finished = new Promise<void>((resolve) => {
      finish = resolve;
    });
    old.respond = () => ({
      headers: { "content-type": "text/event-stream" },
      body: (async function* () {
        yield "data: first\n\n";
        await finished;
        yield "data: last\n\n";
      })(),
    });
    const streams = [bed.call("/v1/chat/completions", { body: {} })];
    await until(() => expect(old.received).toHaveLength(1), QUICK);
    for (const endpoints of [[fresh], [{ ...fresh, port: old.port, isHealthy: false }, fresh], [fresh]]) {
      await bed.envoy.apply([{ name: "default/a", endpoints, slowStartMs: 0 }]);
      const before = fresh.received.length;
      await until(async () => {
        await bed.chat();
        expect(fresh.received.length).toBeGreaterThan(before);
      }, QUICK);
      await bed.chat();
    }
    expect(old.received).toHaveLength(1);
    await bed.envoy.apply([]);
    await until(async () => expect((await bed.call("/v1/x", { body: {} })).status).toBe(503), QUICK);
    finish();
    for (const stream of streams) expect((await stream).text).toBe("data: first\n\ndata: last\n\n");
  });

  it("restarts a killed Envoy, adopts one that outlived its gateway, and replaces one whose settings differ, without a failed request", async () => {
    await using engine = await startEngine();
    await using bed = await startEnvoyBed();
    await serve(bed, engine);
    const first = bed.pid();
    process.kill(first, "SIGKILL");
    await until(() => expect(bed.pid()).not.toBe(first), QUICK);
    await until(() => bed.chat(), QUICK);
    expect(bed.logged.filter(({ level }) => level === "error").map(({ message }) => message)).toEqual([
      "envoy exited; restarting it",
    ]);

    const second = bed.pid();
    const requests = loop(bed);
    await requests.some();
    const clusters = [{ name: "default/a", endpoints: [engine], slowStartMs: 0 }];
    await bed.reopen(clusters);
    expect(bed.pid()).toBe(second);
    await requests.some();
    await bed.reopen(clusters, { limits: { maxClientConnections: 500 } });
    // The previous one listens at the same address.
    await until(() => expect(bed.pid()).not.toBe(second), QUICK);
    const third = bed.pid();
    await requests.some();
    expect(await requests.stop()).toEqual([]);
    process.kill(third, "SIGKILL");
    await until(() => expect(bed.pid()).not.toBe(third), QUICK);
    await until(() => bed.chat(), QUICK);
    expect(() => process.kill(second, 0)).toThrow();
  });

  it("neither adopts nor ends a stranger that has the pid of an earlier Envoy", async () => {
    await using folder = await temporaryFolder();
    const stranger = spawn("sleep", ["1000"], { stdio: "ignore" });
    const run = path.join(folder.path, "processes", "0-0123456789abcdef");
    mkdirSync(run, { recursive: true });
    for (const name of ["session", "pid"]) writeFileSync(path.join(run, name), `${stranger.pid} b:1\n`);
    await using bed = await startEnvoyBed({ dir: folder.path });
    expect(bed.logged.map(({ message }) => message)).toContain("envoy started");
    await bed.envoy.stop({ drainMs: 0 });
    expect(stranger.exitCode ?? stranger.signalCode).toBe(null);
    stranger.kill("SIGKILL");
  });

  it("ends what an Envoy has left that holds its port, and keeps the log of the last one that has exited", async () => {
    await using bed = await startEnvoyBed();
    const processes = path.join(bed.dir, "processes");
    const [name = ""] = readdirSync(processes);
    await bed.envoy.stop({ drainMs: 0 });
    const run = path.join(processes, name);
    const log = path.join(run, "log");
    appendFileSync(log, "why it exited\n");
    await bed.reopen([], { limits: { maxClientConnections: 500 } });
    expect(readFileSync(log, "utf8")).toContain("why it exited");
    await bed.envoy.stop({ drainMs: 0 });
    const { start } = createSupervisor({
      clock: systemClock,
      log: keepLines([]),
      identity: createIdentityReader(process.platform),
    });
    const listen = `require("net").createServer().listen(${bed.port}, "127.0.0.1", () => console.log("it listens"))`;
    const argv = ["/bin/sh", "-c", `"$0" -e '${listen}' &`, process.execPath];
    const left = await start(run, { argv, env: {} }, () => {});
    await until(() => expect(left.state().at).toBe("ended"), QUICK);
    await until(() => expect(readFileSync(log, "utf8")).toContain("it listens"), QUICK);
    left.close();
    await bed.reopen([]);
    expect(bed.logged.at(-1)?.message).toBe("envoy started");
  });

  it("restores the files by which the next gateway finds an Envoy", async () => {
    await using bed = await startEnvoyBed();
    const pid = bed.pid();
    rmSync(path.join(bed.dir, "processes"), { recursive: true });
    bed.envoy.restoreFiles();
    await bed.reopen([]);
    expect(bed.logged.at(-1)?.message).toBe("adopted a running envoy");
    expect(bed.pid()).toBe(pid);
  });

  it("lets requests in flight end before it stops, takes no new ones, and refuses a port that is taken", async () => {
    await using engine = await startEngine();
    await using bed = await startEnvoyBed();
    await serve(bed, engine);
    let finish = () => {};
    engine.respond = () =>
      new Promise((resolve) => {
        finish = () => resolve({ body: "late" });
      });
    const call = bed.call("/v1/chat/completions", { body: {} });
    await until(() => expect(engine.received).toHaveLength(1), QUICK);
    const stopping = bed.envoy.stop({ drainMs: 20_000 });
    await until(() => expect(bed.call("/healthz", { method: "GET" })).rejects.toThrow(/ECONNREFUSED/), QUICK);
    finish();
    expect(await call).toMatchObject({ status: 200, text: "late" });
    await stopping;
    expect(bed.envoy.isRunning()).toBe(false);

    const stranger = createServer().listen(bed.port, "127.0.0.1");
    await expect(bed.reopen([])).rejects.toMatchObject({ code: "PortTaken" });
    stranger.close();
  });

  it("loses no line of the access log when it is rotated", async () => {
    await using engine = await startEngine();
    await using bed = await startEnvoyBed();
    await serve(bed, engine);
    let count = 0;
    bed.decisions.respond = () => {
      count += 1;
      return grant("default/a", { "x-metalbridge-ticket": `n${count}` });
    };
    const requests = loop(bed);
    await requests.some();
    await bed.envoy.accessLog.rotate();
    await requests.some();
    await requests.stop();
    await bed.finished(`n${count}`);
    const { file } = bed.envoy.accessLog;
    const text = readFileSync(`${file}.1`, "utf8") + readFileSync(file, "utf8");
    const tickets = Array.from({ length: count }, (_, index) => `"n${index + 1}"`);
    expect(tickets.filter((ticket) => !text.includes(ticket))).toEqual([]);
  });

  it("follows certificates that are renamed into place, also by a changed ..data link", async () => {
    await using folder = await temporaryFolder();
    const put = (name: string): string => {
      const { key, cert } = selfSigned();
      mkdirSync(path.join(folder.path, name));
      writeFileSync(path.join(folder.path, name, "tls.key"), key);
      writeFileSync(path.join(folder.path, name, "tls.crt"), cert);
      return cert.toString().replace(/-----[^-]+-----|\s/g, "");
    };
    const link = (target: string) => {
      symlinkSync(target, path.join(folder.path, "..data_tmp"));
      renameSync(path.join(folder.path, "..data_tmp"), path.join(folder.path, "..data"));
    };
    const [one, two] = [put("..1"), put("..2")];
    link("..1");
    for (const name of ["tls.key", "tls.crt"]) symlinkSync(`..data/${name}`, path.join(folder.path, name));
    const tls = {
      certificateFile: path.join(folder.path, "tls.crt"),
      keyFile: path.join(folder.path, "tls.key"),
    };
    await using bed = await startEnvoyBed({ tls });
    expect(await certificateOf(bed.port)).toBe(one);
    link("..2");
    await until(async () => expect(await certificateOf(bed.port)).toBe(two), QUICK);
  });

  it("moves to another address without a restart, and closes the connections of the earlier one", async () => {
    await using engine = await startEngine();
    await using bed = await startEnvoyBed();
    await serve(bed, engine);
    const pid = bed.pid();
    const idle = connect(bed.port, "127.0.0.1");
    await once(idle, "connect");
    await Promise.all([once(idle, "close"), bed.envoy.listenAt({ address: "0.0.0.0", port: bed.port })]);
    await bed.chat();
    expect(bed.pid()).toBe(pid);
  });

  it("serves more services than a user of Linux has inotify instances, and follows each at once", async () => {
    await using engine = await startEngine();
    await using other = await startEngine();
    await using bed = await startEnvoyBed();
    const clusters = (one: EnvoyEndpoint): EnvoyCluster[] => [
      ...Array.from({ length: 300 }, (_, index) => ({ name: `team/s${index}`, endpoints: [engine] })),
      { name: "default/a", endpoints: [one], slowStartMs: 0 },
    ];
    const pid = bed.pid();
    await bed.envoy.apply(clusters(engine));
    await until(() => bed.chat(), QUICK);
    await bed.envoy.apply(clusters(other));
    await until(async () => {
      await bed.chat();
      expect(other.received.length).toBeGreaterThan(0);
    }, QUICK);
    bed.decisions.respond = () => grant("team/s299");
    await bed.chat();
    expect(bed.pid()).toBe(pid);
  });

  it("lets browsers of the configured origins in, and no others", async () => {
    await using engine = await startEngine();
    await using bed = await startEnvoyBed({ cors: { allowOrigins: ["https://chat.example.com"] } });
    await serve(bed, engine);
    const preflight = (origin: string) =>
      bed.call("/v1/chat/completions", {
        method: "OPTIONS",
        headers: {
          origin,
          "access-control-request-method": "POST",
          "access-control-request-headers": "authorization",
        },
      });
    bed.decisions.received.length = 0;
    const allowed = await preflight("https://chat.example.com");
    expect(allowed).toMatchObject({
      status: 200,
      headers: { "access-control-allow-origin": "https://chat.example.com" },
    });
    expect(bed.decisions.received).toEqual([]);
    expect(
      (await preflight("https://evil.example.com")).headers["access-control-allow-origin"],
    ).toBeUndefined();
  });

  it("configures an Envoy of another container by files, and drains it when its preStop hook writes a file", async () => {
    await using engine = await startEngine();
    await using folder = await temporaryFolder();
    const at = (name: string) => path.join(folder.path, name);
    const starting = startEnvoyBed({ dir: folder.path, envoy: "external" });
    await until(() => expect(existsSync(at("bootstrap.json"))).toBe(true), QUICK);
    const args = ["-c", at("bootstrap.json"), "--disable-hot-restart", "--concurrency", "1", "-l", "off"];
    const container = spawn(envoyPath ?? "", args, { stdio: "ignore" });
    try {
      await using bed = await starting;
      await serve(bed, engine);
      let finish = () => {};
      engine.respond = () =>
        new Promise((resolve) => {
          finish = () => resolve({ body: "late" });
        });
      const call = bed.call("/v1/chat/completions", { body: {} });
      await until(() => expect(engine.received).toHaveLength(1), QUICK);
      writeFileSync(at("drain"), "");
      await until(
        () => expect(bed.call("/healthz", { method: "GET" })).rejects.toThrow(/ECONNREFUSED/),
        QUICK,
      );
      expect(existsSync(at("drained"))).toBe(false);
      finish();
      expect((await call).text).toBe("late");
      await until(() => expect(existsSync(at("drained"))).toBe(true), QUICK);
    } finally {
      container.kill("SIGKILL");
    }
  });
});

interface Loop {
  /** Resolves after twenty more requests. */
  readonly some: () => Promise<void>;
  /** The failures. */
  readonly stop: () => Promise<readonly unknown[]>;
}

/** Four clients that send one request after the other. */
function loop(bed: EnvoyBed): Loop {
  let isStopped = false;
  let count = 0;
  const failures: unknown[] = [];
  const client = async (): Promise<void> => {
    while (!isStopped) {
      await bed.chat().catch((error: unknown) => failures.push(error));
      count += 1;
    }
  };
  const clients = Promise.all([client(), client(), client(), client()]);
  return {
    some: async () => {
      const enough = count + 20;
      await until(() => expect(count).toBeGreaterThanOrEqual(enough), QUICK);
    },
    stop: async () => {
      isStopped = true;
      await clients;
      return failures;
    },
  };
}

function certificateOf(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connectTls({ host: "127.0.0.1", port, rejectUnauthorized: false }, () => {
      resolve(socket.getPeerX509Certificate()?.raw.toString("base64") ?? "");
      socket.destroy();
    });
    socket.once("error", reject);
  });
}
