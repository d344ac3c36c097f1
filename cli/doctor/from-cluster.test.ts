import { execFile } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import path from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { parseFailures, reachPod } from "./from-cluster.ts";

const plan = {
  name: "probe",
  namespace: "default",
  image: "controller",
  pullSecrets: [],
  deadlineSeconds: 60,
  targets: [] as string[],
};

/** Runs the container's own command line, with Node where the image has it. Returns what it wrote for the kubelet. */
async function runCommand(targets: readonly string[]) {
  await using folder = await temporaryFolder();
  const [container] = reachPod({ ...plan, targets }).spec.containers;
  const file = path.join(folder.path, "termination-log");
  const own = container?.terminationMessagePath ?? "";
  const [program = "", ...args] = (container?.command ?? []).map((arg) => (arg === own ? file : arg));
  await promisify(execFile)(program, args, { env: { PATH: path.dirname(process.execPath) } });
  return readFileSync(file, "utf8");
}

test("the container's command says which ports do not answer", async () => {
  const server = createServer();
  await once(server.listen(0, "::"), "listening");
  const port = (server.address() as { port: number }).port;
  const [v4, v6, closed] = [`127.0.0.1:${port}`, `::1:${port}`, "127.0.0.1:1"];
  try {
    expect(parseFailures(await runCommand([v4, v6]))).toEqual(new Map());
    const half = await runCommand([closed, v4, closed]);
    expect(half).toBe("127.0.0.1:1 ECONNREFUSED\n127.0.0.1:1 ECONNREFUSED");
    expect(parseFailures(half)).toEqual(new Map([[closed, "ECONNREFUSED"]]));
  } finally {
    server.close();
  }
});

test("no service mesh adds a proxy to the pod", () => {
  expect(reachPod(plan).metadata).toMatchObject({
    labels: { "sidecar.istio.io/inject": "false" },
    annotations: { "linkerd.io/inject": "disabled" },
  });
});
