/** Reads the machine's inventory with systeminformation in a short-lived process, without serial numbers and addresses. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { packageRoot } from "../../local/package-root.ts";
import type { Reading } from "../../src/doctor/readings.ts";
import { parseJson } from "../../src/util/parse-json.ts";

const text = z.string().default("");
const controller = z.object({ vendor: text, model: text, driverVersion: z.string().optional() });
const network = z.object({ iface: z.string(), type: text, speed: z.number().nullish(), operstate: text });

const inventorySchema = z.object({
  system: z.object({ manufacturer: text, model: text }),
  cpu: z.object({ manufacturer: text, brand: text, physicalCores: z.number().default(0) }),
  osInfo: z.object({ distro: text, release: text, arch: text }),
  graphics: z.object({ controllers: z.array(controller).default([]) }),
  diskLayout: z.array(z.object({ name: text, type: text, size: z.number().nullish(), interfaceType: text })),
  networkInterfaces: z.array(network).default([]),
});

export type Inventory = z.output<typeof inventorySchema>;

/** Reads only this machine, because systeminformation has no support for others. The process is killed after `timeoutMs`. */
export function readInventory(timeoutMs: number): Promise<Reading<Inventory>> {
  const bundled = join(packageRoot(), "dist", "inventory.mjs");
  const source = join(packageRoot(), "cli", "doctor", "inventory.mjs");
  const program = existsSync(source) ? source : bundled;
  return new Promise((resolve) => {
    const options = { timeout: timeoutMs, killSignal: "SIGKILL", maxBuffer: 4 << 20 } as const;
    execFile(process.execPath, [program], options, (error, stdout, stderr) => {
      if (error !== null) {
        const why =
          error.killed === true ? `did not end within ${timeoutMs / 1_000} s` : stderr.split("\n")[0];
        return resolve({ unknown: `systeminformation ${why}` });
      }
      const parsed = inventorySchema.safeParse(parseJson(stdout));
      resolve(
        parsed.success ? { value: parsed.data } : { unknown: "systeminformation's answer is not understood" },
      );
    });
  });
}
