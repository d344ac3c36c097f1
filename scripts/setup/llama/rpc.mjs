/**
 * RPC for the llama-server of Debian's packages, in a folder beside it: the workers of tests that serve a model over several
 * processes. Other tests run llama-server without RPC, as its published images are.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { quoted } from "../command.mjs";
import { fillFolder } from "../fill-folder.mjs";
import { SetupError } from "../steps.mjs";
import { unpackFromDebian, wrapperFor } from "./debian.mjs";

const PACKAGES = ["llama.cpp-tools-extra", "libggml0-backend-rpc"];

/** A folder for PATH, with a llama-server that can use RPC and with ggml-rpc-server; undefined if there is none. */
export function findLlamaRpc(llamaServer) {
  const folder = folderOf(llamaServer);
  return existsSync(join(folder, "ggml-rpc-server")) ? folder : undefined;
}

/** Optional: says what is skipped without it, and never fails. */
export async function ensureLlamaRpc({ progress, parts: { llamaServer } }) {
  try {
    if (findLlamaRpc(llamaServer) === undefined)
      await progress.during("llama.cpp RPC", PACKAGES.join(" "), () => install(llamaServer));
  } catch (error) {
    if (!(error instanceof SetupError)) throw error;
    progress.note(`no ggml-rpc-server: tests of llama.cpp over several pods are skipped (${error.message})`);
    return;
  }
  progress.cached("llama.cpp RPC", folderOf(llamaServer));
}

function install(llamaServer) {
  const target = folderOf(llamaServer);
  const name = basename(dirname(target));
  if (!name.startsWith("debian-")) throw new SetupError(`${llamaServer} is not of Debian's packages`);
  return fillFolder(target, async (work) => {
    const { names, prefix, version } = await unpackFromDebian(work, PACKAGES);
    // The protocol has no compatible versions.
    if (name !== `debian-${version}`) throw new SetupError(`Debian has ${version}, and the cache ${name}`);
    const [usr, complete] = [join(prefix, "usr"), join(work, "complete")];
    mkdirSync(join(complete, "programs"), { recursive: true });
    const program = join("programs", "ggml-rpc-server");
    const libraries = join(usr, "lib", names.libraries, "ggml", "backends0");
    renameSync(join(libraries, "libggml-rpc.so"), join(complete, "libggml-rpc.so"));
    const programs = join(usr, "libexec", names.libraries, "llama", "bin");
    renameSync(join(programs, "ggml-rpc-server"), join(complete, program));
    // ggml loads the backends that are in the working directory.
    const within = (text) => text.replace("\nexec ", `\ncd ${quoted(target)} || exit\nexec `);
    const write = (file, text) => writeFileSync(join(complete, file), within(text), { mode: 0o755 });
    write("llama-server", readFileSync(llamaServer, "utf8"));
    write("ggml-rpc-server", wrapperFor(llamaServer, join(target, program)));
    return complete;
  });
}

function folderOf(llamaServer) {
  return join(dirname(dirname(llamaServer)), "rpc");
}
