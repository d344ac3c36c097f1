/** Pods with the metrics of vLLM, as recorded, and others that cannot be read. */
import { expect, onTestFinished, test, vi } from "vitest";
import {
  ANNOTATION_IN_FLIGHT,
  IN_FLIGHT_NEEDS_KEY,
  LABEL_SERVICE,
  PORT_NAME,
} from "../../../src/api/group.ts";
import type { Pod } from "../../../src/kube/workload-objects.ts";
import type { Clock } from "../../../src/util/ports.ts";
import { serveHttp } from "../../../test/bed/http-server.ts";
import { startPodLoads } from "./pod-loads.ts";

/** Long, because the machine may be busy. */
const WAIT = { timeout: 60_000, interval: 10 };

const VLLM = "/metrics vllm:num_requests_running,vllm:num_requests_waiting";

function podAt(port: number, name: string, probe: string, isReady = true): Pod {
  return {
    metadata: {
      name,
      namespace: "a",
      uid: name,
      labels: { [LABEL_SERVICE]: "chat" },
      annotations: { [ANNOTATION_IN_FLIGHT]: probe },
    },
    spec: { containers: [{ name: "engine", image: "i", ports: [{ name: PORT_NAME, containerPort: port }] }] },
    status: { podIP: "127.0.0.1", conditions: [{ type: "Ready", status: isReady ? "True" : "False" }] },
  } as Pod;
}

test("pods of vLLM are read every 30 seconds, and those that are not ready, need a key or do not answer have no load", async () => {
  let tokens = 1_000;
  const paths: string[] = [];
  await using engine = await serveHttp(({ url = "" }, response) => {
    paths.push(url);
    if (url !== "/metrics") response.statusCode = 500;
    response.end(`# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="chat"} 2.0
vllm:num_requests_waiting{engine="0",model_name="chat"} 1.0
vllm:generation_tokens_total{engine="0",model_name="chat"} ${tokens}
vllm:time_to_first_token_seconds_bucket{engine="0",le="0.5",model_name="chat"} ${tokens / 100}
vllm:time_to_first_token_seconds_count{engine="0",model_name="chat"} ${tokens / 100}
vllm:time_to_first_token_seconds_sum{engine="0",model_name="chat"} ${tokens / 200}
`);
  });
  const { port } = engine;
  const pods = [
    podAt(port, "serving", VLLM),
    podAt(port, "starting", VLLM, false),
    podAt(port, "failing", VLLM.replace("/metrics", "/failing")),
    podAt(Math.floor(port / 10), "other port", `${port % 10}/other vllm:num_requests_running`),
    podAt(port, "locked", `${VLLM.replace("/metrics", "/locked")} ${IN_FLIGHT_NEEDS_KEY}`),
  ];
  let now = 0;
  let alarm: (() => void) | undefined;
  const after: Clock["after"] = (_, fire) => {
    alarm = fire;
    return () => {
      alarm = undefined;
    };
  };
  const clock: Clock = { nowMs: () => 0, monotonicMs: () => now, after };
  const end = new AbortController();
  const read = vi.fn();
  const loads = startPodLoads({ pods: () => pods, clock, signal: end.signal, onRead: read });
  expect(loads.of(pods)).toBeUndefined();
  await vi.waitFor(() => expect(alarm).toBeDefined(), WAIT);
  tokens = 1_600;
  now = 30_000;
  alarm?.();
  await vi.waitFor(() => expect(read).toHaveBeenCalledWith(["a/chat"]), WAIT);
  expect(loads.of(pods)).toEqual([
    {
      pod: pods[0],
      runtime: "vllm",
      performance: { tokensPerSecond: 20, timeToFirstTokenSeconds: 0.5, requestsInFlight: 3 },
    },
  ]);
  expect(paths.sort()).toEqual(["/failing", "/failing", "/metrics", "/metrics"]);
  end.abort();
  expect(alarm).toBeUndefined();
});

test("pods that do not answer keep no other pod from being read, in rounds every 30 seconds", async () => {
  // One more connection than are open at a time.
  let asked = 0;
  await using silent = await serveHttp(() => {
    asked += 1;
  });
  await using engine = await serveHttp((_, response) => response.end("vllm:num_requests_running 3\n"));
  const pods = Array.from({ length: 16 }, (_, index) => podAt(silent.port, `silent-${index}`, VLLM));
  const last = podAt(engine.port, "last", "/metrics vllm:num_requests_running");
  let now = 0;
  let alarm: { readonly ms: number; readonly fire: () => void } | undefined;
  const after: Clock["after"] = (ms, fire) => {
    alarm = { ms, fire };
    return () => {};
  };
  let end = new AbortController();
  const timeout = vi.spyOn(AbortSignal, "timeout").mockImplementation(() => end.signal);
  onTestFinished(() => timeout.mockRestore());
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const clock: Clock = { nowMs: () => 0, monotonicMs: () => now, after };
  const loads = startPodLoads({ pods: () => [...pods, last], clock, signal: stop.signal, onRead: () => {} });
  for (let round = 1; round <= 3; round += 1) {
    await vi.waitFor(() => expect(asked).toBe(16 * round), WAIT);
    now += 20_000;
    end.abort();
    await vi.waitFor(() => expect(alarm?.ms).toBe(10_000), WAIT);
    now += 10_000;
    end = new AbortController();
    const { fire } = alarm ?? {};
    alarm = undefined;
    fire?.();
  }
  expect(loads.of([last])?.[0]?.performance).toEqual({ requestsInFlight: 3 });
});
