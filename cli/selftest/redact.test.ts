import { describe, expect, it } from "vitest";
import { createRedaction, leftovers } from "./redact.ts";

const names = {
  hosts: ["Janes-Mac-mini.local", "Janes-Mac-mini"],
  users: ["jane", "Jane Roe"],
  serials: ["C02XK0ABCD12"],
};

describe("redact", () => {
  it("replaces each kind of original, the same one always alike", () => {
    const redaction = createRedaction(names);
    const text = [
      "jane on Janes-Mac-mini.local (Jane Roe), serial C02XK0ABCD12",
      "/Users/jane/models /Users/john/x /Users/Shared/y",
      "6F2C1A52-8A3B-4B6E-9B1D-2F4E6A7C8D90 a4:83:e7:0b:c1:02 at a4:83:e7:b:c1:2",
      "10.1.2.3 10.1.2.4 172.16.9.9 10.1.2.3 broadcast 10.1.2.255 fe80::1c2d:3e4f%en0 2a02:8108::42",
    ].join("\n");
    expect(redaction.redact(text).split("\n")).toEqual([
      "user-2 on mac-1 (user-1), serial serial-1",
      "/Users/user-2/models /Users/user-3/x /Users/Shared/y",
      "00000000-0000-4000-8000-000000000001 02:00:00:00:00:01 at 2:0:0:0:0:1",
      "198.18.1.1 198.18.1.2 198.18.2.1 198.18.1.1 broadcast 198.18.1.255 fe80::ffff:1%en0 2001:db8::2",
    ]);
    expect(leftovers(redaction.redact(text), redaction)).toEqual([]);
    expect(leftovers("jane was here", redaction)).toEqual(["jane"]);
  });

  it("keeps what stands for no machine: loopback, masks, groups, versions and service accounts", () => {
    const text =
      "127.0.0.1 0.0.0.0 255.255.255.0 224.0.0.251 ::1 fe80::1 ff:ff:ff:ff:ff:ff 1:0:5e:0:0:fb 15.6.1 10:20:30 root dev.metalbridge.agent";
    const redaction = createRedaction({ hosts: ["localhost"], users: ["root", "metalbridge"], serials: [] });
    expect(redaction.redact(text)).toBe(text);
  });

  it("changes nothing in a text that was redacted before", () => {
    const first = createRedaction(names);
    const once = first.redact(
      "/Users/jane 10.1.2.3 2a02::1 fe80::9 a4:83:e7:0b:c1:02 a:b:c:d:e:f 6F2C1A52-8A3B-4B6E-9B1D-2F4E6A7C8D90",
    );
    expect(createRedaction(names).redact(once)).toBe(once);
  });

  it("removes secrets among arguments and in environments", () => {
    const { redact } = createRedaction({ hosts: [], users: [], serials: [] });
    expect(redact("llama-server --api-key sk-123 --port 1 HF_TOKEN=hf_x\n\tOPENAI_API_KEY => sk-9")).toBe(
      "llama-server --api-key removed --port 1 HF_TOKEN=removed\n\tOPENAI_API_KEY => removed",
    );
  });
});
