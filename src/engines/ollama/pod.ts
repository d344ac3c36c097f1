/** Ollama as a pod: a server of one model, which it pulls, or creates from the GGUF on the volume. */
import { MetalbridgeError } from "../../api/errors.ts";
import { hostInUrl } from "../../util/host-in-url.ts";
import type { PodCommand, PodInput, PodRuntime } from "../contract/pod.ts";
import { offloadedLayers } from "../llamacpp/pod.ts";
import { isPulledByOllama, pulledModel, pulledName, pullRequest } from "./pulled.ts";
import { OLLAMA_SETTINGS, ollamaSettings, SERVER_ENVIRONMENT } from "./settings.ts";

const VERSION = "0.17.4";
const MODELS = "/tmp/ollama/models";
/** A name that Ollama takes without a host: an optional namespace, the model, and an optional tag. */
const NAME = /^([A-Za-z0-9_][\w-]{0,79}\/)?[A-Za-z0-9_][\w.-]{0,79}(:[A-Za-z0-9_][\w.-]{0,79})?$/;

export const ollamaPod: PodRuntime = {
  images: {
    cpu: `docker.io/ollama/ollama:${VERSION}`,
    cuda: `docker.io/ollama/ollama:${VERSION}`,
    rocm: `docker.io/ollama/ollama:${VERSION}-rocm`,
  },
  port: 11_434,
  address: "::",
  probes: {
    ready: (input) => scriptOf(READY, input, loadRequest(input)),
    alive: (input) => scriptOf(ALIVE, input),
  },
  offloaded: offloadedLayers,
  checksModelName: true,
  settings: OLLAMA_SETTINGS,
  command: serve,
};

function serve(input: PodInput): PodCommand {
  const { settings, model, address, port, ollamaRegistry } = input;
  const { parameters, environment } = ollamaSettings(settings, model.status?.gguf);
  const { pull, from, files } = originOf(input);
  const hashed = files.map(([name], index) => [name, `sha256:{${index}}`]);
  const origin = from === undefined ? { files: Object.fromEntries(hashed) } : { from };
  const requests = [
    ...(pull ? [["/api/pull", pullRequest(pulledModel(model.spec.source, ollamaRegistry))] as const] : []),
    // The service's own name last: once it exists, a container that is restarted has nothing to prepare.
    ...namesOf(input)
      .toReversed()
      .map((name) => ["/api/create", { model: name, ...origin, parameters }] as const),
  ];
  const [bash = "", ...args] = scriptOf(SERVE, input, [
    ...loadRequest(input),
    JSON.stringify({ model: input.served }),
    ...files.map(([, path]) => path),
    "--",
    ...requests.flatMap(([path, body]) => [path, JSON.stringify(body)]),
  ]);
  const variables = {
    OLLAMA_HOST: `${hostInUrl(address)}:${port}`,
    OLLAMA_MODELS: MODELS,
    ...SERVER_ENVIRONMENT,
    ...environment,
  };
  return { command: [bash], args, env: Object.entries(variables).map(([name, value]) => ({ name, value })) };
}

/** Files by their names in Ollama, or the model that is pulled. Throws MetalbridgeError. */
function originOf({ model, weights, projector, ollamaRegistry }: PodInput) {
  const { source, mmproj } = model.spec;
  if (weights === undefined) {
    if (!isPulledByOllama(source, ollamaRegistry)) {
      const message = `Ollama pulls only from its own registry and --ollama-registry, and spec.source is ${source}`;
      throw new MetalbridgeError("WeightsNotCached", message);
    }
    return { pull: true, from: pulledName(source, ollamaRegistry), files: [] };
  }
  const parts = (model.status?.files ?? []).filter((name) => name !== mmproj);
  if (parts.length > 1) {
    const message = `Ollama cannot load a GGUF that is split into ${parts.length} files`;
    const summary = "set spec.runtime to llamacpp, or merge the files (llama-gguf-split --merge)";
    throw new MetalbridgeError("EngineSettingsRefused", message, { summary });
  }
  const files: [string, string][] = [["model.gguf", weights.main]];
  if (projector !== undefined) files.push(["projector.gguf", projector]);
  return { pull: false, from: undefined, files };
}

