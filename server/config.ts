/** The server's flags, validated once at the start. */
import { z } from "zod";
import { MetalbridgeError } from "../src/api/errors.ts";

const address = (description: string) => z.string().min(1).default("127.0.0.1").describe(description);
const port = (byDefault: number, description: string) =>
  z.coerce.number().int().min(0).max(65535).default(byDefault).describe(description);
const file = (description: string) => z.string().min(1).optional().describe(description);

export const serverConfigSchema = z
  .strictObject({
    kubeconfig: file(
      "Kubeconfig of the cluster. Absent: KUBECONFIG, ~/.kube/config, then the pod's ServiceAccount.",
    ),
    context: z.string().min(1).optional().describe("Context of the kubeconfig."),
    address: address("Address of the density API."),
    port: port(8080, "Its port; 0 for any free one."),
    tlsCert: file("Certificate chain (PEM) of the density API. Absent: plain HTTP."),
    tlsKey: file("Its private key (PEM)."),
    healthAddress: address("Address of /healthz, /readyz and /metrics."),
    healthPort: port(9464, "Their port; 0 for any free one."),
    metricsPrefix: z
      .string()
      .regex(/^[a-z][a-z0-9_]{0,63}$/)
      .default("metalbridge_density")
      .describe("What the names of the density metrics begin with, for dashboards of another system."),
  })
  .refine(({ tlsCert, tlsKey }) => (tlsCert === undefined) === (tlsKey === undefined), {
    path: ["tlsKey"],
    message: "goes with tlsCert: give both or neither",
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
