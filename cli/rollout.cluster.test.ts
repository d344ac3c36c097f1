/** `metalbridge rollout` against the real API server; status and revisions are written by the test, as the controller would. */
import { expect, test } from "vitest";
import { INFERENCE_SERVICES, MODELS } from "../src/api/kinds.ts";
import { historyOf } from "../src/capacity/rollback/history.ts";
import { planUndo } from "../src/capacity/rollback/undo.ts";
import { CONTROLLER_REVISIONS } from "../src/kube/kinds.ts";
import { must } from "../test/bed/must.ts";
import { until } from "../test/bed/until.ts";
import { type Desk, openDesk } from "../test/cli/objects.ts";
import { runVerb, startProgram } from "../test/cli/program.ts";
import { manifest } from "../test/fixtures/manifests.ts";

const get = async (desk: Desk, name: string) =>
  must(await desk.client.get(INFERENCE_SERVICES, { name, namespace: desk.namespace }));

async function tell(
  desk: Desk,
  name: string,
  status: object,
  progressing?: readonly [string, string, string],
) {
  const { generation } = (await get(desk, name)).metadata;
  const [state, reason, message] = progressing ?? [];
  const condition = { type: "Progressing", status: state, reason, message };
  const conditions =
    progressing === undefined ? [] : [{ ...condition, lastTransitionTime: "2026-03-01T12:00:00Z" }];
  await desk.status(INFERENCE_SERVICES, name, { observedGeneration: generation, conditions, ...status });
}

async function keepRevision(desk: Desk, name: string, revision: number, spec: object, source = SOURCE) {
  const { uid } = (await get(desk, name)).metadata;
  const hash = `hash${revision}`;
  const labels = { "metalbridge.dev/service-uid": uid ?? "", "metalbridge.dev/revision": hash };
  const template = {
    serviceName: name,
    serviceUid: uid,
    revision: hash,
    runtime: "llamacpp",
    model: { source, format: "gguf" },
    engine: { mode: "chat" },
  };
  const metadata = { name: `${name}-${hash}`, namespace: desk.namespace, labels };
  const data = { template, spec: { modelRef: "tiny", ...spec }, model: { name: "tiny", source } };
  must(await desk.client.create(CONTROLLER_REVISIONS, { metadata, revision, data }));
}

const SOURCE = "hf://org/repo/tiny.gguf";
const COMPLETE = {
  desiredReplicas: 1,
  replicas: 1,
  updatedReplicas: 1,
  readyReplicas: 1,
  updateRevision: "hash2",
};

test("a rollout is followed to its end", async () => {
  await using desk = await openDesk();
  await desk.service("chat");
  await using rollout = startProgram(["rollout", "status", "isvc/chat", "-n", desk.namespace], desk);
  await rollout.until(/^waiting: the controller has not seen/m);
  await tell(desk, "chat", { ...COMPLETE, updatedReplicas: 0 }, [
    "True",
    "NewRevisionRollingOut",
    "0 of 1 updated, 1 old serving",
  ]);
  await rollout.until(/^waiting: 0 of 1 updated, 1 old serving$/m);
  await tell(desk, "chat", COMPLETE, ["False", "RolloutComplete", ""]);
  expect(await rollout.ended).toEqual({
    code: 0,
    stdout: expect.stringMatching(/service chat is rolled out: 1 of 1 replicas of revision hash2 answer\n$/),
    stderr: "",
  });
});

test("a change of the Model is followed as one of the service is", async () => {
  await using desk = await openDesk();
  must(await desk.client.create(MODELS, manifest("Model", "tiny", desk.namespace) as never));
  await desk.status(MODELS, "tiny", { observedGeneration: 0 });
  await desk.service("chat");
  await tell(desk, "chat", COMPLETE);
  const args = ["rollout", "status", "chat", "-n", desk.namespace];
  const once = await runVerb([...args, "--watch=false"], desk);
  expect(once.stdout).toBe("waiting: the controller has not seen the last change of Model tiny yet\n");
  await using rollout = startProgram(args, desk);
  await rollout.until(/^waiting: .* of Model tiny yet/m);
  await desk.status(MODELS, "tiny", { observedGeneration: 1 });
  expect(await rollout.ended).toMatchObject({ code: 0, stdout: expect.stringMatching(/rolled out/) });
});

