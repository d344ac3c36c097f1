/** The server's flags, validated once at the start. */
import { z } from "zod";
import { MetalbridgeError } from "../src/api/errors.ts";
import { scoreWeightsSchema } from "../src/capacity/score-weights.ts";

const address = (description: string) => z.string().min(1).default("127.0.0.1").describe(description);
const port = (byDefault: number, description: string) =>
  z.coerce.number().int().min(0).max(65535).default(byDefault).describe(description);
const file = (description: string) => z.string().min(1).optional().describe(description);

export const serverConfigSchema = z
  .strictObject({
    kubeconfig: file(
      "Kubeconfig of the cluster. Default: KUBECONFIG, then ~/.kube/config, then the pod's ServiceAccount.",
    ),
    context: z.string().min(1).optional().describe("Context of the kubeconfig."),
    address: address("Address of the density API."),
    port: port(8080, "Port of the density API. 0 selects a free port."),
    tlsCert: file(
      "File with the certificate chain (PEM) of the density API. If unset, the API is served over plain HTTP.",
    ),
    tlsKey: file("File with the private key (PEM) of tlsCert."),
    healthAddress: address("Address of /healthz, /readyz and /metrics."),
    healthPort: port(9464, "Port of /healthz, /readyz and /metrics. 0 selects a free port."),
    metricsPrefix: z
      .string()
      .regex(/^[a-z][a-z0-9_]{0,63}$/)
      .default("metalbridge_density")
      .describe("Prefix of the names of density metrics, for existing dashboards that expect other names."),
    scoreWeights: scoreWeightsSchema,
  })
  .refine(({ tlsCert, tlsKey }) => (tlsCert === undefined) === (tlsKey === undefined), {
    path: ["tlsKey"],
    message: "must be set together with tlsCert",
  });

export type ServerConfig = Readonly<z.output<typeof serverConfigSchema>>;

/** Throws MetalbridgeError that names the key. */
export function parseServerConfig(input: unknown): ServerConfig {
  const parsed = serverConfigSchema.safeParse(input);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const key = issue?.code === "unrecognized_keys" ? issue.keys.join(", ") : (issue?.path.join(".") ?? "");
  throw new MetalbridgeError("ServerConfigInvalid", `${key}: ${issue?.message ?? "is invalid"}`);
}
