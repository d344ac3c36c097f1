/** A kubelet that has nothing but logs, for nodes of kwok: what the API server asks for `pods/log`. */
import { once } from "node:events";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { selfSigned } from "../fixtures/self-signed.ts";
import type { Kubectl } from "./kubectl.ts";

export interface KubeletLogs extends AsyncDisposable {
  /** Paths that were asked for. */
  readonly asked: readonly string[];
}

/** Answers for the node from now on. A log that is followed stays open after `textOf`. */
export async function serveLogs(
  kubectl: Kubectl,
  node: string,
  textOf: (path: string) => string,
): Promise<KubeletLogs> {
  const asked: string[] = [];
  const kubelet = createServer(selfSigned(), ({ url = "" }, response) => {
    asked.push(url);
    response.writeHead(200);
    if (url.includes("follow=true")) response.write(textOf(url));
    else response.end(textOf(url));
  });
  kubelet.listen(0, "127.0.0.1");
  await once(kubelet, "listening");
  const { port } = kubelet.address() as AddressInfo;
  const status = {
    addresses: [{ type: "InternalIP", address: "127.0.0.1" }],
    daemonEndpoints: { kubeletEndpoint: { Port: port } },
  };
  const patch = JSON.stringify({ status });
  await kubectl(["patch", "node", node, "--subresource=status", "--type=merge", "-p", patch]);
  return {
    asked,
    [Symbol.asyncDispose]: async () => {
      const closed = once(kubelet, "close");
      kubelet.closeAllConnections();
      kubelet.close();
      await closed;
    },
  };
}