/** The name of the service first. Throws `SettingNotSupported`. */
function namesOf({ served, aliases }: PodInput): readonly string[] {
  const invalid = aliases.find((name) => !NAME.test(name));
  if (invalid === undefined) return [...new Set([served, ...aliases])];
  const message = `Ollama does not accept the model name ${invalid} in spec.endpoint`;
  const summary =
    "use names of the form [namespace/]model[:tag] with letters, digits, - _ and . (none in the namespace)";
  throw new MetalbridgeError("SettingNotSupported", message, { summary });
}

/** Path and body of the request that loads the model and keeps it loaded, which needs no slot. */
function loadRequest({ served, settings }: PodInput): readonly string[] {
  const path = settings.mode === "embedding" ? "/api/embed" : "/api/generate";
  return [path, JSON.stringify({ model: served, keep_alive: -1 })];
}

function scriptOf(script: string, { address, port }: PodInput, args: readonly string[] = []): string[] {
  const host = ["::", "0.0.0.0"].includes(address) ? "localhost" : address;
  return ["/bin/bash", "-c", `${ASK}${script}`, "ollama", host, String(port), ...args];
}

/** The image has no HTTP client. `last` is the last line of the response, which shows whether a pull or a creation succeeded. */
const ASK = `export LC_ALL=C
host=$1 port=$2
shift 2
ask() {
  status= last=
  {
    printf '%s HTTP/1.0\\r\\nHost: localhost\\r\\nContent-Length: %s\\r\\n\\r\\n%s' "$1" "\${#2}" "$2" >&3
    read -r _ status _ <&3
    while read -r line <&3 && [ "$line" != $'\\r' ]; do :; done
    while IFS= read -r line <&3 || [ -n "$line" ]; do last=$line; done
  } 2>/dev/null 3<>"/dev/tcp/$host/$port"
  [ "$status" = 200 ]
}
`;

const ALIVE = `ask "GET /api/version"
`;

/**
 * Nothing loads the model here, because Ollama cancels a load when the probe's time is up. The model that any client has unloaded
 * is loaded again by the server's own script.
 */
const READY = `ask "GET /api/ps" && [[ $last == *'"name":'* ]] && ask "POST $1" "$2"
`;

/**
 * Runs the server and prepares its model beside it. A file of the volume is linked under its checksum instead of being uploaded.
 * Without the right to write, the server refuses clients that pull, create, copy or delete models. If the preparation
 * fails, so does the container.
 */
const SERVE = `load=("$1" "$2") show=$3
shift 3
models=$OLLAMA_MODELS
fail() {
  echo "ollama: $1: $last" >&2
  exit 1
}
prepare() {
  local digests=() body n
  until ask "GET /api/version"; do sleep 0.2; done
  if ! ask "POST /api/show" "$show"; then
    chmod -R u+w "$models"
    while [ "$1" != -- ]; do
      n=$(sha256sum <"$1") || { last=; fail "cannot read $1"; }
      digests+=("\${n%% *}")
      ln -sf "$1" "$models/blobs/sha256-\${n%% *}"
      shift
    done
    shift
    while [ $# -gt 0 ]; do
      body=$2
      for n in "\${!digests[@]}"; do body=\${body//"sha256:{$n}"/"sha256:\${digests[n]}"}; done
      ask "POST $1" "$body" && [[ $last == *'"success"'* ]] || fail "$1"
      shift 2
    done
  fi
  chmod -R a-w "$models"
  ask "POST \${load[0]}" "\${load[1]}" || fail "\${load[0]}"
  exec 4<> <(:)
  while :; do
    read -rt 60 -u 4
    ask "POST \${load[0]}" "\${load[1]}"
  done
}
mkdir -p "$models/blobs"
ollama serve &
server=$!
prepare "$@" &
preparing=$!
trap 'kill "$server" 2>/dev/null' TERM INT
while kill -0 "$server" && kill -0 "$preparing"; do wait -n "$server" "$preparing"; done 2>/dev/null
kill "$server" 2>/dev/null && failed=1
kill "$preparing" 2>/dev/null
wait "$server"
exit "\${failed:-$?}"
`;
