import { expect, test } from "vitest";
import { decideExecRequest, READING_COMMANDS } from "./request.ts";

const decide = (command: string, more: object = {}) =>
  decideExecRequest(JSON.stringify({ id: "1", command, ...more }), "metalbridge");

test.each<[command: string, args: readonly string[]]>([
  ["metalbridge status", ["status"]],
  ["  metalbridge   fit  qwen -n team-a -o json ", ["fit", "qwen", "-n", "team-a", "-o", "json"]],
  [`metalbridge fit --memory 32Gi --chip "M4 Pro"`, ["fit", "--memory", "32Gi", "--chip", "M4 Pro"]],
  ["metalbridge fit --chip='M4 Pro'", ["fit", "--chip=M4 Pro"]],
  ["metalbridge --version", ["--version"]],
  ["metalbridge models list --host mac-1", ["models", "list", "--host", "mac-1"]],
  ["metalbridge deploy --dry-run hf://a/b", ["deploy", "--dry-run", "hf://a/b"]],
  // The tokens of a context, and not the context of a kubeconfig.
  ["metalbridge fit qwen --context 65536 -s 4", ["fit", "qwen", "--context", "65536", "-s", "4"]],
  ["metalbridge rollout status --watch=false chat", ["rollout", "status", "--watch=false", "chat"]],
])("runs %s", (command, args) => {
  expect(decide(command)).toEqual({ at: "run", args, timeoutMs: 30_000, workDir: "" });
});

test.each<[command: string, why: RegExp]>([
  ["metalbridge status | jq .", /without a shell/],
  ["metalbridge status; metalbridge delete chat", /without a shell/],
  ["metalbridge status && rm -rf /workspace", /without a shell/],
  ["metalbridge get $(cat /etc/passwd)", /without a shell/],
  ['metalbridge get "`id`"', /without a shell/],
  ["metalbridge get 'open", /without a shell/],
  ["metalbridge status > /workspace/x", /without a shell/],
  ["metalbridge", /only reads/],
  ["metalbridge delete chat", /only reads/],
  ["metalbridge deploy hf://a/b --yes", /only reads/],
  ["metalbridge deploy hf://a/b --yes --catalog --dry-run", /only reads/],
  ["metalbridge models rm hf://a/b", /only reads/],
  ["metalbridge statusx", /only reads/],
  ["metalbridge --kubeconfig=/workspace/k status", /only reads/],
  ["metalbridge status --kubeconfig=/workspace/k", /--kubeconfig is refused/],
  ["metalbridge status --kubeconfig /workspace/k", /--kubeconfig is refused/],
  ["metalbridge status --context other", /--context is refused/],
  ["metalbridge fit qwen --kube-context other", /--kube-context is refused/],
  ["metalbridge fit qwen --kube-context=other", /--kube-context is refused/],
  ["metalbridge models list --state-dir /workspace", /--state-dir is refused/],
  // The pack has no right to watch.
  ["metalbridge get services -w", /-w is refused: .* get with -n, .*--selector/],
  ["metalbridge get services -Aw", /-Aw is refused/],
  ["metalbridge rollout status chat", /rollout status --watch=false/],
  ["metalbridge rollout status --watch=false chat --watch=true", /--watch is refused/],
  ["metalbridge deploy --dry-run hf://a/b --yes", /--yes is refused/],
  ["metalbridge fit -f -", /- is refused/],
  ["metalbridge get -- services", /-- is refused/],
  ["llmfit-cluster-fit --model any", /creates probe pods/],
  ["metalbridge-other status", /no metalbridge-other/],
  [`metalbridge get ${"x ".repeat(80)}`, /at most 64 words/],
])("refuses %s", (command, why) => {
  expect(decide(command)).toEqual({ at: "refused", why: expect.stringMatching(why) });
});

test.each<[text: string, at: string]>([
  [`{"command":"metalbridge status","target":" MetalBridge "}`, "run"],
  [`{"command":"metalbridge status","target":"k8s-ops"}`, "other"],
  // Without a target, another program belongs to another sidecar; with ours, the agent gets an answer.
  [`{"command":"kubectl get nodes"}`, "other"],
  [`{"command":"kubectl get nodes","target":"metalbridge"}`, "refused"],
  [`{"command":"metalbridge","args":["status"],"timeout":null}`, "run"],
  [`{"argv":["metalbridge","fit","a model"],"command":""}`, "run"],
  [`{"argv":["sh","-c","id"],"target":"metalbridge"}`, "refused"],
  [`{"command":"metalbridge sta`, "other"],
  [`{"command":7}`, "other"],
  ["null", "other"],
  ["", "other"],
])("%s is %s", (text, at) => {
  expect(decideExecRequest(text, "metalbridge").at).toBe(at);
});

test.each<[timeout: number | undefined, timeoutMs: number]>([
  [undefined, 30_000],
  [0, 30_000],
  [-5, 1_000],
  [9_999, 120_000],
])("a timeout of %s s is %s ms", (timeout, timeoutMs) => {
  expect(decide("metalbridge status", { timeout })).toMatchObject({ timeoutMs });
});

test("the folder of the command is passed on", () => {
  expect(decide("metalbridge status", { workDir: "/workspace/a" })).toMatchObject({
    workDir: "/workspace/a",
  });
  expect(decide("metalbridge status", { workDir: null })).toMatchObject({ workDir: "" });
});

test("every listed command is accepted alone", () => {
  for (const one of Object.keys(READING_COMMANDS)) expect(decide(`metalbridge ${one}`).at, one).toBe("run");
});