test("a rollout that stops ends with 1 and the way back", async () => {
  await using desk = await openDesk();
  await desk.service("chat");
  const args = ["rollout", "status", "chat", "-n", desk.namespace];
  await using rollout = startProgram(args, desk);
  await rollout.until(/waiting/);
  const rolling = { ...COMPLETE, currentRevision: "hash1", updatedReplicas: 0 };
  await tell(desk, "chat", rolling, ["False", "RolloutStopped", "chat-0-x is Failed: EngineBadModel"]);
  const stopped = {
    code: 1,
    stderr: expect.stringMatching(
      new RegExp(
        `^RolloutStopped: .*EngineBadModel\\n.*\\n +metalbridge rollout undo chat -n ${desk.namespace}\\n$`,
      ),
    ),
  };
  expect(await rollout.ended).toMatchObject(stopped);
  expect(await runVerb([...args, "--watch=false"], desk)).toMatchObject(stopped);
  const json = await runVerb([...args, "-o", "json"], desk);
  expect(json.code).toBe(1);
  expect(JSON.parse(json.stdout)).toMatchObject({
    name: "chat",
    at: "stopped",
    reason: "RolloutStopped",
    readyReplicas: 1,
  });
});

test("a first revision that fails has no way back", async () => {
  await using desk = await openDesk();
  await desk.service("chat");
  await tell(desk, "chat", { ...COMPLETE, readyReplicas: 0 }, [
    "False",
    "RolloutStopped",
    "0 of 1 updated; chat-0-x is Failed",
  ]);
  const { code, stderr } = await runVerb(["rollout", "status", "chat", "-n", desk.namespace], desk);
  expect(code).toBe(1);
  expect(stderr).toMatch(/^RolloutStopped: .*chat-0-x is Failed\n.*\n +metalbridge describe chat -n/);
});

test("a service that will not work as it is has its own code", async () => {
  await using desk = await openDesk();
  await desk.service("chat");
  await tell(desk, "chat", { phase: "Failed", reason: "ModelFailed", message: "no such file" });
  const { code, stderr } = await runVerb(["rollout", "status", "chat", "-n", desk.namespace], desk);
  expect(code).toBe(1);
  expect(stderr).toMatch(/^ModelFailed: the rollout of service chat has stopped: no such file\n/);
});

test("it ends with 1 after its time, when the service goes, and with 130 on Ctrl-C", async () => {
  await using desk = await openDesk();
  await desk.service("chat");
  const args = ["rollout", "status", "chat", "-n", desk.namespace];
  const late = await runVerb([...args, "--timeout", "12s"], desk);
  expect(late).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^RolloutNotFinished: .*after 12s; .*not seen/),
  });
  {
    await using rollout = startProgram(args, desk);
    await rollout.until(/waiting/);
    rollout.child.kill("SIGINT");
    expect(await rollout.ended).toMatchObject({ code: 130, stderr: "" });
  }
  await using rollout = startProgram(args, desk);
  await rollout.until(/waiting/);
  must(await desk.client.remove(INFERENCE_SERVICES, { name: "chat", namespace: desk.namespace }));
  expect(await rollout.ended).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^ServiceNotFound: .*deleted/),
  });
});

test("history lists what was, and undo writes it back and nothing else", async () => {
  await using desk = await openDesk();
  must(await desk.client.create(MODELS, manifest("Model", "tiny", desk.namespace) as never));
  await desk.service("chat", {
    "spec.contextSize": 8192,
    "spec.parallelSlots": 4,
    "spec.replicas": 3,
    "spec.priority": "high",
  });
  await keepRevision(desk, "chat", 1, { contextSize: 4096, flashAttention: false });
  await keepRevision(desk, "chat", 2, { contextSize: 8192, parallelSlots: 4 });
  await tell(desk, "chat", { currentRevision: "hash2" });
  const run = (...args: string[]) => runVerb(["rollout", ...args, "-n", desk.namespace], desk);

  const history = await run("history", "chat");
  expect(history).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^1 +hash1[\s\S]*\n2 +hash2 +\d+s +serving +contextSize 4096 -> 8192/m),
  });
  expect((await run("history", "chat", "--revision", "1")).stdout).toContain("flashAttention: false");
  expect(await run("history", "chat", "--revision", "7")).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^RevisionNotFound: .*no revision 7; stored revisions: 1, 2/),
  });

  const before = (await get(desk, "chat")).spec;
  const dry = await run("undo", "chat", "--dry-run");
  expect(dry).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/would roll back to revision 1[\s\S]*parallelSlots 4 -> unset/),
  });
  expect((await get(desk, "chat")).spec).toEqual(before);

  expect(await run("undo", "chat")).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/rolls back to revision 1 \(hash1\)[\s\S]*rollout status chat -n/),
    stderr: "",
  });
  const { parallelSlots: _gone, ...kept } = before;
  expect((await get(desk, "chat")).spec).toEqual({ ...kept, contextSize: 4096, flashAttention: false });

  const unseen = await run("undo", "chat");
  expect(unseen).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^RevisionNotFound: the controller has not seen/),
  });
  const again = await run("undo", "chat", "--to-revision", "1");
  expect(again).toMatchObject({ code: 0, stdout: expect.stringMatching(/^nothing to undo: .*revision 1/) });
  const forth = await run("undo", "chat", "--to-revision", "2", "-o", "json");
  expect(JSON.parse(forth.stdout)).toMatchObject({ revision: 2, hash: "hash2", notes: [] });
  expect((await get(desk, "chat")).spec).toEqual(before);
});

