/** Settings of remote access, for users of the cluster who have no login on this host. */
import * as z from "zod";
import { REMOTE_PORT } from "../../src/api/access/remote.ts";

export const remoteAccess = z
  .strictObject({
    logs: z
      .boolean()
      .describe(
        "Allow users who can create tokens of the ServiceAccount metalbridge-logs in a replica's namespace to read its engine's log, which can contain prompts and answers (operate.md).",
      )
      .default(false),
    doctor: z
      .boolean()
      .describe(
        "Allow users who can create tokens of the ServiceAccount metalbridge-system/metalbridge-doctor to run `metalbridge doctor` on this host, as the agent's account (doctor.md).",
      )
      .default(false),
    port: z
      .int()
      .min(1)
      .max(65_535)
      .describe(
        "Port for remote access on the host's address. It is open only if logs or doctor is enabled. The controller's tunnel connects to port 20998 only; with another port, users need --direct.",
      )
      .default(REMOTE_PORT),
  })
  .prefault({});
