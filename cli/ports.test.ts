import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { listen } from "../src/http/listener.ts";
import { main } from "./main.ts";

const KUBECONFIG = `
apiVersion: v1
kind: Config
clusters: [{ name: c, cluster: { server: "https://127.0.0.1:1" } }]
users: [{ name: u, user: {} }]
contexts: [{ name: x, context: { cluster: c, user: u } }]
current-context: x
`;

test.each([
  ["controller", (port: number) => ["--health-port", `${port}`]],
  ["gateway", (port: number, dir: string) => ["--health-port", `${port}`, "--dir", dir]],
  ["relay", (port: number, dir: string) => ["--health-port", `${port}`, "--dir", dir]],
  ["server", (port: number) => ["--health-port", `${port}`, "--port", "0"]],
  ["agent", (port: number, dir: string) => ["--metrics-port", `${port}`, "--state-dir", join(dir, "state")]],
] as const)(
  "metalbridge %s exits with PortTaken and a remedy when its port is in use",
  async (verb, flags) => {
    const dir = await mkdtemp(join(tmpdir(), "mb-ports-"));
    const end = new AbortController();
    let said = "";
    const stderr = vi.spyOn(process.stderr, "write").mockImplementation((text) => {
      said += String(text);
      return true;
    });
    try {
      const kubeconfig = join(dir, "kubeconfig");
      await writeFile(kubeconfig, KUBECONFIG);
      const port = await listen({ address: "127.0.0.1", port: 0, routes: {}, signal: end.signal });
      const exitCode = await main([
        verb,
        "--kubeconfig",
        kubeconfig,
        "--log-level",
        "error",
        ...flags(port, dir),
      ]);
      expect(said).toBe(
        `PortTaken: cannot listen on 127.0.0.1:${port}: the port is in use\n` +
          `  stop the program that uses the port, or choose another port\n    lsof -i :${port}\n`,
      );
      expect(exitCode).toBe(1);
    } finally {
      stderr.mockRestore();
      end.abort();
      await rm(dir, { recursive: true });
    }
  },
);
