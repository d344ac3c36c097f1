/** Rollback through the console, on a real API server; revisions are written by the test, as the controller would. */
import { expect, test } from "vitest";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import { UNDO_PATH } from "../../src/console/protocol.ts";
import { CONTROLLER_REVISIONS } from "../../src/kube/kinds.ts";
import { must } from "../../test/bed/must.ts";
import { manifest } from "../../test/fixtures/manifests.ts";
import { type ConsoleRig, openConsoleRig, signIn } from "./testing/console-rig.ts";
import { mountUndo } from "./undo.ts";

const GROUP = "metalbridge.dev";
const READ = [
  { apiGroups: [GROUP], resources: ["inferenceservices", "models"], verbs: ["get"] },
  { apiGroups: ["apps"], resources: ["controllerrevisions"], verbs: ["list"] },
];
const CHANGE = [...READ, { apiGroups: [GROUP], resources: ["inferenceservices"], verbs: ["patch"] }];
const SOURCE = "hf://org/repo/tiny.gguf";

async function createService({ client, namespace }: ConsoleRig): Promise<void> {
  must(await client.create(MODELS, manifest("Model", "tiny", namespace) as never));
  const service = must(
    await client.create(INFERENCE_SERVICES, {
      apiVersion: `${GROUP}/v1alpha1`,
      kind: "InferenceService",
      metadata: { name: "chat", namespace },
      spec: { modelRef: "tiny", contextSize: 8192 },
    } as unknown as InferenceService),
  );
  const { uid = "", generation } = service.metadata;
  for (const [revision, contextSize] of [
    [1, 4096],
    [2, 8192],
  ] as const) {
    const labels = { "metalbridge.dev/service-uid": uid, "metalbridge.dev/revision": `hash${revision}` };
    const metadata = { name: `chat-hash${revision}`, namespace, labels };
    const template = {
      serviceName: "chat",
      serviceUid: uid,
      revision: `hash${revision}`,
      runtime: "llamacpp",
      model: { source: SOURCE, format: "gguf" },
      engine: { mode: "chat", contextSize },
    };
    const spec = { modelRef: "tiny", contextSize };
    const data = { template, spec, model: { name: "tiny", source: SOURCE } };
    must(await client.create(CONTROLLER_REVISIONS, { metadata, revision, data }));
  }
  const status = { observedGeneration: generation, currentRevision: "hash2", updateRevision: "hash2" };
  const patch = [{ op: "add", path: "/status", value: status }] as const;
  must(
    await client.jsonPatch(INFERENCE_SERVICES, { name: "chat", namespace }, patch, { subresource: "status" }),
  );
}

test("a rollback shows its changes first, needs the reader's right, and then restores the spec", async () => {
  await using rig = await openConsoleRig();
  await createService(rig);
  const { client, namespace } = rig;
  const undo = { namespace, name: "chat" };
  const contextSize = async () => must(await client.get(INFERENCE_SERVICES, undo)).spec.contextSize;
  const app = rig.start({ routes: [mountUndo(false)] });
  const viewer = await signIn(app, { token: await rig.tokenOf("viewer", READ) });
  const dryRun = await viewer.send("POST", UNDO_PATH, { ...undo, isDryRun: true });
  expect(dryRun.json()).toMatchObject({
    revision: 1,
    hash: "hash1",
    changes: expect.arrayContaining([expect.stringMatching(/contextSize 8192 -> 4096/)]),
  });
  expect((await viewer.send("POST", UNDO_PATH, undo)).json().code).toBe("ApiForbidden");
  expect(await contextSize()).toBe(8192);

  const readOnly = rig.start({ routes: [mountUndo(true)] });
  const token = await rig.tokenOf("editor", CHANGE);
  const reader = await signIn(readOnly, { token });
  expect((await reader.send("POST", UNDO_PATH, undo)).json().code).toBe("ConsoleReadOnly");

  const editor = await signIn(app, { token });
  expect((await editor.send("POST", UNDO_PATH, { ...undo, revision: 7 })).json().code).toBe(
    "RevisionNotFound",
  );
  expect((await editor.send("POST", UNDO_PATH, undo)).statusCode).toBe(200);
  expect(await contextSize()).toBe(4096);
});
