/** The frame of every page: rail, top bar, state of the link, content, and the keys of the whole console. */

import { Link, lazyRouteComponent, Outlet, useNavigate, useSearch } from "@tanstack/react-router";
import { Ellipsis, Moon, Plus, Search as SearchIcon, Sun, UserRound } from "lucide-react";
import { DropdownMenu } from "radix-ui";
import { Suspense, useCallback, useEffect, useState } from "react";
import { keepNamespace, OnlyNamespace, type Search, useNamespace, useSetSearch } from "../address/search.ts";
import { type Sight, useSight } from "../address/sight.ts";
import { signOut, useRight, useSession } from "../api/session.ts";
import { useLink, useLive, useNow } from "../live/hooks.ts";
import { Button, Hint, IconButton } from "../parts/buttons.tsx";
import { Dialog } from "../parts/dialogs.tsx";
import { formatDuration } from "../parts/format.ts";
import { Failure } from "../parts/notices.tsx";
import { setTheme, useTheme } from "../parts/theme.ts";
import { COMMAND_KEY, NAVIGATION, type NavigationItem } from "./navigation.ts";
import { SignIn } from "./sign-in.tsx";
import "./frame.css";
import { To } from "../address/to.tsx";
import { Tag } from "../parts/states.tsx";

const Palette = lazyRouteComponent(() => import("./palette.tsx"), "Palette");
const KeyHelp = lazyRouteComponent(() => import("./palette.tsx"), "KeyHelp");
const Deploy = lazyRouteComponent(() => import("../pages/deploy/deploy.tsx"), "Deploy");

export function Frame() {
  const [overlay, setOverlay] = useState<"palette" | "help">();
  const openPalette = useCallback(() => setOverlay("palette"), []);
  const openHelp = useCallback(() => setOverlay("help"), []);
  const close = useCallback(() => setOverlay(undefined), []);
  useShortcuts({ openPalette, openHelp });
  const search = useSearch({ strict: false }) as Search;
  const setSearch = useSetSearch();
  const sight = useSight();
  const [first = "", ...more] = sight.namespaces;
  return (
    <OnlyNamespace value={sight.isNarrow && more.length === 0 ? first : ""}>
      <div className="frame">
        <a href="#content" className="skip">
          Skip to content
        </a>
        <Rail sight={sight} />
        <TopBar onSearch={openPalette} />
        <main id="content" className="content" tabIndex={-1}>
          {sight.missing !== "" && <p className="sight small muted prose">{sight.missing}</p>}
          <Outlet />
        </main>
        <PhoneBar />
        <SignIn />
        <Suspense>
          {overlay === "palette" && <Palette onClose={close} />}
          {overlay === "help" && <KeyHelp onClose={close} />}
          {search.deploy !== undefined && (
            <Deploy choice={search.deploy} onClose={() => setSearch({ deploy: undefined })} />
          )}
        </Suspense>
      </div>
    </OnlyNamespace>
  );
}

function Rail({ sight }: { readonly sight: Sight }) {
  return (
    <nav className="rail" aria-label="Metalbridge">
      <To path="/" className="brand">
        <img src="/console/icon.svg" alt="" width={20} height={20} />
        <span>Metalbridge</span>
      </To>
      <ul>
        {NAVIGATION.map((item) => (
          <li key={item.to}>
            <RailLink item={item} />
          </li>
        ))}
      </ul>
      <NamespaceChoice sight={sight} />
    </nav>
  );
}

function RailLink({ item: { to, label, icon: Icon } }: { readonly item: NavigationItem }) {
  return (
    <Link
      to={to as "/"}
      search={keepNamespace}
      className="rail-link"
      title={label}
      activeOptions={{ exact: to === "/", includeSearch: false }}
      activeProps={{ "aria-current": "page" }}
    >
      <Icon size={16} aria-hidden />
      <span>{label}</span>
    </Link>
  );
}

