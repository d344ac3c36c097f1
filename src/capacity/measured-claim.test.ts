import fc from "fast-check";
import { expect, test } from "vitest";
import { hostSchema } from "../api/host.ts";
import { type InferenceService, inferenceServiceSpecSchema } from "../api/inference-service/index.ts";
import type { Model } from "../api/model.ts";
import { estimateClaim } from "../engines/llamacpp/claim/claim.ts";
import { claimWith, memoryOn } from "./claim.ts";
import { demandOf } from "./demand.ts";
import { hostFacts } from "./placement/host-facts.ts";
import { needBytes } from "./placement/types.ts";
import { resolveService } from "./resolve.ts";
import { GGUF, readyModel } from "./testing/models.ts";

const GIB = 1024 ** 3;
function resolve(of: Model, draftModel: Model | undefined) {
  const draft = { speculativeDecoding: { type: "draft", draftModelRef: "draft" } };
  const service = {
    metadata: { name: "chat", namespace: "default", uid: "u1" },
    spec: inferenceServiceSpecSchema.parse({ modelRef: "tiny", ...(draftModel === undefined ? {} : draft) }),
  } as InferenceService;
  const resolution = resolveService({ service, model: of, replicas: [], draftModel });
  if (resolution.at !== "resolved" || resolution.claim.at !== "estimated")
    throw new Error(JSON.stringify(resolution));
  return { service, template: resolution.template, claim: resolution.claim };
}

test("a host's measured compute buffers decide what is claimed there, as its agent calculates it", () => {
  const of = readyModel({}, { weightsBytes: GIB, gguf: GGUF });
  const draftModel = readyModel({}, { weightsBytes: GIB / 8, sizeBytes: GIB / 8, gguf: GGUF }, "draft");
  fc.assert(
    fc.property(
      fc.double({ min: 0.1, max: 10, noNaN: true }),
      fc.integer({ min: 0, max: 2 ** 34 }),
      fc.boolean(),
      (factor, extraBytes, hasDraft) => {
        const { service, template, claim } = resolve(of, hasDraft ? draftModel : undefined);
        const compute = { factor, extraBytes };
        const host = hostSchema.parse({
          metadata: { name: "mac-1" },
          status: { info: { os: "darwin" }, memory: { totalBytes: 64 * GIB, compute } },
        });
        const draft = hasDraft ? { ...GGUF, weightsBytes: GIB / 8 } : undefined;
        const byAgent = estimateClaim(
          { ...GGUF, weightsBytes: GIB },
          { ...template.engine, draft },
          { ...compute, source: "measured", inputCopies: 0, isMeasured: true },
        );
        const memory = memoryOn(claim, host);
        const { claimBytes, ...parts } = memory;
        expect(Math.abs(claimBytes - byAgent.claimBytes)).toBeLessThan(16);
        expect(claimBytes).toBeGreaterThanOrEqual(byAgent.claimBytes);
        expect(parts.computeBytes).toBe(byAgent.computeBytes);
        expect(Math.abs(parts.draftBytes - byAgent.draftBytes)).toBeLessThan(4);
        const place = {
          service: "default/chat",
          ordinal: 0,
          mayPreempt: false,
          predecessors: [],
          refusals: [],
        };
        const demand = demandOf({ ...place, service, model: of, template, claim });
        expect(needBytes(demand, hostFacts(host))).toBe(claimBytes);
        const estimate = claimWith({
          template,
          model: of,
          draftModel: hasDraft ? draftModel : undefined,
          replicas: [],
        });
        expect(estimate({}, { accelerator: "metal", compute })).toBe(claimBytes);
      },
    ),
    { numRuns: 30 },
  );
});

test("a change of the settings is laid out once, however many hosts with measurements of their own are asked about", () => {
  const of = readyModel({}, { weightsBytes: GIB, gguf: GGUF });
  const { template } = resolve(of, undefined);
  let reads = 0;
  const counted: Model = {
    ...of,
    get status() {
      reads += 1;
      return of.status;
    },
  };
  const claims = claimWith({ template, model: counted, draftModel: undefined, replicas: [] });
  const askAll = () =>
    [0, 1, 2, 3].map((extraBytes) => claims({ contextSize: 4096 }, { compute: { factor: 2, extraBytes } }));
  const [first = 0, ...others] = askAll();
  const once = reads;
  expect(others).toEqual([first + 1, first + 2, first + 3]);
  expect(claims({ contextSize: 2048 })).toBeLessThan(first);
  expect(reads).toBe(2 * once);
  askAll();
  expect(reads).toBe(2 * once);
});

test("the status of a Host holds a factor from 0.1 to 10 and up to 1 TiB more, and nothing else", () => {
  const factors = fc.oneof(
    fc.double({ min: 0, max: 11 }),
    fc.double(),
    fc.constantFrom(0.1, 10, 0.1 - Number.EPSILON, 10 + 2 * Number.EPSILON * 10),
  );
  const extras = fc.oneof(
    fc.integer({ min: -2, max: 2 }),
    fc.integer({ min: -2, max: 2 }).map((more) => 2 ** 40 + more),
    fc.maxSafeInteger(),
    fc.double(),
  );
  fc.assert(
    fc.property(factors, extras, (factor, extraBytes) => {
      const compute = { factor, extraBytes };
      const parsed = hostSchema.safeParse({ metadata: { name: "mac-1" }, status: { memory: { compute } } });
      const isExtra = Number.isInteger(extraBytes) && extraBytes >= 0 && extraBytes <= 2 ** 40;
      expect(parsed.success).toBe(factor >= 0.1 && factor <= 10 && isExtra);
    }),
    { numRuns: 500 },
  );
});
