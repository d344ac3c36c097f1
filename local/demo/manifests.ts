/** The manifests of examples/quickstart, with the model source of this run. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";
import type { ZodType } from "zod";
import { type InferenceService, inferenceServiceSchema } from "../../src/api/inference-service/index.ts";
import { type Model, modelSchema } from "../../src/api/model.ts";
import { packageRoot } from "../package-root.ts";
import type { DemoEngine } from "./engine.ts";

const DEMO_NAMESPACE = "default";

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
  const checkedModel = checked(modelSchema, parse(model) as Model);
  return {
    model: { ...checkedModel, spec: { ...checkedModel.spec, source } },
    service: checked(inferenceServiceSchema, withRuntime(parse(service), runtime)),
  };
}

/** Returns the manifest without defaults, which the API server sets. */
function checked<T extends Model | InferenceService>(schema: ZodType, manifest: T): T {
  schema.parse(manifest);
  return { ...manifest, metadata: { ...manifest.metadata, namespace: DEMO_NAMESPACE } };
}

/** The example sets no runtime, so the format of its model selects llamacpp. */
function withRuntime(service: InferenceService, runtime: DemoEngine): InferenceService {
  return runtime === "llamacpp" ? service : { ...service, spec: { ...service.spec, runtime } };
}
