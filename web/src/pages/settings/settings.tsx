/** The page Settings: who the reader is and may do, how the console looks, what it talks to. */
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { CONSOLE_PATH, type Session } from "../../../../src/console/protocol.ts";
import { useNamespace } from "../../address/search.ts";
import { requestJson } from "../../api/request.ts";
import { signOut, useSession } from "../../api/session.ts";
import { useLive, useNow } from "../../live/hooks.ts";
import { Button } from "../../parts/button.tsx";
import { Command } from "../../parts/copy.tsx";
import { Facts } from "../../parts/facts.tsx";
import { formatDuration } from "../../parts/format.ts";
import { Skeleton } from "../../parts/notice.tsx";
import { Page, Section } from "../../parts/page.tsx";
import { Segments } from "../../parts/segments.tsx";
import { resetColumns } from "../../parts/table-columns.tsx";
import { setTheme, useChosenTheme } from "../../parts/theme.ts";
import { settingsText } from "../../texts/settings.ts";
import { text } from "../../texts/text.ts";
import { RightsMatrix } from "./rights-matrix.tsx";
import "./settings.css";

const MINUTE_MS = 60_000;

export function SettingsPage() {
  const session = useSession();
  const namespace = useNamespace();
  return (
    <Page title={text.pages.settings}>
      {session === undefined ? (
        <Skeleton />
      ) : (
        <div className="settings">
          <You session={session} />
          <Section title={settingsText.rights}>
            <p className="muted prose">{settingsText.rightsWhere(namespace)}</p>
            <RightsMatrix />
            <p className="muted small prose">{settingsText.rightsMissing}</p>
          </Section>
          <Appearance />
          <About session={session} />
          <Section title={settingsText.keyboard}>
            <p>{settingsText.keys}</p>
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
      ? settingsText.noExpiry
      : settingsText.expiresIn(formatDuration(Date.parse(expiresAt) - nowMs));
  return (
    <Section
      title={settingsText.you}
      aside={<Button onClick={() => void leave()}>{settingsText.signOut}</Button>}
    >
      <Facts
        facts={[
          [settingsText.user, <bdi key="user">{user}</bdi>],
          [settingsText.expires, expires],
          [settingsText.mode, isReadOnly ? settingsText.readOnly : settingsText.readWrite],
        ]}
      />
    </Section>
  );
}

function Appearance() {
  const theme = useChosenTheme();
  const [isReset, setIsReset] = useState(false);
  return (
    <Section title={settingsText.appearance}>
      <div className="row">
        <Segments
          label={settingsText.theme}
          value={theme ?? "system"}
          options={[
            { id: "system", label: settingsText.system },
            { id: "light", label: settingsText.light },
            { id: "dark", label: settingsText.dark },
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
          {settingsText.resetColumns}
        </Button>
        <span className="muted" aria-live="polite">
          {isReset && settingsText.columnsReset}
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
    <Section title={settingsText.about}>
      <Facts
        facts={[
          [settingsText.version, version],
          [settingsText.kubernetes, data?.gitVersion ?? "–"],
          [settingsText.server, <Command key="server">{location.origin}</Command>],
          [
            settingsText.gateway,
            hasGateway ? <Command key="gateway">{gatewayUrl}</Command> : settingsText.noGateway,
          ],
        ]}
      />
    </Section>
  );
}
