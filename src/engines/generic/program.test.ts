import { expect, test } from "vitest";
import type { ProgramSpec } from "../../api/fields/program.ts";
import { inferenceServiceSpecSchema } from "../../api/inference-service/index.ts";
import { classifyExit, ownLines } from "./exit.ts";
import { genericClaims, programClaimBasis } from "./hosting.ts";
import { renderProgram, sumGauges, toProgram } from "./program.ts";

const MIB = 1024 ** 2;
const values = {
  model: "/m/{{port}}",
  port: "21000",
  address: "10.0.0.2",
  contextSize: "4096",
  slots: "2",
  modelName: "chat",
  draftModel: undefined,
  tensorParallelSize: "1",
  pipelineParallelSize: "1",
};

function spec(fields: Record<string, unknown>) {
  return inferenceServiceSpecSchema.parse({ modelRef: "tiny", runtime: "generic", ...fields });
}

test("a service's command, environment and probes become a program, and are rendered for one start", () => {
  const program = toProgram(
    spec({
      command: ["/opt/x/serve", "--model={{model}}"],
      args: ["--host", "{{address}}", "-c", "{{contextSize}}", "-p", "{{slots}}", "{% raw %}"],
      env: [{ name: "PORT", value: "{{port}}" }, { name: "EMPTY" }],
      probeOverrides: {
        liveness: { httpGet: { path: "/health" }, timeoutSeconds: 2 },
        readiness: { exec: { command: ["/opt/x/check", "{{port}}"] } },
      },
      resources: { memory: "1Gi" },
      inFlightProbe: { gauges: ["running"] },
      tty: true,
    }),
  );
  expect(renderProgram(program, values)).toEqual({
    command: [
      ...["/opt/x/serve", "--model=/m/{{port}}", "--host", "10.0.0.2"],
      ...["-c", "4096", "-p", "2", "{% raw %}"],
    ],
    env: [
      { name: "PORT", value: "21000" },
      { name: "EMPTY", value: "" },
    ],
    liveness: { httpPath: "/health" },
    readiness: { exec: ["/opt/x/check", "21000"] },
    memoryBytes: 1024 * MIB,
    inFlightProbe: { path: "/metrics", gauges: ["running"] },
    tty: true,
  });
});

test("without probes a TCP connection decides", () => {
  const program = toProgram(spec({ command: ["/opt/x/serve", "{{port}}"] }));
  expect(program).toEqual({ command: ["/opt/x/serve", "{{port}}"], env: [], liveness: {} });
});

test.each<[string, Record<string, unknown>, RegExp]>([
  ["no command", {}, /spec\.command is empty/],
  ["a relative program", { command: ["serve", "{{port}}"] }, /serve is not an absolute path/],
  [
    "an unknown placeholder",
    { command: ["/x", "{{port}}", "{{ctx}}"] },
    /\{\{ctx\}\} is not a placeholder; known: /,
  ],
  ["one with blanks", { command: ["/x", "{{port}}", "{{ model }}"] }, /\{\{ model \}\} is not a placeholder/],
  [
    "one in a value",
    { command: ["/x", "{{port}}"], env: [{ name: "A", value: "{{a}}" }] },
    /\{\{a\}\} is not a placeholder/,
  ],
  ["no port", { command: ["/x"] }, /neither spec\.command, spec\.args nor spec\.env holds \{\{port\}\}/],
  [
    "a value from a Secret",
    { command: ["/x", "{{port}}"], env: [{ name: "A", valueFrom: { secretKeyRef: {} } }] },
    /spec\.env\[0\]\.valueFrom is not read on hosts/,
  ],
  [
    "a variable without a name",
    { command: ["/x", "{{port}}"], env: [{ name: "A=B", value: "" }] },
    /"A=B" is not a variable's name/,
  ],
  [
    "an exec probe with a relative program",
    { command: ["/x", "{{port}}"], probeOverrides: { liveness: { exec: { command: ["curl"] } } } },
    /curl is not an absolute path/,
  ],
  [
    "an exec probe without a command",
    { command: ["/x", "{{port}}"], probeOverrides: { liveness: { exec: {} } } },
    /liveness\.exec/,
  ],
])("is refused: %s", (_, fields, says) => {
  expect(() => toProgram(spec(fields))).toThrow(says);
});

