import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { eventName, newEvent } from "./events.ts";
import { createSeriesMemory, type EventInput } from "./series.ts";

const regarding = { kind: "Host", name: "mac-1", uid: "u" };
const event = (note: string, reason = "Crashed"): EventInput => ({
  type: "Warning",
  reason,
  action: "Start",
  note,
});

describe("series", () => {
  it("join an Event repeated within minutes, and start a new series after that", () => {
    const memory = createSeriesMemory();
    const first = memory.note(regarding, event("x"), 0);
    expect(first.isNew).toBe(true);
    expect(memory.note(regarding, event("x"), 60_000)).toEqual({ series: first.series, isNew: false });
    expect(first.series.count).toBe(2);
    expect(memory.note(regarding, event("x", "Evicted"), 60_000).isNew).toBe(true);
    expect(memory.note({ ...regarding, uid: "v" }, event("x"), 60_000).isNew).toBe(true);
    expect(memory.note(regarding, event("x"), 60_000 + 16 * 60_000).isNew).toBe(true);
  });

  it("last through a crash loop at its slowest: five minutes, a fifth more of jitter, and some to start", () => {
    const memory = createSeriesMemory();
    const { series } = memory.note(regarding, event("it crashed"), 0);
    for (let round = 1; round <= 20; round += 1) {
      expect(memory.note(regarding, event("it crashed"), round * 10 * 60_000).isNew).toBe(false);
    }
    expect(series.count).toBe(21);
  });

  it("merges Events of one series even if their notes differ, and only within their group", () => {
    const memory = createSeriesMemory();
    const ended = (pid: number, sameAs: string) => ({ ...event(`pid ${pid} ended`), sameAs });
    const { series } = memory.note(regarding, ended(1, "exit code 3"), 0);
    for (let pid = 2; pid <= 50; pid += 1) {
      expect(memory.note(regarding, ended(pid, "exit code 3"), pid).isNew).toBe(false);
    }
    expect(series).toMatchObject({ count: 50, event: { note: "pid 1 ended" } });
    expect(memory.note(regarding, ended(51, "exit code 4"), 51).isNew).toBe(true);
    expect(memory.note(regarding, { ...ended(52, "exit code 3"), reason: "EngineHung" }, 52).isNew).toBe(
      true,
    );
  });

  it("do not become an object for each of ever different notes", () => {
    const memory = createSeriesMemory();
    let fresh = 0;
    for (let index = 0; index < 1_000; index += 1) {
      if (memory.note(regarding, event(`attempt ${index}`), index).isNew) fresh += 1;
    }
    expect(fresh).toBe(10);
  });

  it("are 10 for one reason and object, and 512 in all, whatever is said of whom", () => {
    const shape = fc.record({
      objects: fc.integer({ min: 1, max: 1_000 }),
      notes: fc.integer({ min: 1, max: 50 }),
    });
    fc.assert(
      fc.property(shape, fc.integer({ min: 1, max: 3_000 }), ({ objects, notes }, times) => {
        const memory = createSeriesMemory();
        const fresh = new Map<number, number>();
        for (let index = 0; index < times; index += 1) {
          const uid = index % objects;
          const note = Math.floor(index / objects) % notes;
          const { isNew } = memory.note({ ...regarding, uid: `${uid}` }, event(`${note}`), index);
          if (isNew) fresh.set(uid, (fresh.get(uid) ?? 0) + 1);
        }
        expect(memory.size()).toBeLessThanOrEqual(512);
        if (objects <= 50) expect(Math.max(...fresh.values())).toBeLessThanOrEqual(10);
      }),
      { numRuns: 40 },
    );
  });

  it("are remembered up to a limit", () => {
    const memory = createSeriesMemory();
    for (let index = 0; index < 5_000; index += 1)
      memory.note({ ...regarding, uid: String(index) }, event("x"), index);
    expect(memory.size()).toBe(512);
  });
});

describe("event objects", () => {
  it("stay within the server's limits", () => {
    const { series } = createSeriesMemory().note(
      { ...regarding, name: "n".repeat(253) },
      { type: "Normal", reason: "R".repeat(300), action: "A".repeat(300), note: "ü".repeat(2_000) },
      0,
    );
    const name = eventName(series, Date.now());
    const object = newEvent(series, name, { reportingController: "c", reportingInstance: "i".repeat(300) });
    expect(name.length).toBeLessThanOrEqual(253);
    expect(Buffer.byteLength(object.note ?? "")).toBeLessThanOrEqual(1_024);
    expect([object.reason?.length, object.action?.length, object.reportingInstance?.length]).toEqual([
      128, 128, 128,
    ]);
    expect(object.metadata.namespace).toBe("default");
  });
});
