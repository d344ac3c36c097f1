import { expect, test } from "vitest";
import { type FileSelector, selectFiles } from "./select.ts";

const shown = "org/repo at main";

test("selects the only model of a repository, without its projector", () => {
  const available = ["README.md", "m.gguf", "mmproj-m.gguf"];
  expect(selectFiles({ shown, available }, {})).toEqual({
    format: "gguf",
    files: ["m.gguf"],
    entry: "m.gguf",
    isChosen: false,
  });
});

test("several models are a question that the quantization answers", () => {
  const available = ["m-Q4_K_M.gguf", "m-Q8_0.gguf"];
  expect(() => selectFiles({ shown, available }, {})).toThrow(/m-Q4_K_M.gguf, m-Q8_0.gguf/);
  expect(() => selectFiles({ shown, available }, { quantization: "Q6_K" })).toThrow(/none is named Q6_K/);
  expect(selectFiles({ shown, available }, { quantization: "q8_0" })).toMatchObject({
    files: ["m-Q8_0.gguf"],
    isChosen: true,
  });
});

test("a quantization that chooses nothing is no obstacle where files are named, and is not what chose them", () => {
  const available = ["m-Q4_K_M.gguf", "m-Q8_0.gguf"];
  const wish = { quantization: "Q4_K_M" };
  const named = selectFiles({ shown, available, named: "m-Q8_0.gguf" }, wish);
  expect(named).toMatchObject({ files: ["m-Q8_0.gguf"], isChosen: false });
  expect(selectFiles({ shown, available: ["m-Q4_K_M.gguf"] }, wish).isChosen).toBe(false);
});

test("all parts of a split model belong to it, and one that is missing is named", () => {
  const available = ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"];
  expect(selectFiles({ shown, available }, {}).files).toEqual(available);
  expect(selectFiles({ shown, available }, { files: [available[1] ?? ""] }).files).toEqual(available);
  expect(() => selectFiles({ shown, available: available.slice(0, 1) }, {})).toThrow(/has no file m-00002/);
});

test.each([
  [["*Q4_K_M*"], ["q/m-Q4_K_M-00001-of-00002.gguf", "q/m-Q4_K_M-00002-of-00002.gguf"]],
  [
    ["q/*Q4*-00001-of-0000?.gguf", "*.jinja"],
    ["q/m-Q4_K_M-00001-of-00002.gguf", "q/m-Q4_K_M-00002-of-00002.gguf", "chat.jinja"],
  ],
  [["m-Q8_0.g?uf"], ["m-Q8_0.gguf"]],
  [["a*b*c.bin"], ["axxbxbxc.bin"]],
])("the pattern %j stands for files of one model", (files, expected) => {
  const shards = expected.filter((name) => name.startsWith("q/"));
  const available = ["README.md", "m-Q8_0.gguf", "mmproj-m.gguf", "chat.jinja", "axxbxbxc.bin", ...shards];
  expect(selectFiles({ shown, available }, { files }).files).toEqual(expected);
});

test("a pattern that matches nothing, several models, or has no list to look in is refused", () => {
  const available = ["m-Q4_K_M.gguf", "m-Q8_0.gguf"];
  const refusal = (files: string[], at: { available?: string[] } = { available }) => {
    try {
      return selectFiles({ shown, ...at }, { files });
    } catch (error) {
      return error;
    }
  };
  expect(refusal(["*.safetensors"])).toMatchObject({
    code: "SourceNotFound",
    message: expect.stringMatching(/matches/),
  });
  expect(refusal(["*.gguf"])).toMatchObject({ code: "SourceAmbiguous" });
  expect(refusal(["*.gguf"], {})).toMatchObject({
    code: "SourceNotFound",
    message: expect.stringMatching(/no list/),
  });
  expect(selectFiles({ shown, available }, { files: ["*.gguf"], quantization: "Q8_0" }).files).toEqual([
    "m-Q8_0.gguf",
  ]);
});