function NamespaceChoice({ sight: { namespaces, isNarrow } }: { readonly sight: Sight }) {
  const namespace = useNamespace();
  const setSearch = useSetSearch();
  const names = new Set(namespaces);
  const isOnly = isNarrow && names.size === 1;
  if (namespace !== "") names.add(namespace);
  return (
    <label className="stack gap-4 namespace">
      <span className="small muted">Namespace</span>
      <select value={namespace} onChange={({ target }) => setSearch({ ns: target.value })}>
        {!isOnly && <option value="">{isNarrow ? "All that you may see" : "All namespaces"}</option>}
        {[...names].sort().map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

function TopBar({ onSearch }: { readonly onSearch: () => void }) {
  const theme = useTheme();
  const session = useSession();
  const setSearch = useSetSearch();
  const namespace = useNamespace();
  // Without a namespace the dialog itself asks, for the one that is chosen there.
  const mayDeploy = useRight({ verb: "create", resource: "inferenceservices", namespace });
  return (
    <header className="spread topbar">
      <button type="button" className="search" onClick={onSearch}>
        <SearchIcon size={14} aria-hidden />
        <span>Search or jump to…</span>
        <kbd>{COMMAND_KEY}</kbd>
      </button>
      <div className="line gap-4 topbar-end">
        {session?.isReadOnly === true && <Tag>Read-only</Tag>}
        <LinkMark />
        <IconButton
          label={theme === "dark" ? "Use the light theme" : "Use the dark theme"}
          onClick={() => setTheme(theme === "dark" ? "light" : "dark")}
        >
          {theme === "dark" ? <Sun size={16} aria-hidden /> : <Moon size={16} aria-hidden />}
        </IconButton>
        {session !== undefined && <Account user={session.user} />}
        <Button
          look="primary"
          disabled={session === undefined}
          right={namespace === "" ? undefined : mayDeploy}
          icon={<Plus size={14} aria-hidden />}
          onClick={() => setSearch({ deploy: "new" })}
        >
          <span className="wide-only">Deploy a model</span>
          <span className="phone-only">Deploy</span>
        </Button>
      </div>
    </header>
  );
}

function Account({ user }: { readonly user: string }) {
  const live = useLive();
  const [failure, setFailure] = useState<Error>();
  const leave = async (): Promise<void> => {
    try {
      await signOut();
      live.forget();
      location.reload();
    } catch (cause) {
      setFailure(cause instanceof Error ? cause : new Error(String(cause)));
    }
  };
  return (
    <DropdownMenu.Root>
      <Dialog
        title="You are still signed in"
        isOpen={failure !== undefined}
        onClose={() => setFailure(undefined)}
      >
        {failure !== undefined && <Failure error={failure} />}
      </Dialog>
      <DropdownMenu.Trigger asChild>
        <IconButton label="Account">
          <UserRound size={16} aria-hidden />
        </IconButton>
      </DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content className="menu" align="end" sideOffset={4}>
          <DropdownMenu.Label className="menu-label small muted">{user}</DropdownMenu.Label>
          <DropdownMenu.Separator className="menu-line" />
          <DropdownMenu.Item className="menu-item" onSelect={() => void leave()}>
            Sign out
          </DropdownMenu.Item>
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}

/** On phones: four pages, the others behind More. */
function PhoneBar() {
  const rest = NAVIGATION.filter(({ isOnPhone = false }) => !isOnPhone);
  return (
    <nav className="phone-bar" aria-label="Metalbridge">
      {NAVIGATION.filter(({ isOnPhone = false }) => isOnPhone).map((item) => (
        <RailLink key={item.to} item={item} />
      ))}
      <DropdownMenu.Root>
        <DropdownMenu.Trigger className="rail-link">
          <Ellipsis size={16} aria-hidden />
          <span>More</span>
        </DropdownMenu.Trigger>
        <DropdownMenu.Portal>
          <DropdownMenu.Content className="menu" align="end" sideOffset={8}>
            {rest.map(({ to, label, icon: Icon }) => (
              <DropdownMenu.Item key={to} asChild className="menu-item">
                <To path={to}>
                  <Icon size={16} aria-hidden />
                  {label}
                </To>
              </DropdownMenu.Item>
            ))}
          </DropdownMenu.Content>
        </DropdownMenu.Portal>
      </DropdownMenu.Root>
    </nav>
  );
}

/** Shows how current the page is. */
function LinkMark() {
  const live = useLive();
  const link = useLink();
  const nowMs = useNow();
  const age = "sinceMs" in link ? formatDuration(nowMs - link.sinceMs) : "";
  const word = {
    connecting: "Connecting",
    live: "Live",
    reconnecting: `Reconnecting · ${age}`,
    away: `API server away · ${age}`,
    "signed-out": "Signed out",
  }[link.at];
  const why = {
    connecting: "Changes in the cluster appear here as they happen.",
    live: "Changes in the cluster appear here as they happen.",
    reconnecting: `${`Data is ${age} old: ${"why" in link ? link.why : ""}. The console reconnects automatically.`} Reconnect now.`,
    away: `Data is ${age} old: the API server of the cluster does not answer. The console continues once it does.`,
    "signed-out": "Changes in the cluster appear here as they happen.",
  }[link.at];
  return (
    <Hint text={why}>
      <button
        type="button"
        className={`link-mark link-${link.at}`}
        onClick={() => live.reconnect()}
        aria-live="polite"
      >
        <span className="link-dot" aria-hidden />
        <span className="link-word">{word}</span>
      </button>
    </Hint>
  );
}

/** Between g and the letter of the page. */
const CHORD_MS = 1_200;

interface ShortcutActions {
  readonly openPalette: () => void;
  readonly openHelp: () => void;
}

/** Keys of the whole console. They rest while the reader types. */
function useShortcuts({ openPalette, openHelp }: ShortcutActions): void {
  const navigate = useNavigate();
  useEffect(() => {
    let chordUntilMs = 0;
    const press = (event: KeyboardEvent): void => {
      const isCommand = event.metaKey || event.ctrlKey;
      const act = isCommand ? commandOf(event.key) : event.altKey ? undefined : actionOf(event);
      if (act === undefined) return;
      event.preventDefault();
      act();
    };
    const commandOf = (key: string) => (key.toLowerCase() === "k" ? openPalette : undefined);
    const actionOf = (event: KeyboardEvent): (() => void) | undefined => {
      if (isTyping(event.target)) return undefined;
      const page = event.timeStamp < chordUntilMs ? pageOf(event.key) : undefined;
      chordUntilMs = event.key === "g" ? event.timeStamp + CHORD_MS : 0;
      if (page !== undefined) return () => void navigate({ to: page as "/", search: keepNamespace });
      return { "/": openPalette, "?": openHelp, j: firstRow(), k: firstRow() }[event.key];
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, [navigate, openPalette, openHelp]);
}

/** The table moves the focus itself once one of its rows has it. */
function firstRow(): (() => void) | undefined {
  const row = document.querySelector<HTMLElement>("[role=table] a[data-index]");
  if (row === null || document.activeElement?.matches("[data-index]") === true) return undefined;
  return () => row.focus();
}

function pageOf(key: string): string | undefined {
  return NAVIGATION.find((item) => item.key === key)?.to;
}

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    target.closest("input, textarea, select, [contenteditable], [role=dialog]") !== null
  );
}
