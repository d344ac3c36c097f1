/** Names and messages of a synthetic farm: those that tempt a page to break, or plain ones for pictures. */
import { AWKWARD, longName } from "./awkward-texts.ts";

export interface SyntheticTexts {
  readonly namespaces: readonly string[];
  readonly hostName: (index: number) => string;
  readonly chip: (index: number, chip: string) => string;
  readonly serviceName: (index: number, model: string) => string;
  readonly message: (index: number, message: string) => string;
}

const DIGITS = 4;

export const awkwardTexts: SyntheticTexts = {
  namespaces: ["default", "research", longName("team-with-a-name", 63)],
  hostName: (index) =>
    index === 3
      ? longName("mac-studio-in-the-basement", 63)
      : `mac-${String(index + 1).padStart(DIGITS, "0")}`,
  chip: (index, chip) => (index === 5 ? `${chip} ${AWKWARD[0]}`.slice(0, 128) : chip),
  serviceName: (index, model) =>
    index === 4 ? longName("assistant-for-everyone", 49) : `${model.replaceAll(".", "-")}-${index + 1}`,
  // One in ten messages is of the kind that no page expects.
  message: (index, message) =>
    index % 10 === 1 ? `${message} ${AWKWARD[((index / 10) | 0) % AWKWARD.length]}` : message,
};

/** In the order of the models: every fifth of six is one of embeddings, every fourth one of code. */
const NAMES = [
  ...["assistant", "contracts", "captions", "code-review", "search", "translation"],
  ...["support", "reports", "tags", "autocomplete", "knowledge", "letters"],
  ...["minutes", "planning", "triage", "test-writer", "tickets", "proofreading"],
  ...["tutor", "analysis", "summaries", "refactoring", "archive", "mail-drafts"],
];

export const plainTexts: SyntheticTexts = {
  namespaces: ["default", "research", "support"],
  hostName: (index) => `mac-${String(index + 1).padStart(2, "0")}`,
  chip: (_, chip) => chip,
  serviceName: (index) => {
    const round = Math.floor(index / NAMES.length);
    return `${NAMES[index % NAMES.length]}${round === 0 ? "" : `-${round + 1}`}`;
  },
  message: (_, message) => message,
};
