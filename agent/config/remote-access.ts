/** Settings of remote access, for users of the cluster who have no login on this host. */
import * as z from "zod";
import { REMOTE_PORT } from "../../src/api/access/remote.ts";

export const remoteAccess = z
  .strictObject({
    logs: z
      .boolean()
      .describe(
        "Let users who may create tokens of the account metalbridge-logs in a replica's namespace read its engine's log, which may hold prompts and answers (operate.md).",
      )
      .default(false),
    doctor: z
      .boolean()
      .describe(
        "Let users who may create tokens of the account metalbridge-system/metalbridge-doctor run `metalbridge doctor` here, as the agent's account (doctor.md).",
      )
      .default(false),
    port: z
      .int()
      .min(1)
      .max(65_535)
      .describe(
        "Port on the host's address for both. It is open only while one of them is on. The controller's tunnel connects to 20998 only: with another port, users need --direct.",
      )
      .default(REMOTE_PORT),
  })
  .prefault({});
