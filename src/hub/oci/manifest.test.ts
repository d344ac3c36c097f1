/** Files of each layout of model artifacts, and artifacts that are refused. */
import { expect, test } from "vitest";
import {
  chooseManifest,
  filesOfArtifact,
  filesOfOllama,
  type OciDescriptor,
  parseOciManifest,
} from "./manifest.ts";

const digest = (letter: string) => `sha256:${letter.repeat(64)}`;
const TITLE = "org.opencontainers.image.title";
const FILEPATH = "org.cncf.model.filepath";

function layer(mediaType: string, annotations?: Record<string, string>, letter = "a"): OciDescriptor {
  return { mediaType, digest: digest(letter), size: 7, annotations: annotations ? annotations : undefined };
}

const oras = (name: string, letter = "a") =>
  layer("application/vnd.oci.image.layer.v1.tar", { [TITLE]: name }, letter);
const pack = (type: string, name: string, letter = "a") =>
  layer(`application/vnd.cncf.model.${type}`, { [FILEPATH]: name }, letter);
const docker = (type: string, letter = "a") => layer(`application/vnd.docker.ai.${type}`, undefined, letter);
const ollama = (type: string, letter = "a") =>
  layer(`application/vnd.ollama.image.${type}`, undefined, letter);
const archive = layer("application/vnd.oci.image.layer.v1.tar+gzip");

test.each<[string, OciDescriptor[], string[], string?]>([
  ["ORAS", [oras("m.gguf"), oras("README.md", "b")], ["m.gguf", "README.md"]],
  [
    "ModelPack",
    [
      pack("weight.v1.raw", "model.safetensors"),
      pack("weight.config.v1.raw", "config.json", "b"),
      pack("doc.v1.tar", "README.md", "c"),
    ],
    ["model.safetensors", "config.json"],
  ],
  ["ModelPack with an archive beside its GGUF", [pack("weight.v1.raw", "m.gguf"), archive], ["m.gguf"]],
  [
    "Docker",
    [docker("gguf.v3"), docker("mmproj", "b"), docker("license", "c")],
    ["model.gguf", "mmproj.gguf"],
    "mmproj.gguf",
  ],
  [
    "Docker in parts",
    [docker("gguf.v3"), docker("gguf.v3", "b")],
    ["model-00001-of-00002.gguf", "model-00002-of-00002.gguf"],
  ],
  ["one layer twice", [oras("m.gguf"), oras("m.gguf")], ["m.gguf"]],
])("the files of %s are read", (_, layers, names, projector) => {
  const list = filesOfArtifact(layers, "oci://r/m:v1");
  expect(list.files.map(({ name }) => name)).toEqual(names);
  expect(list.files[0]).toMatchObject({ sizeBytes: 7, sha256: "a".repeat(64) });
  expect(list.projector).toBe(projector);
});

test.each<[string, OciDescriptor[], string, RegExp]>([
  ["a container image", [archive], "SourceNotSupported", /layer that is an archive .*tar\+gzip/],
  [
    "a folder that ORAS packed",
    [layer("application/octet-stream", { [TITLE]: "m", "io.deis.oras.content.unpack": "true" })],
    "SourceNotSupported",
    /archive/,
  ],
  [
    "weights in a tar",
    [pack("weight.v1.tar", "m.safetensors")],
    "SourceNotSupported",
    /archive .*weight\.v1\.tar/,
  ],
  [
    "a tar with what the weights need",
    [oras("m.safetensors"), docker("vllm.config.tar", "b")],
    "SourceNotSupported",
    /archive/,
  ],
  ["a layer without a title", [layer("application/octet-stream")], "SourceNotSupported", /has no name/],
  [
    "two layers of one name",
    [oras("m.gguf"), oras("m.gguf", "b")],
    "SourceRefused",
    /two layers named m\.gguf/,
  ],
  [
    "another digest",
    [{ ...oras("m.gguf"), digest: `sha512:${"a".repeat(128)}` }],
    "SourceRefused",
    /not a sha256/,
  ],
])("%s is refused", (_, layers, code, message) => {
  expect(() => filesOfArtifact(layers, "oci://r/m:v1")).toThrow(
    expect.objectContaining({ code, message: expect.stringMatching(message) }),
  );
});

test("an Ollama model is read as a GGUF and an optional projector; other layers are ignored", () => {
  const more = [ollama("template", "c"), ollama("params", "d"), ollama("license", "e")];
  expect(filesOfOllama([ollama("model"), ...more], "x").files).toEqual([
    { name: "model.gguf", sizeBytes: 7, sha256: "a".repeat(64) },
  ]);
  const vision = filesOfOllama([ollama("model"), ollama("projector", "b")], "x");
  expect(vision.files.map(({ name }) => name)).toEqual(["model.gguf", "projector.gguf"]);
  expect(vision.projector).toBe("projector.gguf");
});

test.each<[string, OciDescriptor[], string, RegExp]>([
  ["an adapter", [ollama("model"), ollama("adapter", "b")], "SourceNotSupported", /LoRA adapter/],
  ["several layers of weights", [ollama("model"), ollama("model", "b")], "SourceNotSupported", /2 layers/],
  [
    "several projectors",
    [ollama("model"), ollama("projector"), ollama("projector", "b")],
    "SourceNotSupported",
    /2 projectors/,
  ],
  ["tensors", [ollama("tensor"), ollama("tensor", "b")], "SourceNotSupported", /single tensors/],
  ["a cloud model", [ollama("template")], "SourceIsNotAModel", /no weights/],
])("an Ollama model with %s is refused", (_, layers, code, message) => {
  expect(() => filesOfOllama(layers, "ollama://m:latest")).toThrow(
    expect.objectContaining({ code, message: expect.stringMatching(message) }),
  );
});

test.each<[string, unknown, RegExp]>([
  ["text", "<html>", /not a manifest/],
  ["no layers", { schemaVersion: 1, fsLayers: [] }, /not a manifest/],
  ["a digest that is none", { layers: [{ digest: 7, size: 1 }] }, /not a manifest/],
  ["10,000 layers", { layers: Array(10_000).fill(oras("m.gguf")) }, /10000 layers; the limit is 1024/],
])("a manifest of %s is refused", (_, content, message) => {
  const text = typeof content === "string" ? content : JSON.stringify(content);
  expect(() => parseOciManifest(text, "oci://r/m:v1")).toThrow(
    expect.objectContaining({ code: "SourceRefused", message: expect.stringMatching(message) }),
  );
});

test("an index provides the manifest of the model, or the reason why it has none", () => {
  const one = layer("application/vnd.oci.image.manifest.v1+json");
  const attestation = { ...one, digest: digest("b"), platform: { os: "unknown" } };
  const linux = { ...one, digest: digest("c"), platform: { os: "linux" } };
  const model = { ...one, digest: digest("d"), artifactType: "application/vnd.cncf.model.manifest.v1+json" };
  expect(chooseManifest([one, attestation], "x")).toBe(one);
  expect(chooseManifest([one, linux, model], "x")).toBe(model);
  expect(() => chooseManifest([attestation], "x")).toThrow(/no manifest of a model/);
  expect(() => chooseManifest([], "x")).toThrow(/no manifest of a model/);
  expect(() => chooseManifest([one, linux], "x")).toThrow(/has 2 manifests \(sha256:a/);
});
