import { writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../test/fixtures/temporary-folder.ts";
import { planGateway } from "./gateway.ts";

test("the secret of users is passed to the gateway by its absolute path", async () => {
  await using folder = await temporaryFolder();
  const file = path.join(folder.path, "secret");
  await writeFile(file, "signs-users\n");
  const userJwtSecretFile = path.relative(process.cwd(), file);
  const { args } = await planGateway(folder.path, "envoy", { userJwtSecretFile });
  expect(args.slice(-2)).toEqual(["--user-jwt-secret-file", file]);
});

test("a secret of users that cannot be read is refused before anything starts", async () => {
  await using folder = await temporaryFolder();
  const userJwtSecretFile = path.join(folder.path, "no-such-file");
  await expect(planGateway(folder.path, "envoy", { userJwtSecretFile })).rejects.toThrow(
    `userJwtSecretFile: cannot read ${userJwtSecretFile}`,
  );
});
