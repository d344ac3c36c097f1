import { Command } from "commander";
import { afterEach, expect, test, vi } from "vitest";
import { configureCrds } from "./crds.ts";

afterEach(() => vi.restoreAllMocks());

/** Names of the policies and bindings that the verb prints. */
async function policies(...args: string[]): Promise<readonly string[]> {
  const write = vi.spyOn(process.stdout, "write").mockReturnValue(true);
  const command = new Command();
  configureCrds(command);
  await command.parseAsync(args, { from: "user" });
  const text = write.mock.calls.map(([chunk]) => String(chunk)).join("");
  write.mockRestore();
  return [...text.matchAll(/^kind: (ValidatingAdmissionPolicy\w*)\nmetadata:\n {2}name: (\S+)/gm)].map(
    ([, kind, name]) => `${kind} ${name}`,
  );
}

test("the policy against dangerous pods, and nothing else, is left out by its flag", async () => {
  const all = await policies();
  const fewer = await policies("--allow-dangerous-pods");
  expect(all.filter((one) => !fewer.includes(one))).toEqual([
    "ValidatingAdmissionPolicy metalbridge-dangerous-pods",
    "ValidatingAdmissionPolicyBinding metalbridge-dangerous-pods",
  ]);
  expect(fewer.filter((one) => !all.includes(one))).toEqual([]);
});
