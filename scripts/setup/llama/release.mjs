/** llama-server from llama.cpp's own release archives, for macOS and Linux with internet access. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { isExecutable, quoted, run } from "../command.mjs";
import { download } from "../download.mjs";
import { SetupError } from "../steps.mjs";

const DEFAULT_RELEASES = "https://github.com/ggml-org/llama.cpp/releases/download";
const DEFAULT_TAG = "b11669";

/** Pure: name of the archive for a machine, or undefined where llama.cpp publishes none. */
export function archiveName(tag, platform, arch) {
  const system = { darwin: "macos", linux: "ubuntu" }[platform];
  if (system === undefined || !["x64", "arm64"].includes(arch)) return undefined;
  return `llama-${tag}-bin-${system}-${arch}.tar.gz`;
}

/** METALBRIDGE_LLAMA_RELEASES and METALBRIDGE_LLAMA_TAG name another place and release. */
export async function installRelease(cache, env = process.env) {
  const releases = env.METALBRIDGE_LLAMA_RELEASES || DEFAULT_RELEASES;
  const tag = env.METALBRIDGE_LLAMA_TAG || DEFAULT_TAG;
  const name = archiveName(tag, process.platform, process.arch);
  if (name === undefined)
    throw new SetupError(`llama.cpp publishes no archive for ${process.platform} ${process.arch}`);
  mkdirSync(cache, { recursive: true });
  const archive = join(cache, `.${name}`);
  await download(`${releases}/${tag}/${name}`, archive);
  const work = mkdtempSync(join(cache, ".release-"));
  try {
    const result = await run("tar", ["-xzf", archive, "-C", work]);
    if (result.code !== 0) throw new SetupError(`${archive} cannot be unpacked: ${result.tail}`);
    const folder = folderOf(work, "llama-server");
    if (folder === undefined) throw new SetupError(`${name} holds no llama-server`);
    return publish(folder, join(cache, tag));
  } finally {
    rmSync(work, { recursive: true, force: true });
    rmSync(archive, { force: true });
  }
}
installRelease.label = "fetching llama.cpp's release archive";

/** The program finds its libraries beside itself, so the folder stays as it is and `bin/` gets a wrapper. */
function publish(folder, target) {
  const wrapper = join(folder, "bin", "llama-server");
  if (!existsSync(wrapper)) {
    mkdirSync(join(folder, "bin"), { recursive: true });
    writeFileSync(wrapper, `#!/bin/sh\nexec ${quoted(join(target, "llama-server"))} "$@"\n`, { mode: 0o755 });
  }
  if (!isExecutable(join(target, "bin", "llama-server"))) {
    rmSync(target, { recursive: true, force: true });
    renameSync(folder, target);
  }
  return join(target, "bin", "llama-server");
}

/** The folder that holds `name`, or its parent when that folder is a `bin` with libraries beside it. */
function folderOf(folder, name) {
  for (const entry of readdirSync(folder)) {
    const path = join(folder, entry);
    if (entry === name && statSync(path).isFile())
      return folder.endsWith("/bin") ? join(folder, "..") : folder;
    const found = statSync(path).isDirectory() ? folderOf(path, name) : undefined;
    if (found !== undefined) return found;
  }
  return undefined;
}
