/** The page Settings: who the reader is and may do, how the console looks, what it talks to. */

import { useQuery } from "@tanstack/react-query";
import { Check, Minus } from "lucide-react";
import { useState } from "react";
import { CONSOLE_PATH, type Session } from "../../../../src/console/protocol.ts";
import { useNamespace } from "../../address/search.ts";
import { requestJson } from "../../api/request.ts";
import { signOut, useRight, useSession } from "../../api/session.ts";
import { useLive, useNow } from "../../live/hooks.ts";
import { Button, Command, Hint, Segments } from "../../parts/buttons.tsx";
import { formatDuration } from "../../parts/format.ts";
import { Skeleton } from "../../parts/notices.tsx";
import { Facts, Page, Section } from "../../parts/page.tsx";
import { resetColumns } from "../../parts/table/column-choice.tsx";
import { setTheme, useChosenTheme } from "../../parts/theme.ts";
import "./settings.css";
import { type Column, Table } from "../../parts/table/table.tsx";

const MINUTE_MS = 60_000;

export function SettingsPage() {
  const session = useSession();
  const namespace = useNamespace();
  return (
    <Page title="Settings">
      {session === undefined ? (
        <Skeleton />
      ) : (
        <div className="stack gap-24 settings">
          <You session={session} />
          <Section title="What you may do">
            <p className="muted prose">
              {namespace === ""
                ? "In all namespaces. Choose a namespace to see your rights there."
                : `In namespace ${namespace}, and on machines of the cluster.`}
            </p>
            <RightsMatrix />
            <p className="muted small prose">
              Rights are those of your account in Kubernetes. An administrator grants them with Roles and
              RoleBindings.
            </p>
          </Section>
          <Appearance />
          <About session={session} />
          <Section title="Keyboard">
            <p>Press ? on any page to see all keys.</p>
          </Section>
        </div>
      )}
    </Page>
  );
}

function You({ session: { user, expiresAt, isReadOnly } }: { readonly session: Session }) {
  const live = useLive();
  const nowMs = useNow(MINUTE_MS);
  const leave = async (): Promise<void> => {
    await signOut();
    live.reconnect();
    location.reload();
  };
  const expires =
    expiresAt === undefined
      ? "The token states no end"
      : `in ${formatDuration(Date.parse(expiresAt) - nowMs)}`;
  return (
    <Section title="You" aside={<Button onClick={() => void leave()}>Sign out</Button>}>
      <Facts
        facts={[
          ["Signed in as", <bdi key="user">{user}</bdi>],
          ["Session ends", expires],
          [
            "Mode",
            isReadOnly
              ? "Read-only: nothing can be changed from this console"
              : "Changes are made with your own rights",
          ],
        ]}
      />
    </Section>
  );
}

function Appearance() {
  const theme = useChosenTheme();
  const [isReset, setIsReset] = useState(false);
  return (
    <Section title="Appearance">
      <div className="row">
        <Segments
          label="Theme"
          value={theme ?? "system"}
          options={[
            { id: "system", label: "System" },
            { id: "light", label: "Light" },
            { id: "dark", label: "Dark" },
          ]}
          onChange={(id) => setTheme(id === "light" || id === "dark" ? id : undefined)}
        />
      </div>
      <div className="row">
        <Button
          onClick={() => {
            resetColumns();
            setIsReset(true);
          }}
        >
          Show all columns again
        </Button>
        <span className="muted" aria-live="polite">
          {isReset && "All tables show all columns."}
        </span>
      </div>
    </Section>
  );
}

function About({ session: { version, gatewayUrl, hasGateway } }: { readonly session: Session }) {
  const { data } = useQuery({
    queryKey: ["kubernetes-version"],
    queryFn: ({ signal }) =>
      requestJson<{ readonly gitVersion?: string }>(`${CONSOLE_PATH}/k8s/version`, { signal }),
    staleTime: Number.POSITIVE_INFINITY,
  });
  return (
    <Section title="About">
      <Facts
        facts={[
          ["Version of the console", version],
          ["Version of Kubernetes", data?.gitVersion ?? "–"],
          ["Address of this server", <Command key="server">{location.origin}</Command>],
          [
            "Address of the gateway",
            hasGateway ? (
              <Command key="gateway">{gatewayUrl}</Command>
            ) : (
              "No gateway is configured: the playground is not available."
            ),
          ],
        ]}
      />
    </Section>
  );
}

const VERBS = { list: "See", create: "Create", patch: "Change", delete: "Delete" } as const;
type Verb = keyof typeof VERBS;

interface RightRow {
  readonly label: string;
  readonly resource: string;
  readonly group?: string;
  readonly subresource?: string;
  readonly isNamespaced: boolean;
  readonly verbs: readonly Verb[];
}

const ALL = ["list", "create", "patch", "delete"] as const;
const ROWS: readonly RightRow[] = [
  { label: "Services", resource: "inferenceservices", isNamespaced: true, verbs: ALL },
  { label: "Models", resource: "models", isNamespaced: true, verbs: ALL },
  { label: "Replicas", resource: "inferencereplicas", isNamespaced: true, verbs: ["list"] },
  { label: "Hosts", resource: "hosts", isNamespaced: false, verbs: ALL },
  { label: "Nodes", resource: "nodes", group: "", isNamespaced: false, verbs: ["list", "patch"] },
  { label: "Events", resource: "events", group: "", isNamespaced: true, verbs: ["list"] },
  {
    label: "Gateway keys (Secrets)",
    resource: "secrets",
    group: "",
    isNamespaced: true,
    verbs: ["list", "create"],
  },
];

/** What the reader may do, as a matrix of kinds and verbs. */
function RightsMatrix() {
  const namespace = useNamespace();
  return (
    <Table
      label="What you may do"
      rows={ROWS}
      keyOf={({ resource }) => resource}
      columns={columnsIn(namespace)}
      none=""
    />
  );
}

function columnsIn(namespace: string): readonly Column<RightRow>[] {
  return [
    {
      id: "resource",
      header: "Resource",
      cell: ({ label }) => label,
    },
    ...ALL.map((verb) => ({
      id: verb,
      header: VERBS[verb],
      cell: (row: RightRow) => <RightMark row={row} verb={verb} namespace={namespace} />,
    })),
  ];
}

function RightMark({
  row,
  verb,
  namespace,
}: {
  readonly row: RightRow;
  readonly verb: Verb;
  readonly namespace: string;
}) {
  if (!row.verbs.includes(verb)) return null;
  return <AskedMark row={row} verb={verb} namespace={namespace} />;
}

function AskedMark({
  row: { resource, group, isNamespaced },
  verb,
  namespace,
}: {
  readonly row: RightRow;
  readonly verb: Verb;
  readonly namespace: string;
}) {
  const { isAllowed, why = "" } = useRight({
    verb,
    resource,
    ...(group !== undefined && { group }),
    ...(isNamespaced && namespace !== "" && { namespace }),
  });
  if (isAllowed)
    return (
      <span className="line gap-4">
        <Check size={14} aria-hidden className="toned tone-ok" /> Yes
      </span>
    );
  return (
    <Hint text={why}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the reason must be reachable by the keyboard */}
      <span className="line gap-4 muted" tabIndex={0}>
        <Minus size={14} aria-hidden /> No
      </span>
    </Hint>
  );
}
