/** A governed agent in a process of its own, which joins a cgroup first: `node governed-process.ts PLACE-AS-JSON GROUP`. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createHostReader } from "../../agent/host/reader.ts";
import type { AgentPlace } from "./agent.ts";
import { startGovernedAt } from "./governed.ts";

const place = JSON.parse(process.argv[2] ?? "{}") as AgentPlace;
writeFileSync(join(process.argv[3] ?? "", "cgroup.procs"), String(process.pid));
await startGovernedAt(
  place,
  createHostReader("linux", async () => undefined),
);
process.stdout.write("watching\n");
