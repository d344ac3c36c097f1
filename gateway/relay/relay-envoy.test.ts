/** The relay's real Envoy between clients without certificates and gates of hosts. */
import { once } from "node:events";
import { Agent, type IncomingMessage, type RequestOptions, request } from "node:http";
import { expect, it } from "vitest";
import type { EndpointSlice } from "../../src/kube/objects.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { createIdentityReader } from "../../src/supervise/identity/identity.ts";
import { createSupervisor } from "../../src/supervise/supervisor.ts";
import { describeUnless } from "../../test/bed/describe-unless.ts";
import { envoyPath, whyNoEnvoy } from "../../test/bed/envoy.ts";
import { freePort } from "../../test/bed/ports.ts";
import { until } from "../../test/bed/until.ts";
import { keepLines, type LogLine } from "../../test/fixtures/log-lines.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { createIdentity, startTlsGate, type TlsGate } from "../envoy/run/fixtures/tls-gate.ts";
import { readRequests } from "./metrics.ts";
import { openRelayEnvoy } from "./relay-envoy.ts";
import { RelayedServices } from "./services.ts";

const QUICK = { everyMs: 5, timeoutMs: 20_000 } as const;
const relay = createIdentity("relay");
const host = createIdentity("host");

describeUnless(whyNoEnvoy, "the relay", () => {
  it("leads each port to its service, and passes requests and responses on as they are", async () => {
    const released = Promise.withResolvers<void>();
    await using chat = await startTlsGate(host, [relay.fingerprint], async (incoming, response) => {
      if (incoming.url !== "/stream") return void response.end(JSON.stringify(incoming.headers));
      response.write("first\n");
      await released.promise;
      response.end("last\n");
    });
    await using embed = await startTlsGate(host, [relay.fingerprint]);
    await using bed = await startRelay();
    const [chatPort, embedPort] = [bed.open("chat"), bed.open("embed")];
    bed.replica("chat", chat);
    bed.replica("embed", embed);
    bed.envoy.update();
    await until(() => bed.call(chatPort), QUICK);
    await until(() => bed.call(embedPort), QUICK);
    const headers = { host: "chat.apps.svc:8080", "x-custom": "1", "content-type": "application/json" };
    const { text } = await bed.call(chatPort, { method: "POST", headers, path: "/v1//chat?a=%2F" }, "{}");
    expect(JSON.parse(text)).toEqual({ ...headers, "content-length": "2" });
    const proto = { "x-forwarded-proto": "https" };
    expect(JSON.parse((await bed.call(chatPort, { headers: proto })).text)).toMatchObject(proto);

    const parts: string[] = [];
    const streaming = bed.call(chatPort, { path: "/stream" }, "", (part) => parts.push(part));
    await until(() => expect(parts).toEqual(["first\n"]), QUICK);
    released.resolve();
    expect((await streaming).text).toBe("first\nlast\n");
    expect(chat.refused() + embed.refused()).toBe(0);
    const counts = await readRequests(bed.envoy.admin);
    expect(
      counts
        .filter(({ what }) => what === "2xx")
        .map(({ service }) => service)
        .sort(),
    ).toEqual(["apps/chat", "apps/embed"]);
  });

  it("tries a second replica, sends nothing to a withdrawn one, and answers without any", async () => {
    await using one = await startTlsGate(host, [relay.fingerprint]);
    await using other = await startTlsGate(host, [relay.fingerprint]);
    await using bed = await startRelay();
    const port = bed.open("chat");
    const taken = bed.open("late", { port, createdAt: "2026-02-01T00:00:00Z" });
    expect(taken).toBe(port);
    bed.replica("chat", one);
    bed.replica("chat", other);
    bed.replica("chat", { ...one, port: await freePort() });
    bed.envoy.update();
    await until(() => bed.call(port), QUICK);
    for (let sent = 0; sent < 30; sent += 1) expect((await bed.call(port)).status).toBe(200);
    expect(Math.min(one.received.length, other.received.length)).toBeGreaterThan(0);
    expect(bed.lines.map(({ message }) => message)).toContain("the relay does not serve the slice");

    bed.withdraw("chat", one);
    bed.envoy.update();
    const withdrawnMs = performance.now();
    let lastMs = withdrawnMs;
    while (performance.now() - withdrawnMs < 500) {
      const before = one.received.length;
      const sentMs = performance.now();
      expect((await bed.call(port)).status).toBe(200);
      if (one.received.length > before) lastMs = sentMs;
    }
    expect(lastMs - withdrawnMs).toBeLessThan(100);

    bed.withdraw("chat", other);
    bed.envoy.update();
    await until(async () => {
      const { status, text } = await bed.call(port);
      expect({ status, code: JSON.parse(text).error.code }).toEqual({
        status: 503,
        code: "service_unavailable",
      });
      expect(text).toContain("apps/chat");
    }, QUICK);
  });

  it("stops after its requests, and asks clients that keep a connection to close it", async () => {
    const released = Promise.withResolvers<void>();
    await using gate = await startTlsGate(host, [relay.fingerprint], async (incoming, response) => {
      if (incoming.url === "/slow") await released.promise;
      response.end("{}");
    });
    await using bed = await startRelay();
    const port = bed.open("chat");
    bed.replica("chat", gate);
    bed.envoy.update();
    await until(() => bed.call(port), QUICK);
    await until(() => expect(bed.envoy.isReady()).toBe(true), QUICK);
    const clients = Array.from({ length: 4 }, () => keepCalling(port));
    await until(() => expect(gate.received.length).toBeGreaterThan(40), QUICK);
    const slow = bed.call(port, { path: "/slow" });
    await until(() => expect(gate.received.length).toBeGreaterThan(60), QUICK);
    const stopped = bed.envoy.stop();
    expect(bed.envoy.isReady()).toBe(false);
    expect(await Promise.all(clients)).toEqual(Array.from({ length: 4 }, () => "asked to close"));
    released.resolve();
    expect((await slow).status).toBe(200);
    await stopped;
  });
});