const REPOSITORY = [
  "README.md",
  "config.json",
  "model.safetensors",
  "onnx/model.onnx",
  "original/consolidated.00.pth",
  "tokenizer.json",
];

test.each<[title: string, selector: FileSelector, expected: readonly string[]]>([
  [
    "nothing else is named",
    { ignorePatterns: ["*.pth", "*.onnx"] },
    ["config.json", "model.safetensors", "tokenizer.json"],
  ],
  [
    "a pattern ends with a slash",
    { ignorePatterns: ["original/", "on?x/*", "t*"] },
    ["config.json", "model.safetensors"],
  ],
  [
    "files selects some, of which a pattern excludes one",
    { files: ["*.json", "model.*"], ignorePatterns: ["tok*"] },
    ["config.json", "model.safetensors"],
  ],
  ["no file matches", { files: ["config.json"], ignorePatterns: ["*.bin"] }, ["config.json"]],
])("ignorePatterns exclude files: %s", (_, selector, expected) => {
  expect(selectFiles({ shown, available: REPOSITORY }, selector).files).toEqual(expected);
});

test("ignorePatterns exclude models that would make the choice ambiguous, or another format", () => {
  const available = ["m-Q4_K_M.gguf", "m-Q8_0.gguf", "model.safetensors"];
  const only = { files: ["m-Q8_0.gguf"], format: "gguf", isChosen: false };
  expect(selectFiles({ shown, available }, { ignorePatterns: ["*Q4*"] })).toMatchObject(only);
  const weights = { files: ["model.safetensors"], format: "safetensors" };
  expect(selectFiles({ shown, available }, { ignorePatterns: ["*.gguf"] })).toMatchObject(weights);
});

test.each<
  [title: string, at: { available?: string[]; named?: string }, selector: FileSelector, says: RegExp]
