/** Code to copy: of an answer, and of the request itself. */
import { useState } from "react";
import { useSession } from "../../api/session.ts";
import { CopyButton, Segments } from "../../parts/buttons.tsx";
import { Dialog } from "../../parts/dialogs.tsx";
import { type SnippetRequest, snippet } from "./request.ts";

const LANGUAGES = [
  { id: "curl", label: "curl" },
  { id: "python", label: "Python" },
] as const;

export function CodeDialog({
  request,
  onClose,
}: {
  readonly request: Omit<SnippetRequest, "gatewayUrl">;
  readonly onClose: () => void;
}) {
  const [language, setLanguage] = useState<(typeof LANGUAGES)[number]>(LANGUAGES[0]);
  const gatewayUrl = useSession()?.gatewayUrl ?? "";
  return (
    <Dialog
      title="The same request in code"
      description="Put a key of the gateway in place of mbk_YOUR_KEY."
      isOpen
      onClose={onClose}
      size="large"
    >
      <div className="row">
        <Segments
          label="The same request in code"
          value={language.id}
          options={LANGUAGES}
          onChange={(id) => setLanguage(LANGUAGES.find((one) => one.id === id) ?? LANGUAGES[0])}
        />
      </div>
      <CodeBlock language={language.label} text={snippet(language.id, { ...request, gatewayUrl })} />
    </Dialog>
  );
}

export function CodeBlock({ language, text }: { readonly language: string; readonly text: string }) {
  return (
    <figure className="panel code">
      <figcaption className="spread">
        <span className="muted small">{language === "" ? "code" : language}</span>
        <CopyButton value={text} label="Copy the code" />
      </figcaption>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a block that scrolls is reached by keyboard */}
      <pre tabIndex={0}>
        <code dir="ltr">{text}</code>
      </pre>
    </figure>
  );
}
