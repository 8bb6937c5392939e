/** Dialogs: the browser's own element, which keeps the focus inside and gives it back. */
import { type ComponentChildren } from 'preact';
import { useId, useLayoutEffect, useRef } from 'preact/hooks';

/** Open for as long as it is rendered. `onClose` is called for Escape and the cross; without it there is neither. */
export const Dialog = ({
  title,
  onClose,
  wide = false,
  children,
}: {
  readonly title: string;
  readonly onClose?: () => void;
  readonly wide?: boolean;
  readonly children: ComponentChildren;
}) => {
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();
  // Not after the next picture is drawn: a key pressed before that would go to the page below.
  useLayoutEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={element}
      class={wide ? 'wide' : ''}
      aria-labelledby={heading}
      onCancel={(event) => {
        event.preventDefault();
        onClose?.();
      }}
    >
      <header>
        <h2 id={heading}>{title}</h2>
        {onClose && (
          <button type="button" class="icon" aria-label="Close" onClick={onClose}>
            ×
          </button>
        )}
      </header>
      {children}
    </dialog>
  );
};
