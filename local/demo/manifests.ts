/** The manifests of examples/quickstart, with the source that this run uses. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";
import type { ZodType } from "zod";
import { type InferenceService, inferenceServiceSchema } from "../../src/api/inference-service/index.ts";
import { type Model, modelSchema } from "../../src/api/model.ts";
import { packageRoot } from "../package-root.ts";
import type { DemoEngine } from "./engine.ts";

export const DEMO_NAMESPACE = "default";

export interface DemoManifests {
  readonly model: Model;
  readonly service: InferenceService;
}

export async function readDemoManifests(source: string, runtime: DemoEngine): Promise<DemoManifests> {
  const folder = join(packageRoot(), "examples", "quickstart");
  const [model, service] = await Promise.all([
    readFile(join(folder, "model.yaml"), "utf8"),
    readFile(join(folder, "inferenceservice.yaml"), "utf8"),
  ]);
  return {
    model: withSource(checked(modelSchema, parse(model)), source),
    service: checked(inferenceServiceSchema, withRuntime(parse(service), runtime)),
  };
}

/** The manifest as written: defaults are left to the API server, as for any user. */
function checked<T extends Model | InferenceService>(schema: ZodType, manifest: T): T {
  schema.parse(manifest);
  return { ...manifest, metadata: { ...manifest.metadata, namespace: DEMO_NAMESPACE } };
}

/** The example leaves it to the format of the model, whose runtime is llamacpp. */
function withRuntime(service: InferenceService, runtime: DemoEngine): InferenceService {
  return runtime === "llamacpp" ? service : { ...service, spec: { ...service.spec, runtime } };
}

function withSource(model: Model, source: string): Model {
  return { ...model, spec: { ...model.spec, source } };
}
