/** Building blocks of Envoy's configuration: typed messages, discovery files, and secrets. Pure. */
import { dirname } from "node:path";
import type { EnvoyKeyPair, EnvoyTls } from "../types.ts";

/** Envoy's configuration as JSON. */
export type Config = Readonly<Record<string, unknown>>;

const TYPES = "type.googleapis.com/envoy";

/** An extension: its name, and its configuration with the name of the message. */
export function typed(name: string, message: string, config: Config = {}): Config {
  return { name, typed_config: typedMessage(message, config) };
}

/** A message with its type, such as `config.cluster.v3.Cluster`. */
export function typedMessage(message: string, config: Config): Config {
  return { "@type": `${TYPES}.${message}`, ...config };
}

/** A duration in Envoy's notation. */
export function seconds(ms: number): string {
  return `${ms / 1_000}s`;
}

/** One file of a discovery service. */
export function discovery(resources: readonly Config[]): string {
  return `${JSON.stringify({ resources })}\n`;
}

const SECRET = "metalbridge";

/** Reference to the only secret in a file. */
export function secretAt(file: string): Config {
  return { name: SECRET, sds_config: { resource_api_version: "V3", path_config_source: { path: file } } };
}

/** File with a certificate. Envoy reads the certificate again when a file is renamed into its folder. */
export function renderSecret({ certificateFile, keyFile }: EnvoyTls): string {
  return secret({
    tls_certificate: {
      certificate_chain: { filename: certificateFile },
      private_key: { filename: keyFile },
      watched_directory: { path: dirname(certificateFile) },
    },
  });
}

/** File that has the certificate itself. */
export function renderKeyPair({ certificate, key }: EnvoyKeyPair): string {
  return secret({
    tls_certificate: {
      certificate_chain: { inline_string: certificate },
      private_key: { inline_string: key },
    },
  });
}

/** File with the trusted CA certificates. */
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
