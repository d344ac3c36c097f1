import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { readInstanceId } from "./instance-id.ts";

async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "mb-instance-"));
  onTestFinished(() => rm(path, { recursive: true }));
  return path;
}

test("an agent keeps its identity across restarts, even while the machine's id cannot be read", async () => {
  const dir = await folder();
  const first = await readInstanceId(dir, "mac-a");
  expect(first).toMatchObject({ wasCopied: false, id: expect.stringMatching(/^[0-9a-f-]{36}$/) });
  expect(await readInstanceId(dir, undefined)).toEqual(first);
  expect(await readInstanceId(dir, "mac-a")).toEqual(first);
});

test("a state folder that was copied to another machine gets a new identity there, once", async () => {
  const [original, copy] = [await folder(), await folder()];
  const first = await readInstanceId(original, "mac-a");
  await cp(original, copy, { recursive: true });
  const second = await readInstanceId(copy, "mac-b");
  expect(second).toMatchObject({ wasCopied: true });
  expect(second.id).not.toBe(first.id);
  expect(await readInstanceId(copy, "mac-b")).toEqual({ id: second.id, wasCopied: false });
  expect(await readInstanceId(original, "mac-a")).toEqual(first);
});

test("an identity from before machines were noted is kept, and tied to this machine from then on", async () => {
  const dir = await folder();
  const id = "00000000-1111-2222-3333-444444444444";
  await writeFile(join(dir, "instance-id"), `${id}\n`);
  expect(await readInstanceId(dir, "mac-a")).toEqual({ id, wasCopied: false });
  expect(await readFile(join(dir, "instance-id"), "utf8")).toBe(`${id} mac-a\n`);
  expect(await readInstanceId(dir, "mac-b")).toMatchObject({ wasCopied: true });
});
