import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test, vi } from "vitest";
import { headerBytes, ranged, serveModel } from "../../test/fixtures/model-server.ts";
import { selfSigned } from "../../test/fixtures/self-signed.ts";
import { whyNoAuthority } from "../../test/fixtures/test-authority.ts";
import { failureOf, inspectNow } from "./fixtures/inspect.ts";

test.skipIf(whyNoAuthority() !== undefined)(
  "a redirect from https to http is refused, for every caller",
  async () => {
    const plain = await serveModel(ranged(headerBytes(10)));
    const secure = createServer(selfSigned(), (_, response) => {
      response.writeHead(302, { location: `${plain.url}/m.gguf` }).end();
    });
    await new Promise<void>((listening) => secure.listen(0, "127.0.0.1", listening));
    onTestFinished(() => {
      secure.closeAllConnections();
      secure.close();
      vi.unstubAllEnvs();
    });
    vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0");
    const { port } = secure.address() as AddressInfo;
    const failure = await failureOf(inspectNow(`https://127.0.0.1:${port}/m.gguf?sig=geheim`));
    expect(failure).toMatchObject({ code: "SourceNotAllowed", isTransient: false });
    expect(failure.message).toBe(`https://127.0.0.1:${port}/m.gguf redirects from https to http`);
    expect(plain.requests).toEqual([]);
  },
);
