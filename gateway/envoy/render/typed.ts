/** The forms that Envoy's configuration repeats. Pure. */

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
