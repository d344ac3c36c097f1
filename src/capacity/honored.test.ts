import { expect, test } from "vitest";
import { RUNTIMES } from "../api/fields/runtimes.ts";
import { inferenceServiceSpecSchema } from "../api/inference-service/index.ts";
import { unhonoredFields } from "./honored.ts";

function spec(fields: Record<string, unknown>) {
  return inferenceServiceSpecSchema.parse({ modelRef: "tiny", ...fields });
}

test("defaults ask for nothing, on any path and runtime", () => {
  for (const runtime of RUNTIMES) {
    expect(unhonoredFields(spec({}), "Hosts", runtime)).toEqual([]);
    expect(unhonoredFields(spec({}), "Pods", runtime)).toEqual([]);
  }
});

test("on hosts the fields of pods are named", () => {
  const asked = spec({
    image: "x",
    tolerations: [{ key: "gpu" }],
    autoscaling: { maxReplicas: 3 },
    nodeSelector: { a: "b" },
    slo: { objective: "99" },
    contextSize: 4096,
  });
  expect(unhonoredFields(asked, "Hosts", "llamacpp")).toEqual([
    "spec.image",
    "spec.nodeSelector",
    "spec.tolerations",
  ]);
});

test("a model name with a colon, which SGLang reads as that of an adapter, is named", () => {
  const named = spec({ endpoint: { modelNames: [{ name: "gpt-4o" }, { name: "llama3.2:1b" }] } });
  expect(unhonoredFields(named, "Pods", "sglang")).toEqual(["spec.endpoint.modelNames llama3.2:1b"]);
  expect(unhonoredFields(named, "Pods", "vllm")).toEqual([]);
});

test("hostLostSeconds does not apply to pods", () => {
  const unhonored = (fields: Record<string, unknown>) => unhonoredFields(spec(fields), "Pods", "llamacpp");
  expect(unhonored({ hostLostSeconds: 60 })).toEqual(["spec.hostLostSeconds"]);
  expect(unhonored({ hostLostSeconds: 300 })).toEqual([]);
  expect(unhonored({ hostLostSeconds: 60, placement: { on: "Auto" } })).toEqual([]);
});

test("empty lists and objects ask for nothing, a written false does", () => {
  expect(
    unhonoredFields(spec({ tolerations: [], podLabels: {}, skipModelInit: false }), "Hosts", "llamacpp"),
  ).toEqual([]);
  expect(unhonoredFields(spec({ jinja: false }), "Hosts", "ollama")).toEqual(["spec.jinja"]);
});

test("each runtime honors its own settings", () => {
  const asked = spec({ turboQuantBits: 8, jinja: true, parallelSlots: 2 });
  expect(unhonoredFields(asked, "Hosts", "llamacpp")).toEqual(["spec.turboQuantBits"]);
  expect(unhonoredFields(asked, "Hosts", "omlx")).toEqual(["spec.jinja"]);
  expect(unhonoredFields(asked, "Hosts", "ollama")).toEqual(["spec.jinja", "spec.turboQuantBits"]);
});

test("a generic engine takes its command on a host, but not its image", () => {
  const asked = spec({
    runtime: "generic",
    command: ["mlx_lm.server"],
    env: [{ name: "A", value: "b" }],
    image: "x",
  });
  expect(unhonoredFields(asked, "Hosts", "generic")).toEqual(["spec.image"]);
  const limited = spec({ runtime: "generic", resources: { memory: "1Gi", limits: { memory: "2Gi" } } });
  expect(unhonoredFields(limited, "Hosts", "generic")).toEqual(["spec.resources.limits"]);
  expect(unhonoredFields(limited, "Hosts", "llamacpp")).toEqual(["spec.resources"]);
  expect(unhonoredFields(limited, "Pods", "generic")).toEqual([]);
});

test("of the fields that a generic engine reads, the parts that mean nothing on a host are named", () => {
  const asked = spec({
    runtime: "generic",
    command: ["/opt/x/serve", "--port", "{{port}}", "--parallel", "{{slots}}"],
    contextSize: 4096,
    parallelSlots: 2,
    jinja: true,
    resources: { memory: "4Gi", cpu: 2 },
    tty: true,
    inFlightProbe: { gauges: ["running"] },
    probeOverrides: {
      liveness: { httpGet: { path: "/live", port: 8080 }, timeoutSeconds: 3 },
      readiness: { exec: { command: ["/opt/x/check"] }, grpc: { port: 1 } },
    },
  });
  expect(unhonoredFields(asked, "Hosts", "generic")).toEqual([
    "spec.contextSize",
    "spec.jinja",
    "spec.probeOverrides.liveness.httpGet.port (the port that the program was given is used)",
    "spec.probeOverrides.readiness.grpc",
    "spec.resources.cpu",
  ]);
  const foreign = spec({ inFlightProbe: { gauges: ["running"] }, tty: true });
  expect(unhonoredFields(foreign, "Hosts", "llamacpp")).toEqual(["spec.inFlightProbe", "spec.tty"]);
});

