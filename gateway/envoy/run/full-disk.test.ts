/** Envoy and its configuration on a disk without room. */
import { globSync, readFileSync, rmSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { describeUnless } from "../../../test/bed/describe-unless.ts";
import { whyNoEnvoy } from "../../../test/bed/envoy.ts";
import { until } from "../../../test/bed/until.ts";
import { smallDisk } from "../../../test/fixtures/small-disk.ts";
import { type EnvoyBed, grant, serve, startEngine, startEnvoyBed } from "./fixtures/envoy-bed.ts";
import { envoyPaths } from "./paths.ts";

const NO_MOUNT = "this process may not mount file systems";
const QUICK = { everyMs: 5, timeoutMs: 20_000 } as const;

/** Until then the one before answers, also for new clusters: both read the same files. */
const untilReplaced = (bed: EnvoyBed, before: number) =>
  until(() => expect(bed.pid()).not.toBe(before), QUICK);

const untilRefused = ({ logged }: EnvoyBed) =>
  until(() => expect(logged.at(-1)?.message).toMatch(/^cannot write envoy's configuration/), QUICK);

describeUnless(whyNoEnvoy, "Envoy on a full disk", () => {
  it("keeps the previous configuration while the disk is full, says so once, and continues when there is room", async ({
    skip,
  }) => {
    using disk = smallDisk() ?? skip(NO_MOUNT);
    await using old = await startEngine();
    await using fresh = await startEngine();
    await using bed = await startEnvoyBed({ dir: disk.path });
    await serve(bed, old);
    disk.fill();
    const added = { name: "default/b", endpoints: [fresh], slowStartMs: 0 };
    const applied = bed.envoy.apply([{ name: "default/a", endpoints: [old], slowStartMs: 0 }, added]);
    await untilRefused(bed);
    await bed.chat();
    disk.free();
    await applied;
    expect(bed.logged.filter(({ level }) => level === "error")).toHaveLength(1);
    bed.decisions.respond = () => grant("default/b");
    await until(() => bed.chat(), QUICK);
    expect(fresh.received.length).toBeGreaterThan(0);
  });

  it("moves to another address as soon as there is room", async ({ skip }) => {
    using disk = smallDisk() ?? skip(NO_MOUNT);
    await using engine = await startEngine();
    await using bed = await startEnvoyBed({ dir: disk.path });
    await serve(bed, engine);
    disk.fill();
    const { listeners } = envoyPaths(bed.dir);
    void bed.envoy.listenAt({ address: "0.0.0.0", port: bed.port });
    await untilRefused(bed);
    await bed.chat();
    disk.free();
    await until(() => expect(readFileSync(listeners, "utf8")).toContain("0.0.0.0"), QUICK);
    await bed.chat();
  });

  it("restarts a killed Envoy while the disk is full, and the next gateway adopts it", async ({ skip }) => {
    using disk = smallDisk() ?? skip(NO_MOUNT);
    await using engine = await startEngine();
    await using bed = await startEnvoyBed({ dir: disk.path });
    await serve(bed, engine);
    disk.fill();
    const killed = bed.pid();
    process.kill(killed, "SIGKILL");
    await untilReplaced(bed, killed);
    await until(() => bed.chat(), QUICK);
    await bed.reopen([{ name: "default/a", endpoints: [engine], slowStartMs: 0 }]);
    expect(bed.logged.at(-1)?.message).toBe("adopted a running envoy");
    await bed.chat();
  });

  it("restarts a killed Envoy that replaced another one while the disk is full", async ({ skip }) => {
    using disk = smallDisk() ?? skip(NO_MOUNT);
    await using engine = await startEngine();
    await using bed = await startEnvoyBed({ dir: disk.path });
    await serve(bed, engine);
    const clusters = [{ name: "default/a", endpoints: [engine], slowStartMs: 0 }];
    const first = bed.pid();
    await bed.reopen(clusters, { limits: { maxClientConnections: 500 } });
    await untilReplaced(bed, first);
    const killed = bed.pid();
    disk.fill();
    process.kill(killed, "SIGKILL");
    await untilReplaced(bed, killed);
    await until(() => bed.chat(), QUICK);
  });

  it("waits with its first start until its files can be written", async ({ skip }) => {
    using disk = smallDisk() ?? skip(NO_MOUNT);
    await using engine = await startEngine();
    await using bed = await startEnvoyBed({ dir: disk.path });
    await serve(bed, engine);
    await bed.envoy.stop({ drainMs: 0 });
    const processes = path.join(bed.dir, "processes");
    for (const file of globSync("*/*", { cwd: processes }))
      if (path.basename(file) !== "shim") rmSync(path.join(processes, file));
    disk.fill();
    const starting = bed.reopen([{ name: "default/a", endpoints: [engine], slowStartMs: 0 }]);
    await until(() => expect(bed.logged.at(-1)?.message).toBe("cannot start envoy; retrying"), QUICK);
    disk.free();
    await starting;
    await until(() => bed.chat(), QUICK);
  });

  it("adopts its Envoy on a full disk, also with other services, and refuses to start there with other settings", async ({
    skip,
  }) => {
    using disk = smallDisk() ?? skip(NO_MOUNT);
    await using engine = await startEngine();
    await using bed = await startEnvoyBed({ dir: disk.path });
    await serve(bed, engine);
    const clusters = [{ name: "default/a", endpoints: [engine], slowStartMs: 0 }];
    disk.fill();
    const pid = bed.pid();
    const added = { name: "default/b", endpoints: [engine], slowStartMs: 0 };
    await bed.reopen([...clusters, added]);
    await bed.chat();
    const settings = { limits: { maxClientConnections: 500 } };
    await expect(bed.reopen(clusters, settings)).rejects.toMatchObject({ code: "ENOSPC" });
    await bed.chat();
    disk.free();
    await bed.reopen([...clusters, added], settings);
    bed.decisions.respond = () => grant("default/b");
    await until(() => bed.chat(), QUICK);
    await untilReplaced(bed, pid);
    await bed.chat();
  });
});
