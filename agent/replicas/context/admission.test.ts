import { expect, test, vi } from "vitest";
import { createMemoryAdmission } from "./admission.ts";

function setup(budget: number | undefined = 100, available: () => number | undefined = () => undefined) {
  const onFreed = vi.fn();
  const admission = createMemoryAdmission({
    budget: () => budget,
    available,
    address: () => undefined,
    portRange: [20_610, 20_619],
    onFreed,
  });
  return { admission, onFreed };
}

test("concurrent requests are admitted one after the other", async () => {
  const { admission } = setup();
  const request = { claimBytes: 40, previousPort: undefined };
  const answers = await Promise.all(["a", "b", "c"].map((uid) => admission.reserve(uid, request)));
  const given = answers.filter((answer) => answer !== "refused");
  expect(given).toHaveLength(2);
  expect(new Set(given.map(({ port }) => port)).size).toBe(2);
  expect(admission.totalBytes()).toBe(80);
});

test("adopted engines count before anything is admitted", async () => {
  const { admission } = setup();
  admission.adopt("old", { claimBytes: 90, port: 20_610 });
  expect(await admission.reserve("new", { claimBytes: 20, previousPort: undefined })).toBe("refused");
  admission.release("old");
  expect(await admission.reserve("new", { claimBytes: 20, previousPort: undefined })).toMatchObject({
    claimBytes: 20,
  });
});

test("a smaller claim plans waiting replicas again, a larger one does not", () => {
  const { admission, onFreed } = setup();
  admission.adopt("a", { claimBytes: 50, port: 20_610 });
  admission.adopt("a", { claimBytes: 60, port: 20_610 });
  expect(onFreed).not.toHaveBeenCalled();
  admission.adopt("a", { claimBytes: 40, port: 20_610 });
  expect(onFreed).toHaveBeenCalledTimes(1);
});

test("a replica keeps its port while it is stopped, and releases it when it is deleted", async () => {
  const { admission, onFreed } = setup();
  const first = await admission.reserve("a", { claimBytes: 1, previousPort: 20_613 });
  expect(first).toMatchObject({ port: 20_613 });
  admission.release("a");
  expect(onFreed).toHaveBeenCalledTimes(1);
  expect(await admission.reserve("b", { claimBytes: 1, previousPort: 20_613 })).not.toMatchObject({
    port: 20_613,
  });
  admission.forget("a");
  admission.release("b");
  expect(await admission.reserve("c", { claimBytes: 1, previousPort: 20_613 })).toMatchObject({
    port: 20_613,
  });
});

test("a claim within the budget is refused while other programs use the memory", async () => {
  let available = 30;
  const { admission } = setup(100, () => available);
  const request = { claimBytes: 40, previousPort: undefined };
  expect(await admission.reserve("a", request)).toBe("refused");
  available = 40;
  expect(await admission.reserve("a", request)).toMatchObject({ claimBytes: 40 });
});

test("nothing is admitted while the budget is unknown", async () => {
  const onFreed = vi.fn();
  const admission = createMemoryAdmission({
    budget: () => undefined,
    available: () => undefined,
    address: () => undefined,
    portRange: [20_610, 20_619],
    onFreed,
  });
  expect(await admission.reserve("a", { claimBytes: 0, previousPort: undefined })).toBe("refused");
});
