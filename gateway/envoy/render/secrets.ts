/** Files with a certificate or a trust bundle each, by which Envoy follows what they name. Pure. */
import { dirname } from "node:path";
import type { EnvoyTls } from "../types.ts";
import { type Config, discovery, typedMessage } from "./typed.ts";

const SECRET = "metalbridge";

/** Refers to the only secret of a file. */
export function secretAt(file: string): Config {
  return { name: SECRET, sds_config: { resource_api_version: "V3", path_config_source: { path: file } } };
}

/** The file with a certificate. Envoy reads the files again when something is renamed into their folder. */
export function renderSecret({ certificateFile, keyFile }: EnvoyTls): string {
  return secret({
    tls_certificate: {
      certificate_chain: { filename: certificateFile },
      private_key: { filename: keyFile },
      watched_directory: { path: dirname(certificateFile) },
    },
  });
}

/** The file with the authorities that may have signed a certificate. */
export function renderTrust(caFile: string): string {
  return secret({
    validation_context: {
      trusted_ca: { filename: caFile },
      watched_directory: { path: dirname(caFile) },
    },
  });
}

function secret(content: Config): string {
  return discovery([
    typedMessage("extensions.transport_sockets.tls.v3.Secret", { name: SECRET, ...content }),
  ]);
}
