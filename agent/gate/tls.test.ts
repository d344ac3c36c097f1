import { once } from "node:events";
import { copyFileSync, rmSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:https";
import { join } from "node:path";
import { connect, type TLSSocket } from "node:tls";
import { expect, test } from "vitest";
import { until } from "../../test/bed/until.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import {
  createTestAuthority,
  type TestAuthority,
  whyNoAuthority,
} from "../../test/fixtures/test-authority.ts";
import { CHAT_PATH, openRaw, startPair, statusFor, steppedStream } from "./fixtures/route.ts";

interface Answer {
  readonly status: number | undefined;
  readonly text: string;
  readonly servedBy: string;
}

test.skipIf(whyNoAuthority())(
  "a new certificate is served to new connections; requests in flight do not notice",
  async () => {
    await using folder = await temporaryFolder();
    const authority = createTestAuthority();
    const tls = { certFile: join(folder.path, "cert"), keyFile: join(folder.path, "key") };
    const install = (name: string) => {
      const { certificate, key } = authority.issue(name, { organization: "gate" });
      writeFileSync(tls.certFile, certificate);
      writeFileSync(tls.keyFile, key);
    };
    install("first");
    const stream = steppedStream();
    await using pair = await startPair({ tls }, stream.listener);
    const ask = async (agent: Agent, path = "/v1/chat/completions"): Promise<Answer> => {
      const method = path === "/health" ? "GET" : "POST";
      const call = request({
        host: "127.0.0.1",
        port: pair.port,
        path,
        method,
        agent,
        rejectUnauthorized: false,
      });
      call.end(method === "GET" ? undefined : "{}");
      const [response] = await once(call, "response");
      const servedBy = String((response.socket as TLSSocket).getPeerCertificate().subject.CN);
      let text = "";
      for await (const chunk of response.setEncoding("utf8")) text += chunk;
      return { status: response.statusCode, text, servedBy };
    };
    const fresh = () => ask(new Agent(), "/health");

    const opened = stream.next();
    const streaming = ask(new Agent());
    const response = await opened;
    response.write("data: 1\n\n");
    const kept = new Agent({ keepAlive: true, maxSockets: 1 });
    expect((await ask(kept, "/health")).servedBy).toBe("first");

    install("second");
    pair.server.update(pair.route);
    expect(await fresh()).toMatchObject({ status: 200, servedBy: "second" });
    expect((await ask(kept, "/health")).servedBy).toBe("first");
    response.end("data: [DONE]\n\n");
    expect(await streaming).toEqual({ status: 200, servedBy: "first", text: "data: 1\n\ndata: [DONE]\n\n" });

    // Half a rotation, or a file that is no certificate: what works stays in use.
    writeFileSync(tls.certFile, "garbage");
    pair.server.update(pair.route);
    expect(pair.server.status().problems).toEqual([expect.stringMatching(/^tls: /)]);
    expect((await fresh()).servedBy).toBe("second");
    install("third");
    pair.server.update(pair.route);
    expect(pair.server.status().problems).toEqual([]);
    expect((await fresh()).servedBy).toBe("third");

    // Plain HTTP is no way in.
    expect(await statusFor(pair.port, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n")).toMatch(/^closed|^400/);
    kept.destroy();
    await until(() => expect(pair.server.status().inFlight).toBe(0));
    authority.remove();
  },
);

test.skipIf(whyNoAuthority())(
  "a connection that sends nothing ends with the time for a handshake",
  async () => {
    await using folder = await temporaryFolder();
    const { certificate, key } = createTestAuthority().issue("gate", { organization: "gate" });
    const file = join(folder.path, "pem");
    writeFileSync(file, `${certificate}\n${key}`);
    await using pair = await startPair({ tls: { certFile: file, keyFile: file }, limits: { headMs: 200 } });
    const silent = await openRaw(pair.port);
    await until(() => expect(silent.isEnded || silent.error !== undefined).toBe(true));
    expect(pair.server.status().connections).toBe(0);
  },
);

test.skipIf(whyNoAuthority())(
  "an answer that breaks off ends an HTTP/1.0 client's connection over TLS without its proper end, and nothing else",
  async () => {
    await using folder = await temporaryFolder();
    const { certificate, key } = createTestAuthority().issue("gate", { organization: "gate" });
    const file = join(folder.path, "pem");
    writeFileSync(file, `${certificate}\n${key}`);
    await using pair = await startPair({ tls: { certFile: file, keyFile: file } }, (_, response) => {
      response.writeHead(200, { "content-length": 100 });
      response.write("half", () => response.destroy());
    });
    const socket = connect({ port: pair.port, host: "127.0.0.1", rejectUnauthorized: false });
    const ended = new Promise<string>((resolve) => {
      socket.on("end", () => resolve("end")).on("error", ({ message }) => resolve(message));
    });
    socket.resume().write("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}");
    expect(await ended).not.toBe("end");
    socket.destroy();
    await until(() => expect(pair.counters.requests[599]).toBe(1));
  },
);

test.skipIf(whyNoAuthority())(
  "with a CA of clients, only clients with a certificate of it are served, and a new CA drops no connection",
  async () => {
    await using folder = await temporaryFolder();
    const [first, second] = [createTestAuthority(), createTestAuthority()];
    const { certificate, key } = first.issue("gate", { organization: "gate" });
    const [file, clientCAFile] = [join(folder.path, "pem"), join(folder.path, "ca")];
    writeFileSync(file, `${certificate}\n${key}`);
    copyFileSync(first.certificateFile, clientCAFile);
    await using pair = await startPair({ tls: { certFile: file, keyFile: file, clientCAFile } });
    const agentFor = (authority?: TestAuthority): Agent => {
      const issued = authority?.issue("client", { organization: "clients" });
      return new Agent({
        cert: issued?.certificate,
        key: issued?.key,
        keepAlive: true,
        rejectUnauthorized: false,
      });
    };
    const ask = async (agent: Agent): Promise<number | string | undefined> => {
      const call = request({ host: "127.0.0.1", port: pair.port, path: CHAT_PATH, method: "POST", agent });
      call.end("{}");
      try {
        const [response] = await once(call, "response");
        for await (const _ of response);
        return response.statusCode;
      } catch (error) {
        return (error as NodeJS.ErrnoException).code;
      }
    };
    const kept = agentFor(first);
    expect(await ask(kept)).toBe(200);
    expect(await ask(agentFor())).toBe("ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED");
    expect(await ask(agentFor(second))).toBe("ECONNRESET");

    copyFileSync(second.certificateFile, clientCAFile);
    pair.server.update(pair.route);
    expect(await ask(agentFor(second))).toBe(200);
    expect(await ask(kept)).toBe(200);
    expect(await ask(agentFor(first))).toBe("ECONNRESET");

    // Without its CA the gate keeps the last one.
    rmSync(clientCAFile);
    pair.server.update(pair.route);
    expect(pair.server.status().problems).toEqual([expect.stringMatching(/^tls: /)]);
    expect(await ask(agentFor(second))).toBe(200);
    expect(await ask(agentFor())).toBe("ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED");
    expect(pair.daemon.received).toHaveLength(4);
    kept.destroy();
    for (const authority of [first, second]) authority.remove();
  },
);
