/** Envoy Gateway, Envoy AI Gateway and Envoy as images of a node, and their charts: built from Go modules, because no registry of images is asked. */
import { cpSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import path from "node:path";
import { cacheKey, imagesCache } from "../../../scripts/images/cache.ts";
import { DEBIAN_ARCHITECTURES } from "../../../scripts/images/debian-lock.ts";
import { fileEntry } from "../../../scripts/images/entries.ts";
import type { NodeImage } from "../../../scripts/images/for-tests.ts";
import { cachedLayer } from "../../../scripts/images/layer.ts";
import { packImage, writeTar } from "../../../scripts/images/layout.ts";
import { baseLayers } from "../../../scripts/images/ours.ts";
import { ensureEnvoy } from "../../../scripts/setup/envoy.mjs";
import {
  ensureAIGatewayController,
  ensureAIGatewayExtproc,
  ensureEnvoyGateway,
  findHelm,
} from "../../../scripts/setup/go-programs.mjs";
import { createProgress } from "../../../scripts/setup/steps.mjs";
import { run } from "../../bed/run.ts";

const ENVOY_GATEWAY = "github.com/envoyproxy/gateway@v1.8.1";
const AI_GATEWAY = "github.com/envoyproxy/ai-gateway@v1.0.0";
export const VERSION = "v1.0.0";
const NONROOT = "65532:65532";
const BIN = "/usr/local/bin";

/** Names of the published images. Envoy's has the version that it is. */
export const IMAGES = {
  envoyGateway: "docker.io/envoyproxy/gateway:v1.8.1",
  envoy: "docker.io/envoyproxy/envoy:distroless-v1.40.0",
  controller: "docker.io/envoyproxy/ai-gateway-controller:v1.0.0",
  extproc: "docker.io/envoyproxy/ai-gateway-extproc:v1.0.0",
};

/** A text: why they cannot be had here. */
export async function ensureGatewayImages(): Promise<readonly NodeImage[] | string> {
  const progress = createProgress();
  const programs = {
    envoyGateway: ["envoy-gateway", await ensureEnvoyGateway({ progress })],
    controller: ["app", await ensureAIGatewayController({ progress })],
    extproc: ["app", await ensureAIGatewayExtproc({ progress })],
    envoy: ["envoy", await ensureEnvoy({ progress })],
  } as const;
  const images: NodeImage[] = [];
  for (const [what, [name, program]] of Object.entries(programs)) {
    const reference = IMAGES[what as keyof typeof IMAGES];
    if (program === undefined) return `there is no program for ${reference}`;
    images.push(await imageOf(reference, name, program));
  }
  return images;
}

export async function imageOf(reference: string, name: string, program: string): Promise<NodeImage> {
  const architecture = process.arch === "arm64" ? "arm64" : "amd64";
  const key = cacheKey(DEBIAN_ARCHITECTURES, reference, program);
  const layer = await cachedLayer(
    { compression: "none", folder: path.join(imagesCache("layers"), `interop-${key}`) },
    () => [fileEntry(program, `${BIN.slice(1)}/${name}`)],
  );
  const layers = [...(await baseLayers(architecture, "none")), layer];
  const config = { User: NONROOT, Env: [`PATH=${BIN}`], Entrypoint: [`${BIN}/${name}`], WorkingDir: "/" };
  const layout = packImage({
    references: [reference],
    created: "2000-01-01T00:00:00Z",
    platforms: [{ architecture, layers, config }],
  });
  const file = path.join(imagesCache("tars"), `interop-${key}.tar`);
  mkdirSync(path.dirname(file), { recursive: true });
  await writeTar(layout, `${file}.${process.pid}`);
  renameSync(`${file}.${process.pid}`, file);
  return { reference, file };
}

/** Folders with definitions of kinds, and what the charts render, with the values that the projects' documentation gives. */
export interface Manifests {
  readonly definitions: readonly string[];
  readonly envoyGateway: string;
  readonly aiGateway: string;
}

export async function renderCharts(dir: string): Promise<Manifests> {
  const [eg, ai] = [
    await moduleFolder(ENVOY_GATEWAY),
    path.join(await moduleFolder(AI_GATEWAY), "manifests"),
  ];
  const chart = path.join(dir, "gateway-helm");
  cpSync(path.join(eg, "charts/gateway-helm"), chart, { recursive: true });
  await run("chmod", ["-R", "u+w", chart]);
  // A release of the chart has these filled in.
  const values = readFileSync(path.join(chart, "values.tmpl.yaml"), "utf8")
    .replaceAll(/\$\{GatewayImagePullPolicy\}/g, "IfNotPresent")
    .replaceAll(/\$\{GatewayImage\}/g, IMAGES.envoyGateway);
  writeFileSync(path.join(chart, "values.yaml"), values);
  const helm: string | undefined = findHelm();
  if (helm === undefined) throw new Error("there is no helm: npm run setup -- --for test");
  const ofAI = path.join(ai, "envoy-gateway-values.yaml");
  const tags = ["controller", "extProc"].flatMap((part) => ["--set", `${part}.image.tag=${VERSION}`]);
  return {
    definitions: [
      path.join(chart, "charts/crds/crds"),
      path.join(ai, "charts/ai-gateway-crds-helm/templates"),
    ],
    envoyGateway: await run(helm, [
      ...["template", "eg", chart, "-n", "envoy-gateway-system", "-f", ofAI],
      ...["--set", "topologyInjector.enabled=false"],
    ]),
    aiGateway: await run(helm, [
      ...["template", "aieg", path.join(ai, "charts/ai-gateway-helm"), "-n", "envoy-ai-gateway-system"],
      ...tags,
    ]),
  };
}

async function moduleFolder(module: string): Promise<string> {
  const found = JSON.parse(await run("go", ["mod", "download", "-json", module])) as { Dir: string };
  return found.Dir;
}
