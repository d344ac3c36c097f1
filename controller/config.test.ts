import { expect, test } from "vitest";
import { parseControllerConfig } from "./config.ts";

test("defaults are filled in, numbers may come as text", () => {
  expect(parseControllerConfig({ healthPort: "0" })).toMatchObject({
    healthAddress: "127.0.0.1",
    healthPort: 0,
    hfEndpoint: "https://huggingface.co",
  });
});

test.each([
  [{ healthport: 1 }, "healthport"],
  [{ healthPort: "x" }, "healthPort"],
  [{ healthPort: 70_000 }, "healthPort"],
  [{ hfEndpoint: "ftp://x" }, "hfEndpoint"],
  [{ kubeconfig: "" }, "kubeconfig"],
])("%j is refused by name", (input, key) => {
  expect(() => parseControllerConfig(input)).toThrow(
    expect.objectContaining({ code: "ControllerConfigInvalid", message: expect.stringContaining(key) }),
  );
});