test("a placeholder without a value is refused at the start", () => {
  const program: ProgramSpec = { command: ["/x", "{{port}}", "{{contextSize}}"], env: [], liveness: {} };
  expect(() => renderProgram(program, { ...values, contextSize: undefined })).toThrow(
    "{{contextSize}} has no value",
  );
});

test("the claim is the field's, else the size of the weights plus a fifth and 256 MiB", () => {
  const summary = { weightsBytes: 1000 * MIB };
  const program: ProgramSpec = { command: ["/x", "{{port}}"], env: [], liveness: {} };
  const claim = (given: ProgramSpec) =>
    genericClaims.estimate(summary, { mode: "chat", program: given }, "metal");
  expect(claim(program)).toMatchObject({
    claimBytes: 1456 * MIB,
    weightsBytes: 1000 * MIB,
    overheadBytes: 456 * MIB,
  });
  expect(programClaimBasis({ mode: "chat", program })).toBe(
    "size of the weights on disk plus 20% and 256 MiB",
  );
  const given = { ...program, memoryBytes: 600 * MIB };
  expect(claim(given)).toMatchObject({ claimBytes: 600 * MIB, weightsBytes: 600 * MIB, overheadBytes: 0 });
  expect(programClaimBasis({ mode: "chat", program: given })).toBe("spec.resources.memory of the service");
  const shown = { ...given, tty: true };
  expect(claim(shown)).toMatchObject({ claimBytes: 664 * MIB });
  expect(programClaimBasis({ mode: "chat", program: shown })).toBe(
    "spec.resources.memory of the service, and 64 MiB for its terminal",
  );
});

test.each<[string, readonly string[], number | undefined]>([
  ["running 2\n", ["running"], 2],
  [
    '# HELP a b\nvllm:running{model="a b"} 1.0\nvllm:running{model="c"} 2.0\nwaiting 4\n',
    ["vllm:running", "waiting"],
    7,
  ],
  ["running 2\n", ["running", "waiting"], undefined],
  ["running NaN\n", ["running"], undefined],
  ["running_total 2\n", ["running"], undefined],
  ["running -1\n", ["running"], undefined],
  ["<html>", ["running"], undefined],
])("of metrics %j, %j are in flight: %s", (text, names, sum) => {
  expect(sumGauges(text, names)).toBe(sum);
});

test.each<[string, Parameters<typeof classifyExit>, string, RegExp]>([
  ["forks away", [{ code: 0 }, "started\n"], "EngineCrashed", /must stay in the foreground: started/],
  [
    "finds its port taken",
    [{ code: 1 }, "OSError: [Errno 98] Address already in use"],
    "EnginePortTaken",
    /Errno 98/,
  ],
  ["is killed", [{ signal: "SIGKILL" }, ""], "EngineKilled", /SIGKILL/],
  ["fails", [{ code: 3 }, "a\nbad flag\n"], "EngineCrashed", /exit code 3\): bad flag/],
  [
    "fails after it served",
    [{ code: 3 }, "a client's text: out of memory\n", { wasReady: true }],
    "EngineCrashed",
    /its log is on the host/,
  ],
])("an exit is explained when the program %s", (_, [exit, log, run], code, says) => {
  const reason = classifyExit(exit, log, run);
  expect(reason).toMatchObject({ code, message: expect.stringMatching(says) });
  expect(ownLines(`x\n--- metalbridge starts the engine at 1\n${log}`)).toBe(
    "--- metalbridge starts the engine at 1",
  );
});