async function startRelay() {
  const stack = new AsyncDisposableStack();
  const { path: dir } = stack.use(await temporaryFolder());
  const ending = new AbortController();
  stack.defer(() => ending.abort());
  const services = new RelayedServices();
  const lines: LogLine[] = [];
  const log = keepLines(lines);
  const identity = createIdentityReader(process.platform);
  const envoy = await openRelayEnvoy({
    ...{ dir, services, log, clock: systemClock, signal: ending.signal, concurrency: 1 },
    envoy: envoyPath ?? "",
    address: "127.0.0.1",
    keyPair: relay.keyPair,
    supervisor: createSupervisor({ clock: systemClock, log, identity }),
  });
  stack.defer(() => envoy.stop({ drainMs: 0, keptMs: 0 }));
  let next = 20_000 + (process.pid % 9_000);
  const sliceOf = (service: string, gate: Pick<TlsGate, "port">): EndpointSlice => ({
    metadata: {
      namespace: "apps",
      name: `${service}-${gate.port}`,
      labels: { "metalbridge.dev/service": service },
      annotations: { "metalbridge.dev/fingerprints": host.fingerprint },
    },
    addressType: "IPv4",
    endpoints: [{ addresses: ["127.0.0.1"] }],
    ports: [{ name: "http", port: gate.port }],
  });
  return {
    envoy,
    lines,
    /** Gives the service a port. */
    open: (service: string, { port = next++, createdAt = "2026-01-01T00:00:00Z" } = {}): number => {
      const labels = {
        "metalbridge.dev/relayed-service": service,
        "endpointslice.kubernetes.io/managed-by": "controller.metalbridge.dev",
      };
      const metadata = { namespace: "apps", name: `${service}-relay`, creationTimestamp: createdAt, labels };
      const ports = [{ name: "http", port }];
      services.setDoor(`apps/${service}-relay`, { metadata, addressType: "IPv4", ports });
      return port;
    },
    replica: (service: string, gate: Pick<TlsGate, "port">) =>
      services.setReplica(`apps/${service}-${gate.port}`, sliceOf(service, gate), undefined),
    withdraw: (service: string, gate: Pick<TlsGate, "port">) =>
      services.setReplica(`apps/${service}-${gate.port}`, undefined, sliceOf(service, gate)),
    call,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

interface Called {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly text: string;
}

async function call(
  port: number,
  options: RequestOptions = {},
  body = "",
  onPart: (part: string) => void = () => {},
): Promise<Called> {
  const outgoing = request({ host: "127.0.0.1", port, agent: false, ...options });
  const answered = once(outgoing, "response");
  if (body !== "") outgoing.setHeader("content-length", body.length);
  outgoing.end(body);
  const [response] = (await answered) as [IncomingMessage];
  let text = "";
  for await (const part of response.setEncoding("utf8")) {
    text += part;
    onPart(part);
  }
  return { status: response.statusCode ?? 0, headers: response.headers, text };
}

/** Sends requests on one connection until a response asks for its end. Rejects if a request fails. */
async function keepCalling(port: number): Promise<string> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  for (;;) {
    const { status, headers } = await call(port, { agent });
    expect(status).toBe(200);
    if (headers.connection === "close") return "asked to close";
  }
}
