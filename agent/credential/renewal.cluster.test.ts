/** An agent keeps its own credential: it renews it, and takes up another one, without a restart and without an engine stopping. */

import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { copyFile, mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test, vi } from "vitest";
import { silentLog } from "../../local/terminal-log.ts";
import { credentialSecretName } from "../../src/api/access/roles.ts";
import type { MetalbridgeError } from "../../src/api/errors.ts";
import { NAMESPACE_HOSTS } from "../../src/api/group.ts";
import { connect } from "../../src/kube/client/connect.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { GENERATION, giveIdentity } from "../../test/bed/identity.ts";
import { runProgram } from "../../test/cli/program.ts";
import { sharedCluster } from "../../test/cluster/cluster.ts";
import type { LogLine } from "../../test/fixtures/log-lines.ts";
import { program } from "../../test/fixtures/started-llama-server.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { createBench } from "../../test/replicas/bench.ts";
import { signToken } from "../../test/security/signed-token.ts";
import { startAgent, testAddress } from "../fixtures/agent.ts";
import { readHostToken, replaceToken } from "./file.ts";
import { renewCredential } from "./renewal.ts";

const PATIENTLY = { timeout: 60_000, interval: 100 };
const DAY_S = 86_400;

const logged = (lines: readonly LogLine[], message: string) =>
  lines.filter((line) => line.message === message);

test("a token is renewed after two thirds of its life, and the agent works on with the new one", async () => {
  const cluster = sharedCluster();
  await using folder = await temporaryFolder();
  const hostName = `mini-${randomBytes(4).toString("hex")}`;
  const file = path.join(folder.path, "kubeconfig");
  await giveIdentity(cluster, hostName, file);
  const secret = credentialSecretName(hostName, GENERATION);
  const spec = { addresses: [testAddress()] };
  const host = { apiVersion: "metalbridge.dev/v1alpha1", kind: "Host", metadata: { name: hostName }, spec };
  await cluster.objects.create(host);
  await replaceToken(file, await signToken(cluster, hostName, { issued: 400, expires: 200, secret }));
  const before = readHostToken(file);
  await using agent = await startAgent({ kubeconfig: file, hostName });
  await vi.waitFor(
    () => expect(logged(agent.lines, "the credential was renewed")).toHaveLength(1),
    PATIENTLY,
  );
  const after = readHostToken(file);
  expect(after?.token).not.toBe(before?.token);
  expect(after?.claims.secret).toBe(secret);
  expect((after?.claims.expiresAt ?? 0) - Date.now() / 1_000).toBeGreaterThan(29 * DAY_S);
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect(await readdir(folder.path)).toEqual(["kubeconfig"]);
  await vi.waitFor(async () => expect(await agent.ask("/readyz")).toBe("200 ok\n"), PATIENTLY);
  await agent.stop();
  await cluster.objects.remove("", `hosts/${hostName}`);
});

test.runIf(process.geteuid?.() === 0)(
  "on a full disk one token is requested, and written once there is room",
  async () => {
    const cluster = sharedCluster();
    await using folder = await temporaryFolder();
    const disk = path.join(folder.path, "disk");
    await mkdir(disk);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=64k", "tmpfs", disk]);
    const stopped = new AbortController();
    try {
      const hostName = `mini-${randomBytes(4).toString("hex")}`;
      const [file, filler] = [path.join(disk, "kubeconfig"), path.join(disk, "filler")];
      await giveIdentity(cluster, hostName, file);
      const secret = credentialSecretName(hostName, GENERATION);
      await replaceToken(file, await signToken(cluster, hostName, { issued: 400, expires: 200, secret }));
      const before = readHostToken(file)?.token;
      await writeFile(filler, Buffer.alloc(1 << 20)).catch(() => undefined);
      let requests = 0;
      const onAnswer = () => {
        requests += 1;
      };
      const connection = await connect({ kubeconfigPath: file, onResponse: onAnswer });
      const due: (() => void)[] = [];
      const found: (MetalbridgeError | undefined)[] = [];
      const after = (_: number, run: () => void) => {
        due.push(run);
        return () => undefined;
      };
      renewCredential({
        connection,
        path: file,
        log: silentLog,
        signal: stopped.signal,
        clock: { ...systemClock, after },
        onRenewal: (trouble) => found.push(trouble),
      });
      for (const times of [1, 2, 3, 4]) {
        await vi.waitFor(() => expect([found.length, due.length]).toEqual([times, times]), PATIENTLY);
        expect(found.at(-1)?.code).toBe("CredentialNotRenewed");
        expect(found.at(-1)?.message).toMatch(/ENOSPC/);
        if (times === 4) await rm(filler);
        due.at(-1)?.();
      }
      await vi.waitFor(() => expect(found).toHaveLength(5), PATIENTLY);
      expect(found.at(-1)).toBeUndefined();
      expect(readHostToken(file)?.token).not.toBe(before);
      expect(requests).toBe(1);
      connection.close();
    } finally {
      stopped.abort();
      execFileSync("umount", [disk]);
    }
  },
);

test.skipIf(program === undefined)(
  "a running agent moves from an old kubeconfig to a credential of its own, and its engine keeps running",
  async () => {
    const cluster = sharedCluster();
    await using namespace = await cluster.namespace();
    await using bench = await createBench(cluster.kubeconfig, namespace.name);
    const { hostName, root } = bench.place;
    const file = path.join(root, "agent.kubeconfig");
    await copyFile(cluster.kubeconfig, file);
    await using agent = await startAgent({
      kubeconfig: file,
      hostName,
      register: true,
      modelRoots: [root],
      llamaServer: [program ?? ""],
      addresses: [bench.address],
    });
    await bench.createReplica("chat-0");
    const { status: before } = await bench.untilPhase("chat-0", "Ready");

    const added = await runProgram(["host", "add", hostName], cluster);
    const args = added.stdout.trim().split(" ").slice(1);
    const here = ["--kubeconfig", file, "--state-dir", agent.stateDir, "--address", bench.address];
    const joined = await runProgram([...args, ...here, "--llama-server", program ?? ""]);
    expect(joined).toMatchObject({ code: 0, stderr: "" });
    expect(joined.stdout).toContain(`${file}.before-join`);
    expect(await readFile(`${file}.before-join`, "utf8")).toBe(await readFile(cluster.kubeconfig, "utf8"));
    await vi.waitFor(
      () => expect(logged(agent.lines, "the credential was replaced")).toHaveLength(1),
      PATIENTLY,
    );

    const { status: after } = (await bench.replica("chat-0")) ?? {};
    expect(after).toMatchObject({ phase: "Ready", pid: before?.pid, restarts: before?.restarts });
    // Withdraws and ends the engine in its own name.
    await bench.deleteReplica("chat-0");
    await bench.untilGone("chat-0");
    expect(agent.lines.filter((line) => /forbidden|may write/i.test(JSON.stringify(line)))).toEqual([]);

    const removed = await runProgram(["host", "remove", hostName, "--yes"], cluster);
    expect(removed.code).toBe(0);
    await vi.waitFor(
      async () => expect(await agent.ask("/readyz")).toMatch(/ApiUnauthorized|ApiForbidden/),
      PATIENTLY,
    );
    const accounts = await cluster.objects.get(NAMESPACE_HOSTS, "serviceaccounts");
    expect(JSON.stringify(accounts)).not.toContain(hostName);
  },
);
