/** Texts that somebody else has written: names, tags, owners, errors. */

/**
 * A text as it is: never markup, its direction its own (an Arabic name does not turn its row around), and its combining
 * characters kept inside its box. `of` says what it is where it is empty.
 */
export const Name = ({ text, of = 'no text' }: { readonly text: string; readonly of?: string }) =>
  text === '' ? (
    <span class="faint">{of}</span>
  ) : (
    <bdi class="name" dir="auto">
      {text}
    </bdi>
  );
