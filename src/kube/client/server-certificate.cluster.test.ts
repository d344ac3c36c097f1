/** An API server that comes back with another certificate, and a kubeconfig that follows. */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, it, vi } from "vitest";
import { certificateFile } from "../../../local/control-plane/state/certificate.ts";
import { controlPlaneLayoutOf } from "../../../local/control-plane/state/layout.ts";
import { objectsOf } from "../../../test/bed/objects.ts";
import { startCluster } from "../../../test/cluster/cluster.ts";
import { quietLog } from "../../../test/cluster/quiet-log.ts";
import { explainFailure } from "../errors.ts";
import { CONFIG_MAPS } from "../kinds.ts";
import { systemClock } from "../system-clock.ts";
import type { ApiFailure } from "../types.ts";
import { startReflector } from "../watch/reflector.ts";
import { connect } from "./connect.ts";

const AUTHORITY_DATA = /certificate-authority-data: *\S+/;

async function watchWith(kubeconfigPath: string, signal: AbortSignal) {
  const connection = await connect({ kubeconfigPath });
  signal.addEventListener("abort", connection.close, { once: true });
  const failures: ApiFailure[] = [];
  const reflector = startReflector({
    connection,
    signal,
    clock: systemClock,
    log: quietLog,
    kind: CONFIG_MAPS,
    namespace: "default",
    onChange: () => {},
    onFailure: (failure) => failures.push(failure),
  });
  await reflector.whenSynced();
  return { reflector, code: () => failures.map((failure) => explainFailure(failure).code).at(-1) };
}

it("is named as the cause while it is not trusted, and followed when file or kubeconfig name the new one", async () => {
  await using cluster = await startCluster({ crds: false });
  const folder = controlPlaneLayoutOf(cluster.dir).certificates("127.0.0.1");
  const read = () => readFileSync(certificateFile(folder));
  const admin = readFileSync(cluster.kubeconfig, "utf8");
  const embedded = path.join(cluster.dir, "embedded.kubeconfig");
  const byFile = path.join(cluster.dir, "by-file.kubeconfig");
  const authority = path.join(cluster.dir, "ca.crt");
  writeFileSync(embedded, admin);
  writeFileSync(authority, read());
  writeFileSync(byFile, admin.replace(AUTHORITY_DATA, "certificate-authority: ca.crt"));
  const ending = new AbortController();
  const watched = [await watchWith(embedded, ending.signal), await watchWith(byFile, ending.signal)];

  await cluster.stopApiServer();
  for (const name of ["apiserver.crt", "apiserver.key"]) rmSync(path.join(folder, name));
  await cluster.startApiServer();
  const within = { timeout: 60_000, interval: 50 };
  await vi.waitFor(() => {
    for (const { code } of watched) expect(code()).toBe("ApiCertificateUntrusted");
  }, within);
  for (const { reflector } of watched) expect(reflector.get("default/kube-root-ca.crt")).toBeUndefined();

  const fresh = read();
  const renewed = admin.replace(AUTHORITY_DATA, `certificate-authority-data: ${fresh.toString("base64")}`);
  writeFileSync(authority, fresh);
  writeFileSync(embedded, renewed);
  const now = path.join(cluster.dir, "now.kubeconfig");
  writeFileSync(now, renewed);
  using renewedObjects = objectsOf(now);
  await renewedObjects.create({ apiVersion: "v1", kind: "ConfigMap", metadata: { name: "seen" } });
  await vi.waitFor(() => {
    for (const { reflector } of watched) expect(reflector.get("default/seen")).toBeDefined();
  }, within);
  ending.abort();
});
