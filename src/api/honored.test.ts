import { expect, test } from "vitest";
import { RUNTIMES } from "./engine-settings.ts";
import { unhonoredFields } from "./honored.ts";
import { inferenceServiceSpecSchema } from "./inference-service/index.ts";

function spec(fields: Record<string, unknown>) {
  return inferenceServiceSpecSchema.parse({ modelRef: "tiny", ...fields });
}

test("defaults ask for nothing, on any path and runtime", () => {
  for (const runtime of RUNTIMES) {
    expect(unhonoredFields(spec({}), "metal", runtime)).toEqual([]);
    expect(unhonoredFields(spec({}), "linux", runtime)).toEqual([]);
  }
});

test("on Macs the fields of pods are named", () => {
  const asked = spec({
    image: "x",
    tolerations: [{ key: "gpu" }],
    autoscaling: { maxReplicas: 3 },
    nodeSelector: { a: "b" },
    endpoint: { gateway: { enabled: true } },
    slo: { objective: "99" },
    contextSize: 4096,
  });
  expect(unhonoredFields(asked, "metal", "llamacpp")).toEqual([
    "spec.autoscaling",
    "spec.endpoint.gateway",
    "spec.image",
    "spec.nodeSelector",
    "spec.slo",
    "spec.tolerations",
  ]);
});

test("empty lists and objects ask for nothing, a written false does", () => {
  expect(
    unhonoredFields(spec({ tolerations: [], podLabels: {}, skipModelInit: false }), "metal", "llamacpp"),
  ).toEqual([]);
  expect(unhonoredFields(spec({ jinja: false }), "metal", "ollama")).toEqual(["spec.jinja"]);
});

test("each runtime honours its own settings", () => {
  const asked = spec({ turboQuantBits: 8, jinja: true, parallelSlots: 2 });
  expect(unhonoredFields(asked, "metal", "llamacpp")).toEqual(["spec.turboQuantBits"]);
  expect(unhonoredFields(asked, "metal", "omlx")).toEqual(["spec.jinja"]);
  expect(unhonoredFields(asked, "metal", "ollama")).toEqual(["spec.jinja", "spec.turboQuantBits"]);
});

test("a generic engine takes its command on a Mac, but not its image", () => {
  const asked = spec({
    runtime: "generic",
    command: ["mlx_lm.server"],
    env: [{ name: "A", value: "b" }],
    image: "x",
  });
  expect(unhonoredFields(asked, "metal", "generic")).toEqual(["spec.image"]);
});

test("a runtime without an engine on hosts honours no engine setting there", () => {
  expect(unhonoredFields(spec({ contextSize: 4096 }), "metal", "vllm")).toEqual(["spec.contextSize"]);
});

test("of probes, a Mac takes periods, timeouts and thresholds, and says what it leaves", () => {
  const asked = spec({
    probeOverrides: {
      startup: { periodSeconds: 5, failureThreshold: 60, httpGet: { path: "/ready" } },
      readiness: { periodSeconds: 1 },
    },
  });
  expect(unhonoredFields(asked, "metal", "llamacpp")).toEqual([
    "spec.probeOverrides.readiness.periodSeconds",
    "spec.probeOverrides.startup.httpGet",
  ]);
  expect(unhonoredFields(asked, "linux", "llamacpp")).toEqual([]);
});

test("on Linux the choice of hosts is named", () => {
  expect(unhonoredFields(spec({ placement: { hosts: ["mac-1"] } }), "linux", "vllm")).toEqual([
    "spec.placement",
  ]);
  expect(unhonoredFields(spec({ image: "x", tolerations: [{ key: "a" }] }), "linux", "vllm")).toEqual([]);
});