>([
  [
    "everything",
    { available: ["a.safetensors"] },
    { format: "safetensors", ignorePatterns: ["*"] },
    /no model files: spec\.ignorePatterns \(\*\) exclude a\.safetensors$/,
  ],
  [
    "every GGUF",
    { available: ["README.md", "a.gguf", "b.gguf"] },
    { ignorePatterns: ["x*", "*.gguf"] },
    /no \.gguf file: spec\.ignorePatterns \(x\*, \*\.gguf\) exclude a\.gguf, b\.gguf$/,
  ],
  [
    "all that files selects",
    { available: ["a.gguf", "b.gguf"] },
    { files: ["a*"], ignorePatterns: ["a*"] },
    /matches a\*: spec\.ignorePatterns \(a\*\) exclude a\.gguf$/,
  ],
  [
    "a file of files",
    { available: ["a.gguf"] },
    { files: ["a.gguf"], ignorePatterns: ["a*"] },
    /exclude a\.gguf/,
  ],
  ["the file of the source", { named: "dir/a.gguf" }, { ignorePatterns: ["dir/"] }, /exclude dir\/a\.gguf/],
  ["the projector", { named: "a.gguf" }, { mmproj: "p.gguf", ignorePatterns: ["p*"] }, /exclude p\.gguf/],
  [
    "a part of a split model",
    { available: ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"] },
    { ignorePatterns: ["*00002-of*"] },
    /exclude m-00002-of-00002\.gguf/,
  ],
])("ignorePatterns that exclude %s are refused, and named", (_, at, selector, says) => {
  expect(() => selectFiles({ shown, ...at }, selector)).toThrow(
    expect.objectContaining({ code: "FilesExcluded", message: expect.stringMatching(says) }),
  );
});

test("ignorePatterns are not blamed for what the source does not have", () => {
  const selector = { files: ["*.bin"], ignorePatterns: ["a*"] };
  expect(() => selectFiles({ shown, available: ["a.gguf"] }, selector)).toThrow(
    expect.objectContaining({ code: "SourceNotFound" }),
  );
});

test("a pattern of many stars is read without trying all ways to match it, which would take years", () => {
  const files = [`${"*a".repeat(60)}b`];
  expect(() => selectFiles({ shown, available: ["a".repeat(1000)] }, { files })).toThrow(/matches/);
});

test("the file of the source is the main one, and those of the spec are added to it", () => {
  const wish = { files: ["b.gguf", "a.gguf"], mmproj: "p/mmproj.gguf" };
  expect(selectFiles({ shown, named: "a.gguf" }, wish)).toMatchObject({
    files: ["a.gguf", "b.gguf"],
    projector: { name: "p/mmproj.gguf", at: "p/mmproj.gguf" },
    entry: "a.gguf",
  });
  expect(selectFiles({ shown }, wish).files).toEqual(["b.gguf", "a.gguf"]);
});

test("formats of many files take everything but documentation, and open the folder", () => {
  const available = [".gitattributes", "README.md", "config.json", "model.safetensors"];
  const found = { files: ["config.json", "model.safetensors"], entry: "" };
  expect(selectFiles({ shown, available }, { format: "mlx" })).toMatchObject({ format: "mlx", ...found });
  expect(selectFiles({ shown, available }, {})).toMatchObject({ format: "safetensors", ...found });
});

test("names that are one file on a Mac, or leave their folder, are refused", () => {
  const refused = [
    ["A.gguf", "a.gguf"],
    ["../x.gguf"],
    ["/etc/passwd"],
    ["a\\b.gguf"],
    ["é.gguf", "e\u0301.gguf"],
  ];
  for (const files of refused)
    expect(() => selectFiles({ shown }, { files })).toThrow(
      expect.objectContaining({ code: "FileNameNotAllowed" }),
    );
});

test("what does not exist, names no file or has no model says so", () => {
  expect(() => selectFiles({ shown }, {})).toThrow(/does not exist, or names no file/);
  expect(() => selectFiles({ shown, available: ["README.md"] }, {})).toThrow(/no .gguf file/);
  expect(() => selectFiles({ shown, available: ["a.gguf"] }, { mmproj: "p.gguf" })).toThrow(/no file p.gguf/);
});

test.each<[readonly string[], string | undefined, string]>([
  [["m-Q8_0.gguf", "MTP/m-MTP-Q8_0.gguf", "mmproj-BF16.gguf", "m-UD-Q8_0.gguf"], "Q8_0", "m-Q8_0.gguf"],
  [["m-Q8_0.gguf", "m-UD-Q8_0.gguf"], "UD-Q8_0", "m-UD-Q8_0.gguf"],
  [["m-Q8_0.gguf", "m-UD-Q4_K_XL.gguf"], "Q4_K_XL", "m-UD-Q4_K_XL.gguf"],
  [["Q8_0/m-Q8_0.gguf", "m-draft-Q8_0.gguf", "eagle3/m-Q8_0.gguf"], "q8_0", "Q8_0/m-Q8_0.gguf"],
  [["Eagle-7B-Q4_0.gguf", "Eagle-7B-Q8_0.gguf"], "Q4_0", "Eagle-7B-Q4_0.gguf"],
  [["m.gguf", "m-mtp-f16.gguf"], undefined, "m.gguf"],
  [["._m.gguf", "m.gguf"], undefined, "m.gguf"],
  [["sub/._m-Q8_0.gguf", "sub/m-Q8_0.gguf", "._m-Q8_0.gguf"], "Q8_0", "sub/m-Q8_0.gguf"],
])("of %j quantization %s is %s", (available, quantization, file) => {
  expect(selectFiles({ shown, available }, { quantization }).files).toEqual([file]);
});

test("UD- variants are not preferred without a quantization", () => {
  const available = ["m-Q8_0.gguf", "m-UD-Q8_0.gguf"];
  expect(() => selectFiles({ shown, available }, {})).toThrow(/several models/);
});