test("a runtime without an engine on hosts honors no engine setting there", () => {
  expect(unhonoredFields(spec({ contextSize: 4096 }), "Hosts", "vllm")).toEqual(["spec.contextSize"]);
});

test("of probes, a host honors periods, timeouts and thresholds, and the others are named", () => {
  const asked = spec({
    probeOverrides: {
      startup: { periodSeconds: 5, failureThreshold: 60, httpGet: { path: "/ready" } },
      readiness: { periodSeconds: 1 },
    },
  });
  expect(unhonoredFields(asked, "Hosts", "llamacpp")).toEqual([
    "spec.probeOverrides.readiness.periodSeconds",
    "spec.probeOverrides.startup.httpGet",
  ]);
  expect(unhonoredFields(asked, "Pods", "llamacpp")).toEqual([]);
});

test.each([
  [
    { startup: { failureThreshold: 0 } },
    "startup.failureThreshold (0 is not a whole number above 0; the time that the weights allow is used)",
  ],
  [
    { startup: { periodSeconds: "60", failureThreshold: 20 } },
    'startup.periodSeconds ("60" is not a whole number above 0; 10 is used)',
  ],
  [
    { startup: { periodSeconds: 5, failureThreshold: -1 } },
    "startup.failureThreshold (-1 is not a whole number above 0; 3 is used)",
  ],
  [
    { startup: { periodSeconds: 3_600, failureThreshold: 48 } },
    "startup (periodSeconds × failureThreshold is more than 86400, which is used)",
  ],
  [
    { liveness: { timeoutSeconds: 1.5 } },
    "liveness.timeoutSeconds (1.5 is not a whole number above 0; 5 is used)",
  ],
  [{ liveness: { timeoutSeconds: 900 } }, "liveness.timeoutSeconds (900 is more than 600, which is used)"],
  [
    { liveness: { failureThreshold: 200 } },
    "liveness.failureThreshold (200 is more than 100, which is used)",
  ],
])("a probe setting that cannot be used as it is written is named with what is used: %j", (asked, named) => {
  const probes = spec({ probeOverrides: asked });
  expect(unhonoredFields(probes, "Hosts", "llamacpp")).toEqual([`spec.probeOverrides.${named}`]);
  expect(unhonoredFields(probes, "Pods", "llamacpp")).toEqual([]);
});

test("usable probe settings, and those that are null, are not named", () => {
  const startup = { periodSeconds: 60, failureThreshold: null };
  expect(unhonoredFields(spec({ probeOverrides: { startup } }), "Hosts", "llamacpp")).toEqual([]);
});

test.each<[string, readonly string[]]>([
  ["Sealed", ["spec.endpoint.transport"]],
  ["Direct", []],
])("on Linux the transport %s names %j", (transport, named) => {
  expect(unhonoredFields(spec({ endpoint: { transport } }), "Pods", "vllm")).toEqual(named);
});

test("on Linux the choice of hosts is named", () => {
  expect(unhonoredFields(spec({ placement: { hosts: ["mac-1"] } }), "Pods", "vllm")).toEqual([
    "spec.placement",
  ]);
  expect(unhonoredFields(spec({ image: "x", tolerations: [{ key: "a" }] }), "Pods", "vllm")).toEqual([]);
});

test("on Linux the fields that no version has in pods are named", () => {
  const asked = spec({ slo: { objective: "99" }, modelRevision: "main" });
  expect(unhonoredFields(asked, "Pods", "vllm")).toEqual(["spec.modelRevision"]);
});

test.for([
  [["--image-max-tokens", "4096"], "--image-max-tokens"],
  [["--image-min-tokens=1024"], "--image-min-tokens"],
] as const)(
  "extraArgs %j are used, and named, because the memory claim does not count them",
  ([extraArgs, flag]) => {
    expect(unhonoredFields(spec({ extraArgs, contextSize: 4096 }), "Hosts", "llamacpp")).toEqual([
      `spec.extraArgs ${flag} (used, but not in the memory claim)`,
    ]);
  },
);
