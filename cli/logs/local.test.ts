import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { chooseLocal, type LocalReplica, readLocalReplicas } from "./local.ts";

let dir = "";
beforeEach(() => {
  dir = mkdtempSync(path.join(tmpdir(), "metalbridge-state-"));
});
afterEach(() => {
  chmodSync(dir, 0o700);
  rmSync(dir, { recursive: true, force: true });
});

function write(file: string, content: unknown): void {
  const target = path.join(dir, file);
  mkdirSync(path.dirname(target), { recursive: true });
  writeFileSync(target, typeof content === "string" ? content : JSON.stringify(content));
}

const desired = (name: string, created: string) => ({
  metadata: { name, namespace: "team", creationTimestamp: created },
  spec: { template: { serviceName: "chat" } },
});

const dirOf = (uid: string) => path.join(dir, "engines", uid);

test("what is wanted and what runs are both known", () => {
  write("desired/u1.json", desired("chat-0", "2026-03-01T12:00:00Z"));
  write("engines/u1/engine.json", { uid: "u1", name: "chat-0", namespace: "team", service: "chat" });
  write("engines/u2/engine.json", { uid: "u2", name: "chat-1", namespace: "team", service: "chat" });
  expect(readLocalReplicas(dir)).toEqual([
    { namespace: "team", name: "chat-0", service: "chat", dir: dirOf("u1") },
    { namespace: "team", name: "chat-1", service: "chat", dir: dirOf("u2") },
  ]);
});

test("files that are half written, of another kind or of another shape are left out", () => {
  write("desired/u1.json", '{"metadata":');
  write("desired/u2.json", { metadata: { name: 5 } });
  write("desired/u3.json.tmp", desired("chat-3", ""));
  write("desired/u4.json", "null");
  write("engines/u5/log", "no record beside it");
  write("engines/stray", "a file");
  expect(readLocalReplicas(dir)).toEqual([]);
});

test("a machine without an agent has none", () => {
  expect(readLocalReplicas(path.join(dir, "nowhere"))).toEqual([]);
});

test("of a replica that was made again the newer one is meant", () => {
  write("desired/new.json", desired("chat-0", "2026-03-01T12:00:00Z"));
  write("desired/old.json", desired("chat-0", "2026-03-01T11:00:00Z"));
  write("engines/stopping/engine.json", { name: "chat-0", namespace: "team", service: "chat" });
  expect(readLocalReplicas(dir)).toEqual([expect.objectContaining({ dir: dirOf("new") })]);
});

test.skipIf(process.getuid?.() === 0)("a folder of another user is refused", () => {
  chmodSync(dir, 0o000);
  expect(() => readLocalReplicas(dir)).toThrow(/EACCES/);
});

const local = (namespace: string, name: string, service: string): LocalReplica => ({
  namespace,
  name,
  service,
  dir: "",
});

test("a name is a replica's, else a service's", () => {
  const all = [
    local("team", "chat-0", "chat"),
    local("team", "embed-0", "embed"),
    local("team", "embed", "other"),
  ];
  expect(chooseLocal(all, "chat-0", undefined)?.name).toBe("chat-0");
  expect(chooseLocal(all, "chat", undefined)?.name).toBe("chat-0");
  expect(chooseLocal(all, "embed", "team")?.service).toBe("other");
  expect(chooseLocal(all, "chat", "default")).toBeUndefined();
  expect(chooseLocal(all, "absent", undefined)).toBeUndefined();
});

test("several are not guessed among, but listed", () => {
  const all = [
    local("team", "chat-0", "chat"),
    local("team", "chat-1", "chat"),
    local("prod", "chat-0", "chat"),
  ];
  expect(() => chooseLocal(all, "chat", "team")).toThrow(/team\/chat-0, team\/chat-1/);
  expect(() => chooseLocal(all, "chat-0", undefined)).toThrow(/prod\/chat-0, team\/chat-0/);
  expect(chooseLocal(all, "chat-0", "prod")?.namespace).toBe("prod");
});