test("undo says that the Model is another one by now", async () => {
  await using desk = await openDesk();
  await desk.service("chat", { "spec.contextSize": 8192 });
  await keepRevision(desk, "chat", 1, {}, "hf://org/repo/older.gguf");
  await keepRevision(desk, "chat", 2, { contextSize: 8192 });
  await tell(desk, "chat", {});
  const gone = await runVerb(["rollout", "undo", "chat", "--dry-run", "-n", desk.namespace], desk);
  expect(gone.stderr).toMatch(/^note: Model tiny does not exist any more/);
  must(await desk.client.create(MODELS, manifest("Model", "tiny", desk.namespace) as never));
  const changed = await runVerb(["rollout", "undo", "chat", "-n", desk.namespace], desk);
  expect(changed).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(
      /^note: Model tiny has changed since: its source was hf:\/\/org\/repo\/older\.gguf/,
    ),
  });
});

test("undo holds against a controller that writes status all the time, and gives way to a change of the spec", async () => {
  await using desk = await openDesk();
  must(await desk.client.create(MODELS, manifest("Model", "tiny", desk.namespace) as never));
  await desk.service("chat", { "spec.contextSize": 8192 });
  await keepRevision(desk, "chat", 1, {});
  await keepRevision(desk, "chat", 2, { contextSize: 8192 });
  await tell(desk, "chat", {});
  let isOver = false;
  let writes = 0;
  const writing = (async () => {
    while (!isOver) await tell(desk, "chat", { message: `status ${writes++}` });
  })();
  await until(() => expect(writes).toBeGreaterThan(5));
  const undo = await runVerb(["rollout", "undo", "chat", "-n", desk.namespace], desk);
  isOver = true;
  await writing;
  expect(undo).toMatchObject({ code: 0, stderr: "" });
  expect((await get(desk, "chat")).spec.contextSize).toBeUndefined();

  const stale = await get(desk, "chat");
  await tell(desk, "chat", {});
  const [entry] = historyOf(
    stale,
    must(await desk.client.list(CONTROLLER_REVISIONS, { namespace: desk.namespace })).items.filter(
      ({ revision }) => revision === 2,
    ),
  );
  if (entry === undefined) throw new Error("revision 2 is not there");
  const ref = { name: "chat", namespace: desk.namespace };
  const { operations } = planUndo(stale, entry, undefined);
  await desk.cluster.objects.scale(desk.namespace, "isvc/chat", 2);
  expect(await desk.client.jsonPatch(INFERENCE_SERVICES, ref, operations)).toMatchObject({
    error: { kind: "conflict" },
  });
  const { operations: fresh } = planUndo(await get(desk, "chat"), entry, undefined);
  expect(must(await desk.client.jsonPatch(INFERENCE_SERVICES, ref, fresh)).spec).toMatchObject({
    contextSize: 8192,
    replicas: 2,
  });
});

test("a restart marks a service that runs in pods, and none that runs on hosts", async () => {
  await using desk = await openDesk();
  await desk.service("chat");
  const restart = () => runVerb(["rollout", "restart", "chat", "-n", desk.namespace], desk);
  await tell(desk, "chat", { on: "Hosts" });
  const refused = await restart();
  expect(refused.code).not.toBe(0);
  expect(refused.stderr).toContain("RestartNotInPods");
  await tell(desk, "chat", { on: "Hosts+Pods" });
  expect(await restart()).toMatchObject({ code: 0 });
  const { annotations = {} } = (await get(desk, "chat")).metadata;
  expect(annotations["metalbridge.dev/restarted-at"]).toMatch(/^20\d\d-/);
});
