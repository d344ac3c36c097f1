/**
 * Pages over twenty hosts. For readers with few rights, each shows its data, or one explanation of the right that is missing.
 * CPU: a browser opens every page for two readers.
 */
import { expect, it } from "vitest";
import type { ConsolePage } from "../bed/console/browser.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { expectAccessible, expectNoOverflow, takePictures } from "./looks.ts";
import { oneSyntheticConsole, whyNoConsole } from "./started-console.ts";

/** Each page, and the rights that a viewer of one namespace lacks there. Without any, it shows its data. */
const PAGES: Readonly<Record<string, readonly string[]>> = {
  "/": [],
  "/services": [],
  "/models": [],
  "/hosts": ["list hosts"],
  "/fits": ["get density/nodes"],
  "/fits?tab=catalog": ["get density/catalog"],
  "/fits?tab=query&model=Qwen2.5-7B": ["get density/query"],
  "/topology": [],
  "/topology?view=list": [],
  "/playground": [],
  "/gateway": [],
  "/gateway?tab=keys": ["list secrets in namespace metalbridge-system"],
  "/gateway?tab=queues": [],
  "/usage": ["list configmaps in namespace metalbridge-system", "get density/cost"],
  "/settings": [],
  "/nodes/gpu-001": ["get nodes"],
  "/hosts/no-such-host": ["get hosts"],
};
const SERVICE_TABS = ["replicas", "placement", "rollout", "metrics", "events", "yaml"];
/** Pages that need no right of their own. */
const FOR_ALL = new Set(["/playground", "/gateway", "/settings"]);
const EXPLANATION =
  /^ApiForbidden\s*You may not ([^.]+)\.\s*Ask an administrator of the cluster (for a role|to bind the ClusterRole) /;
const RAW = /User "|"kind":|is forbidden|API group/;

describeUnless(whyNoConsole, "pages over twenty hosts", () => {
  const on = oneSyntheticConsole({ hosts: 20, services: 12, nodes: 1 });

  /** A reader with a role of its own, of whom 403 is expected. */
  const signedIn = async (name: string, rules: readonly object[], namespace?: string) => {
    const role = {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "ClusterRole",
      metadata: { name },
      rules,
    };
    await on().cluster.objects.apply(role);
    const reader = await on().signedIn({ token: await on().token(name, { clusterRole: name, namespace }) });
    reader.expectProblems(/status of (403|404)/);
    return reader;
  };

  /** The rights that the notices name. Fails for a notice in other words. */
  const missingOn = async ({ page }: ConsolePage): Promise<readonly string[]> => {
    const notices = await page.locator("main .failure").allInnerTexts();
    return notices.map((text) => EXPLANATION.exec(text)?.[1] ?? text);
  };

  it("a viewer of one namespace sees its services, and reads which rights the rest needs", async () => {
    const [{ namespace = "", name = "" } = {}] = on().farm.services;
    // As the role view of a cluster with a controller manager, which aggregates it.
    const kinds = [
      { apiGroups: ["metalbridge.dev"], resources: ["models", "inferenceservices", "inferencereplicas"] },
      { apiGroups: ["", "apps"], resources: ["pods", "events", "configmaps", "controllerrevisions"] },
    ];
    const rules = kinds.map((kind) => ({ ...kind, verbs: ["get", "list", "watch"] }));
    await using reader = await signedIn("viewer", rules, namespace);
    const { page } = reader;
    // Several are created in the same second, and any of them may be the newest.
    const shownOn = (path: string) =>
      path === "/" ? `Newest service: ${namespace}/` : name.replace(/-\d+$/, "");
    const tabs = SERVICE_TABS.map((tab) => [`/services/${namespace}/${name}?tab=${tab}`, []] as const);
    const isRead = page.waitForResponse(/\/console\/(rights|stream)/);
    await reader.open("/settings");
    await isRead;
    for (const [path, missing] of [...Object.entries(PAGES), ...tabs]) {
      await reader.goTo(path);
      await expect.poll(() => missingOn(reader), { message: path }).toEqual(missing);
      if (missing.length === 0 && !FOR_ALL.has(path) && !path.includes("queues"))
        await expect
          .poll(() => page.locator("main").getByText(shownOn(path)).first().isVisible(), {
            message: path,
            timeout: 90_000,
          })
          .toBe(true);
      expect(await missingOn(reader), path).toEqual(missing);
      expect(await page.locator("main").textContent(), path).not.toMatch(RAW);
      await expectNoOverflow(page);
      await takePictures(page, `viewer${path.replaceAll(/[/?&=.]/g, "-")}`);
    }
    await reader.open("/services?ns=kube-system");
    const hidden = "list inferenceservices in namespace kube-system";
    await expect.poll(() => missingOn(reader)).toEqual([hidden]);
    await reader.open("/hosts");
    await expect.poll(() => page.getByLabel("Namespace").inputValue()).toBe(namespace);
    const why = "you may not list inferenceservices of all namespaces, nor hosts.";
    expect(await page.locator(".sight").textContent()).toBe(
      `Only namespace ${namespace} is shown, and no hosts: ${why}`,
    );
    await expectAccessible(page);
  });

  it("a reader without any right reads one missing right on every page", async () => {
    await using reader = await signedIn("outsider", []);
    await reader.open("/settings");
    for (const path of [...Object.keys(PAGES), "/services/default/chat", "/models/default/chat"]) {
      await reader.goTo(path);
      const count = FOR_ALL.has(path) ? 0 : path === "/usage" ? 2 : 1;
      await expect.poll(() => missingOn(reader), { message: path }).toHaveLength(count);
      expect(await reader.page.locator("main").textContent(), path).not.toMatch(RAW);
      await takePictures(reader.page, `outsider${path.replaceAll(/[/?&=.]/g, "-")}`);
    }
  });

  it("the map of twenty hosts isolates the path of a clicked machine, and Escape shows everything again", async () => {
    await using reader = await on().administrator();
    const { page } = reader;
    await reader.goTo("/topology");
    const machine = page.getByRole("button", { name: on().farm.hosts[0] ?? "", exact: true });
    await machine.click();
    expect(await machine.getAttribute("aria-pressed")).toBe("true");
    await expect.poll(() => page.locator(".topo-edge-on").count()).toBeGreaterThan(1);
    expect(await page.locator(".topo-off").count()).toBeGreaterThan(20);
    await page.keyboard.press("Escape");
    await expect.poll(() => page.locator(".topo-off").count()).toBe(0);
    expect(await machine.getAttribute("aria-pressed")).toBe("false");
  });
});
