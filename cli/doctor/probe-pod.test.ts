import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import path from "node:path";
import { expect, test } from "vitest";
import type { Pod } from "../../src/kube/workload-objects.ts";
import { probePod, readProbe } from "./probe-pod.ts";

const plan = {
  name: "probe",
  namespace: "default",
  image: "controller",
  pullSecrets: [],
  deadlineSeconds: 60,
  targets: [] as string[],
};

/** The container's own command line, with Node where the image has it. */
async function runCommand(targets: readonly string[]) {
  const [container] = probePod({ ...plan, targets }).spec.containers;
  const [program = "", ...args] = container?.command ?? [];
  const env = { PATH: path.dirname(process.execPath) };
  return new Promise<{ exitCode: number; printed: string }>((resolve) => {
    execFile(program, args, { env }, (error, stdout) =>
      resolve({ exitCode: error === null ? 0 : Number(error.code), printed: stdout }),
    );
  });
}

/** As the kubelet reports a container that has exited, with what a failed one has printed. */
const ended = ({ exitCode, printed }: { exitCode: number; printed: string }): Pod => ({
  metadata: { name: "probe" },
  spec: { containers: [], nodeName: "node-1" },
  status: {
    phase: exitCode === 0 ? "Succeeded" : "Failed",
    containerStatuses: [
      { name: "probe", state: { terminated: { exitCode, ...(exitCode && { message: printed }) } } },
    ],
  },
});

test("the container's command says which ports do not answer", async () => {
  const server = createServer();
  await once(server.listen(0, "::"), "listening");
  const port = (server.address() as { port: number }).port;
  const [v4, v6, closed] = [`127.0.0.1:${port}`, `::1:${port}`, "127.0.0.1:1"];
  try {
    const open = await runCommand([v4, v6]);
    expect(open.exitCode).toBe(0);
    expect(readProbe(ended(open))).toEqual({ at: "ran", failed: new Map(), node: "node-1" });
    const half = await runCommand([v4, closed]);
    expect(half).toEqual({ exitCode: 1, printed: "127.0.0.1:1 ECONNREFUSED\n" });
    const failed = new Map([[closed, "ECONNREFUSED"]]);
    expect(readProbe(ended(half))).toEqual({ at: "ran", failed, node: "node-1" });
  } finally {
    server.close();
  }
});

test.each([
  ["new", {}, { at: "waiting", why: "the pod is Pending" }],
  [
    "no node for it",
    { conditions: [{ type: "PodScheduled", status: "False", message: "0/3 nodes are available" }] },
    { at: "waiting", why: "0/3 nodes are available" },
  ],
  [
    "no image",
    {
      containerStatuses: [
        { name: "probe", state: { waiting: { reason: "ErrImagePull", message: "not found" } } },
      ],
    },
    { at: "stuck", why: "ErrImagePull: not found" },
  ],
  [
    "an image without Node",
    {
      phase: "Failed",
      containerStatuses: [
        {
          name: "probe",
          state: { terminated: { exitCode: 128, reason: "StartError", message: "node: not found" } },
        },
      ],
    },
    { at: "stuck", why: "StartError: node: not found: exit code 128" },
  ],
  [
    "too slow",
    { phase: "Failed", reason: "DeadlineExceeded", message: "active longer than 60 s" },
    { at: "stuck", why: "DeadlineExceeded: active longer than 60 s" },
  ],
])("a probe that has not run: %s", (_, status, expected) => {
  expect(readProbe({ metadata: { name: "probe" }, spec: { containers: [] }, status } as Pod)).toEqual(
    expected,
  );
});

test("the answer is read by the container's name, also while the proxy of a mesh keeps the pod running", () => {
  const proxy = { name: "istio-proxy", ready: true, state: { running: {} } };
  const beside = (end: Parameters<typeof ended>[0]): Pod => {
    const { status, ...pod } = ended(end);
    const containerStatuses = [proxy, ...(status?.containerStatuses ?? [])];
    return { ...pod, status: { phase: "Running", containerStatuses } };
  };
  expect(readProbe(beside({ exitCode: 0, printed: "" }))).toMatchObject({ at: "ran", node: "node-1" });
  const failed = new Map([["10.0.0.1:1", "ECONNREFUSED"]]);
  expect(readProbe(beside({ exitCode: 1, printed: "10.0.0.1:1 ECONNREFUSED\n" }))).toMatchObject({ failed });
  expect(probePod(plan).metadata).toMatchObject({
    labels: { "sidecar.istio.io/inject": "false" },
    annotations: { "linkerd.io/inject": "disabled" },
  });
});
