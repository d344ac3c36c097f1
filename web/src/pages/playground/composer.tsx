/** Where the reader writes: text, images, Send and Stop. */
import { useQuery } from "@tanstack/react-query";
import { ImagePlus, SendHorizontal, Square, X } from "lucide-react";
import { type KeyboardEvent, type SyntheticEvent, useRef, useState } from "react";
import { type ApiObject, getObject } from "../../api/kube.ts";
import { Button, IconButton } from "../../parts/buttons.tsx";
import { formatBytes } from "../../parts/format.ts";
import { type Conversation, changeConversation, isBusy, send, stop } from "./conversation.ts";
import { canAsk, type Offer } from "./offers.ts";

/** The gateway takes bodies up to 32 MiB; base64 adds a third. */
const MAX_IMAGES_BYTES = 20 * 1024 * 1024;
const BASE64_SHARE = 3 / 4;
const MAX_LINES = 10;

export function Composer({
  conversation: { turns, draft, images },
  offer,
}: {
  readonly conversation: Conversation;
  /** The service that is asked. */
  readonly offer: Offer | undefined;
}) {
  const [problem, setProblem] = useState<string>();
  const blindness = useBlindness(offer);
  const last = turns.at(-1);
  const isAnswering = last?.role === "assistant" && isBusy(last);
  const hasContent = images.length > 0 ? blindness === undefined : draft.trim() !== "";
  const isReady = offer !== undefined && canAsk(offer) && !isAnswering && hasContent;
  const submit = (): void => {
    if (isReady) send();
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    submit();
  };
  const add = async (files: readonly File[]): Promise<void> => {
    const wrong = problemOf(files, images);
    setProblem(wrong);
    if (wrong === undefined)
      changeConversation({ images: [...images, ...(await Promise.all(files.map(dataUrl)))] });
  };
  /** Also for a model without sight: the browser would leave the page for a file that is dropped on it. */
  const take = (event: SyntheticEvent, { files }: DataTransfer): void => {
    if (files.length === 0) return;
    event.preventDefault();
    if (blindness === undefined) void add([...files]);
  };
  return (
    <section
      className="stack gap-8 composer"
      aria-label="Ask"
      onPaste={(event) => take(event, event.clipboardData)}
      onDrop={(event) => take(event, event.dataTransfer)}
      onDragOver={(event) => {
        if (event.dataTransfer.types.includes("Files")) event.preventDefault();
      }}
    >
      {images.length > 0 && <Images images={images} />}
      <textarea
        aria-label="Message"
        placeholder="Write a message"
        rows={Math.min(MAX_LINES, Math.max(2, draft.split("\n").length))}
        value={draft}
        dir="auto"
        onChange={({ target }) => changeConversation({ draft: target.value })}
        onKeyDown={onKey}
      />
      <div className="spread">
        {blindness === undefined ? (
          <AttachButton onAdd={(files) => void add(files)} />
        ) : (
          <span className="muted small">{blindness}</span>
        )}
        {isAnswering ? (
          <Button icon={<Square size={14} aria-hidden />} onClick={stop}>
            Stop
          </Button>
        ) : (
          <Button
            look="primary"
            icon={<SendHorizontal size={14} aria-hidden />}
            disabled={!isReady}
            onClick={submit}
          >
            Send
          </Button>
        )}
      </div>
      {problem !== undefined && (
        <p className="field-error" role="alert">
          {problem}
        </p>
      )}
    </section>
  );
}

function problemOf(files: readonly File[], images: readonly string[]): string | undefined {
  if (!files.every(({ type }) => type.startsWith("image/"))) return "Only images can be attached.";
  const bytes =
    files.reduce((sum, { size }) => sum + size, 0) +
    images.reduce((sum, { length }) => sum + length * BASE64_SHARE, 0);
  return bytes > MAX_IMAGES_BYTES
    ? `The images of a message may have ${formatBytes(MAX_IMAGES_BYTES)} together. Use smaller ones.`
    : undefined;
}

function Images({ images }: { readonly images: readonly string[] }) {
  return (
    <ul className="row">
      {images.map((url, index) => (
        <li key={url} className="composer-image">
          <img src={url} alt="" />
          <IconButton
            label="Remove the image"
            onClick={() => changeConversation({ images: images.toSpliced(index, 1) })}
          >
            <X size={14} aria-hidden />
          </IconButton>
        </li>
      ))}
    </ul>
  );
}

function AttachButton({ onAdd }: { readonly onAdd: (files: readonly File[]) => void }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <input
        ref={input}
        type="file"
        accept="image/*"
        multiple
        hidden
        onChange={({ target }) => {
          onAdd([...(target.files ?? [])]);
          target.value = "";
        }}
      />
      <Button look="quiet" icon={<ImagePlus size={16} aria-hidden />} onClick={() => input.current?.click()}>
        Attach an image
      </Button>
    </>
  );
}

function dataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

interface ModelObject extends ApiObject {
  readonly spec?: { readonly mmproj?: string };
}

interface ServiceObject extends ApiObject {
  readonly spec?: { readonly modelRefs?: readonly { readonly role?: string }[] };
}

/** On llama.cpp a model sees with the projector of its Model, or of the service. Other runtimes read that from the weights, and refuse images if it cannot. */
const NEEDS_PROJECTOR: ReadonlySet<string> = new Set(["llamacpp", ""]);

/** Undefined if it does, or if the reader may not know; else the reason. */
function useBlindness(offer: Offer | undefined): string | undefined {
  const { runtime = "", namespace = "", name = "", model = "" } = offer?.row ?? {};
  const needsProjector = NEEDS_PROJECTOR.has(runtime);
  const { data: hasProjector, isLoading } = useQuery({
    queryKey: ["playground", "sight", namespace, name, model],
    queryFn: async ({ signal }) => {
      const read = <T extends ApiObject>(resource: string, object: string) =>
        getObject<T>({ resource, namespace, name: object }, signal);
      const { spec } = await read<ServiceObject>("inferenceservices", name);
      if (spec?.modelRefs?.some(({ role }) => role === "projector") === true) return true;
      return (await read<ModelObject>("models", model)).spec?.mmproj !== undefined;
    },
    enabled: offer?.row !== undefined && needsProjector,
    staleTime: 60_000,
    retry: false,
  });
  if (offer === undefined || isLoading) return "";
  return hasProjector === false ? "No images: the model has no projector." : undefined;
}
