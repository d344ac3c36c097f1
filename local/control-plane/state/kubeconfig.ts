/** Renders a kubeconfig for one user with a token. */
import { stringify } from "yaml";

export interface KubeconfigInput {
  readonly url: string;
  /** PEM. If absent, clients trust the authorities of their machine. */
  readonly certificateAuthority: string | undefined;
  readonly token: string;
  readonly user: string;
  readonly namespace?: string;
  /** For a client that reaches the API server by an address its certificate does not name. */
  readonly tlsServerName?: string;
}

/** Embeds the certificate, so that the file can be copied. */
export function renderKubeconfig(input: KubeconfigInput): string {
  const cluster = {
    server: input.url,
    "certificate-authority-data":
      input.certificateAuthority === undefined
        ? undefined
        : Buffer.from(input.certificateAuthority).toString("base64"),
    "tls-server-name": input.tlsServerName,
  };
  return stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "metalbridge", cluster }],
    users: [{ name: input.user, user: { token: input.token } }],
    contexts: [
      {
        name: "metalbridge",
        context: { cluster: "metalbridge", user: input.user, namespace: input.namespace ?? "default" },
      },
    ],
    "current-context": "metalbridge",
  });
}
