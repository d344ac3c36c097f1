import fc from "fast-check";
import { expect, test } from "vitest";
import { MetalbridgeError } from "../../api/errors.ts";
import { defaultFormat, fileNameOf, parseSource } from "./parse.ts";
import { splitFileNames } from "./split-files.ts";

test.each([
  ["hf://org/repo", { kind: "hf", repo: "org/repo", revision: "main" }],
  ["org/repo", { kind: "hf", repo: "org/repo", revision: "main" }],
  ["hf://org/repo/sub/m.gguf@v1", { kind: "hf", repo: "org/repo", file: "sub/m.gguf", revision: "v1" }],
  ["https://h.example/a/m.gguf?x=1#y", { kind: "http", url: "https://h.example/a/m.gguf?x=1" }],
  ["HTTP://h.example:81/m.gguf", { kind: "http", url: "http://h.example:81/m.gguf" }],
  ["file:///models/my%20model.gguf", { kind: "file", path: "/models/my model.gguf" }],
  [
    "/a/Application Support/my model (Q4).gguf",
    { kind: "file", path: "/a/Application Support/my model (Q4).gguf" },
  ],
  ["hf.co/org/repo/m.gguf", { kind: "hf", repo: "org/repo", file: "m.gguf", revision: "main" }],
  ["huggingface.co/org/repo@v1", { kind: "hf", repo: "org/repo", revision: "v1" }],
  ["hf.co/repo", { kind: "hf", repo: "hf.co/repo", revision: "main" }],
  ["/models//m.gguf", { kind: "file", path: "/models/m.gguf" }],
  ["pvc://claim/a/m.gguf", { kind: "pvc", claim: "claim", path: "a/m.gguf" }],
  ["s3://bucket/a/m.gguf", { kind: "s3", bucket: "bucket", key: "a/m.gguf" }],
  ["gs://bucket/a", { kind: "gs", bucket: "bucket", key: "a" }],
  ["oss://bucket/a", { kind: "oss", bucket: "bucket", key: "a" }],
  ["modelscope://org/repo", { kind: "modelscope", repo: "org/repo", revision: "master" }],
  ["ollama://llama3:8b", { kind: "ollama", name: "llama3", tag: "8b" }],
  ["ollama://llama3", { kind: "ollama", name: "llama3", tag: "latest" }],
  ["ollama://127.0.0.1:5000/library/a:x", { kind: "ollama", name: "127.0.0.1:5000/library/a", tag: "x" }],
  ["oci://ghcr.io/org/m:v1", { kind: "oci", registry: "ghcr.io", repository: "org/m", reference: "v1" }],
  ["oci://r:5000/a", { kind: "oci", registry: "r:5000", repository: "a", reference: "latest" }],
  ["oci://docker.io/m", { kind: "oci", registry: "docker.io", repository: "library/m", reference: "latest" }],
  [
    `oci://GHCR.io/a:v1@sha256:${"0".repeat(64)}`,
    { kind: "oci", registry: "ghcr.io", repository: "a", reference: `sha256:${"0".repeat(64)}` },
  ],
])("reads %s", (text, source) => {
  expect(parseSource(text)).toEqual(source);
});

test.each(["\u007f", "\u0085", "\u009b", "\u202e", "\ufffe", "\ud83d", "\u{1ffff}", "\ufeff"])(
  "refuses a source with the character %j",
  (character) => {
    expect(() => parseSource(`hf://org/repo/a${character}.gguf`)).toThrow(/control character/);
  },
);

test.each([
  ["", /empty/],
  ["ftp://h/m.gguf", /ftp:\/\/ is not known/],
  ["https://", /not a valid URL/],
  ["https://user:secret@h/m.gguf", /user name or password/],
  ["file://relative/m.gguf", /not absolute/],
  ["/models/../etc/passwd", /'\.\.'/],
  ["file:///models/%2e%2e/etc/passwd", /'\.\.'/],
  ["file:///models/%zz", /hex digits/],
  ["/", /names no file/],
  ["model.gguf", /neither a URL/],
  ["hf://org", /organization and a repository/],
  ["hf://org/repo@", /revision/],
  ["hf://org/repo/../x", /'\.\.'/],
  ["pvc://Claim/x", /claim's name/],
  ["pvc://claim", /names no file/],
  ["s3://bucket", /names no file/],
  ["ollama://:tag", /name is not valid/],
  ["oci://ai/smollm2", /host of a registry/],
  ["oci://ghcr.io", /host of a registry/],
  ["oci://user@ghcr.io/m", /host of a registry/],
  ["oci://ghcr.io/../m", /repository is not valid/],
  ["oci://ghcr.io/Org/m", /lower case/],
  ["oci://ghcr.io/m:", /tag is not valid/],
  ["oci://ghcr.io/m@sha256:12", /64 hex digits/],
  ["oci://ghcr.io/m@sha512:12", /64 hex digits/],
  ["hf://org/re po", /space/],
  ["/models/a\tb.gguf", /control character/],
  ["org/repo:Q4_0", /quantization is not part/],
  ["hf.co/org/repo:Q4_0", /quantization is not part/],
  ["modelscope://org/repo:Q4_0", /quantization is not part/],
  [`/${"a".repeat(3000)}`, /longer than/],
])("refuses %s with a reason", (text, why) => {
  expect(() => parseSource(text)).toThrow(why);
  try {
    parseSource(text);
  } catch (error) {
    expect(error).toBeInstanceOf(MetalbridgeError);
    expect(String(error)).not.toContain("secret");
  }
});

test("any text is either a source or a refusal with a code", () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.string({ unit: "binary" }).map((tail) => `hf://${tail}`),
        fc.webUrl(),
      ),
      (text) => {
        try {
          const source = parseSource(text);
          fileNameOf(source);
          defaultFormat(source);
        } catch (error) {
          expect(error).toMatchObject({ code: "SourceInvalid" });
        }
      },
    ),
    { numRuns: 1000 },
  );
});

test.each([
  ["ollama://a:b", "ollama"],
  ["https://h/m.GGUF", "gguf"],
  ["hf://mlx-community/Qwen3-4B-4bit", "mlx"],
  ["hf://org/Qwen-GGUF", undefined],
  ["/models/x.safetensors", "safetensors"],
])("the default format of %s is %s", (text, format) => {
  expect(defaultFormat(parseSource(text))).toBe(format);
});

test("a split file stands for all its parts", () => {
  expect(splitFileNames("a/m-00002-of-00003.gguf")).toEqual(
    [1, 2, 3].map((part) => `a/m-0000${part}-of-00003.gguf`),
  );
  expect(splitFileNames("m-00009-of-00003.gguf")).toEqual(["m-00009-of-00003.gguf"]);
});
