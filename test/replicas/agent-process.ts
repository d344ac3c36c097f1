/** An agent in a process of its own, so that a test can kill it at any moment: `node agent-process.ts PLACE-AS-JSON`. */
import { type AgentPlace, startAgentAt } from "./agent.ts";

const place = JSON.parse(process.argv[2] ?? "{}") as AgentPlace;
await startAgentAt(place);
process.stdout.write("watching\n");
